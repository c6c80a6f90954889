"""PyTorch modules become modules of ours: names, lines, sizes, training, files, refusals."""

import pickle
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import cli, trust
from luminal_lab.errors import DeviceError, TrustError

HERE = __file__


def modules(torch: Any) -> Any:
    """Return the classes of this file, whose lines the tests look for."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(64, 64)
            self.norm = nn.LayerNorm(64)

        def forward(self, x):
            y = self.fc(x).relu()
            return x + self.norm(y) * 2.0

    class Net(nn.Module):
        """Two blocks, a table that is not saved, and several results."""

        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(32, 64)
            self.blocks = nn.ModuleList(Block() for _ in range(2))
            self.head = nn.Linear(64, 32, bias=False)
            self.head.weight = self.words.weight
            self.register_buffer("angles", torch.linspace(0, 1, 512)[:, None], persistent=False)

        def forward(self, ids, *, scale=1.0, mask=None):
            x = self.words(ids) + self.angles[: ids.shape[1]]
            for block in self.blocks:
                x = block(x)
            if mask is not None:
                x = x.masked_fill(mask[..., None], torch.tensor(-1.0))
            return {"logits": self.head(x) * scale, "rest": (x.sum(-1), None)}

    return Block, Net


@pytest.fixture(scope="module")
def net(torch):
    torch.manual_seed(0)
    return modules(torch)[1]().eval()


@pytest.fixture(scope="module")
def model(torch, net):
    ids = torch.randint(0, 32, (2, 7))
    inputs = {"ids": ids, "mask": torch.zeros(2, 7, dtype=torch.bool)}
    names = ("batch", "seq")
    return ll.from_torch(net, inputs, dynamic={"ids": names, "mask": names})


def test_it_is_called_as_the_authors_module_is(torch, net, model):
    for size in [(3, 11), (1, 1), (2, 512)]:
        cx = ll.Graph()
        ids, mask = torch.randint(0, 32, size), torch.rand(size) < 0.3
        own = cx.tensor(("b", cx.dim("s", high=512)), "int64").set(ids.numpy())
        out = model(own, mask=cx.tensor(own.shape, "bool").set(mask.numpy()))
        cx.retrieve([out["logits"], out["rest"][0]])
        cx.execute()
        wanted = net(ids, mask=mask)
        assert out["rest"][1] is None
        np.testing.assert_allclose(out["logits"].numpy(), wanted["logits"].detach(), atol=1e-3)
        np.testing.assert_allclose(out["rest"][0].numpy(), wanted["rest"][0].detach(), atol=1e-4)


def test_values_have_the_authors_names(net, model):
    saved = net.state_dict()
    assert sorted(model.state_dict()) == sorted(name for name in saved if name != "head.weight")
    for name, value in model.state_dict().items():
        assert (value == saved[name].numpy()).all()
    assert model.load_state_dict({n: v.numpy() for n, v in saved.items()}).missing == ()
    assert dict(model.named_values())["head.weight"].shape == (32, 64)
    assert "0 … 1: 2 × Block  4,288 parameters each" in repr(model)
    assert sorted(ll.quantise(model)) == [
        "blocks.0.fc.weight",
        "blocks.1.fc.weight",
        "words.weight",
    ]
    ll.quantise(model, None)


def test_nodes_lead_to_the_authors_lines(model):
    cx = ll.Graph()
    model(**model.tensors(cx))
    by_scope = {}
    for node in cx.ir.nodes:
        if node.meta.origin is not None and node.meta.origin.file == HERE:
            by_scope.setdefault(node.meta.scope, set()).add(node.meta.origin.text)
    assert by_scope["net.blocks.1"] == {
        "y = self.fc(x).relu()",
        "return x + self.norm(y) * 2.0",
    }
    assert by_scope["net.blocks.1.fc"] == {"y = self.fc(x).relu()"}
    lines = Path(HERE).read_text(encoding="utf-8").splitlines()
    for node in cx.ir.nodes:
        origin = node.meta.origin
        if origin is not None and origin.file == HERE:
            assert lines[origin.line - 1].strip() == origin.text


def test_dims_have_names_and_bounds(model):
    ids = model.tensors(ll.Graph())["ids"]
    assert str(ids.shape) == "(batch, seq)"
    assert (ids.shape[0].high, ids.shape[1].high) == (None, 512)
    cx = ll.Graph()
    with pytest.raises(ll.DimError, match="seq was exported for at most 512, and s may be more"):
        model(cx.tensor((2, "s"), "int64"), mask=cx.tensor((2, "s"), "bool"))
    with pytest.raises(ll.ShapeError, match=r"axis 1 of .* is 6, and must be seq, which is 5"):
        model(cx.tensor((2, 5), "int64"), mask=cx.tensor((2, 6), "bool"))


def test_what_varies_only_in_steps(torch):
    class Halves(torch.nn.Module):
        def forward(self, x):
            n = x.shape[0] // 4
            y = torch.nn.functional.interpolate(x[None, None, : 4 * n], scale_factor=2.0)
            return y[0, 0, n:-n].reshape(-1, 2), x[: max(n, 3)], x[2 : x.shape[0] // 2]

    rows = ll.Symbol("rows", 8, 64, 8)
    model = ll.from_torch(Halves(), torch.arange(16.0), dynamic={"x": (rows,)})
    for size in (8, 24):
        cx = ll.Graph()
        dim = cx.dim("m", 8, 64, multiple_of=8)
        x = torch.arange(float(size))
        mine = model(cx.tensor((dim,)).set(x.numpy()))
        cx.retrieve(list(mine))
        cx.execute()
        for own, theirs in zip(mine, Halves()(x), strict=True):
            assert (own.numpy() == theirs.numpy()).all()
    with pytest.raises(ll.DimError, match="12 is not a multiple of 8"):
        model(ll.Graph().tensor((12,)))


def test_gradients_are_pytorchs(torch):
    block = modules(torch)[0]()
    x = torch.randn(3, 64)
    model = ll.from_torch(block, x, dynamic={"x": ("rows", None)})
    cx = ll.Graph()
    y = model(cx.tensor((3, 64)).set(x.numpy()))
    slopes = ll.grad((y * y).sum(), model.parameters())
    cx.retrieve(slopes)
    cx.execute()
    block(x).square().sum().backward()
    for name, value in block.named_parameters():
        np.testing.assert_allclose(slopes[name].numpy(), value.grad.numpy(), rtol=1e-3, atol=1e-3)


def test_a_module_in_training_moves_its_buffers(torch):
    norm = torch.nn.BatchNorm1d(3)
    model = ll.from_torch(norm, torch.randn(4, 3), dynamic={"input": ("rows", None)})
    cx = ll.Graph()
    x = cx.tensor((5, 3))
    y = model(x).retrieve()
    for seed in range(3):
        data = torch.randn(5, 3, generator=torch.Generator().manual_seed(seed))
        x.set(data.numpy())
        cx.execute()
        np.testing.assert_allclose(y.numpy(), norm(data).detach(), atol=1e-5)
    cx.execute()  # what is carried arrives with the next run
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        mine = cx.parameter(model.buffers()[name])
        assert name in norm.state_dict(), mine


def test_an_exported_program_and_its_file(torch, net, tmp_path, capsys):
    ids = torch.randint(0, 32, (2, 7))
    free = {"ids": {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}}
    program = torch.export.export(net, (ids,), dynamic_shapes=free)
    model = ll.from_torch(program, dynamic={"ids": ("batch", "seq")})
    assert str(model.types["ids"]) == "i64[batch, seq]"
    path = tmp_path / "net.pt2"
    torch.export.save(program, path)
    with pytest.raises(TrustError) as caught:
        ll.from_torch(path)
    assert "an exported program, which PyTorch unpickles: unpickling can run anything" in str(
        caught.value
    )
    assert caught.value.carried[0].first == "net.pt2"
    other = path.rename(tmp_path / "net.program")
    assert cli.main(["trust", str(other), "--show"]) == 0
    assert "net.program may run" in capsys.readouterr().out
    other.rename(path)
    assert cli.main(["trust", str(path), "--show"]) == 0
    assert "net.pt2 may run anything while it is unpickled" in capsys.readouterr().out
    read = ll.from_torch(str(path), trust=True)
    try:
        assert [step.target for step in read.steps] == [step.target for step in model.steps]
        assert (read.state_dict()["words.weight"] == net.words.weight.detach().numpy()).all()
        lines = {step.origin for step in read.steps if step.origin and step.origin.file == HERE}
        assert "y = self.fc(x).relu()" in {origin.text for origin in lines}
    finally:
        trust.unsign(caught.value.carried)


def test_a_file_that_would_run_something_does_not(torch, tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "mark"), "w"))

    path = tmp_path / "evil.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/models/model.json", "{}")
        archive.writestr("m/data/weights/weight_0", pickle.dumps(Evil()))
    with pytest.raises(TrustError):
        ll.from_torch(path)
    path.write_bytes(pickle.dumps(Evil()))
    for given in (False, True):
        with pytest.raises(ll.InputError, match="run whatever its author wrote"):
            ll.from_torch(path, trust=given)
    assert not (tmp_path / "mark").exists()


def test_a_file_that_is_none(torch, tmp_path):
    path = tmp_path / "net.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/models/model.json", "{}")
    with pytest.raises(ll.ModelError, match="PyTorch cannot load"):
        ll.from_torch(path, trust=True)
    for data, kind, said in (
        (b"nothing", ll.InputError, "is nothing that is known here"),
        (b"luminal_lab recording 1\n", ll.ModelError, "is a recording, and not a program of"),
    ):
        path.write_bytes(data)
        with pytest.raises(kind, match=said):
            ll.from_torch(path, trust=True)
    with pytest.raises(ll.InputError, match="there is no"):
        ll.from_torch(tmp_path / "other.pt2", trust=True)


class Uses:
    """Modules that cannot be imported, or are given wrongly."""

    def __init__(self, torch: Any) -> None:
        class Nonzero(torch.nn.Module):
            def forward(self, x):
                return x[x > 0].sum()

        class Writes(torch.nn.Module):
            def forward(self, x):
                x += 1
                return x * 2

        class Fourier(torch.nn.Module):
            def forward(self, x):
                return torch.fft.rfft(x).abs()

        class Complex(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = torch.nn.Parameter(torch.zeros(3, dtype=torch.complex64))

            def forward(self, x):
                return (self.w * x).real

        class Branch(torch.nn.Module):
            def forward(self, x):
                return x * 2 if x.sum() > 0 else x

        self.nonzero, self.writes, self.fourier = Nonzero(), Writes(), Fourier()
        self.complex, self.branch = Complex(), Branch()


REFUSALS = {
    "nonzero": ("aten.index.Tensor cannot be imported: a mask chooses elements", True),
    "writes": ("forward writes into its argument x", False),
    "fourier": ("aten._fft_r2c.default cannot be imported: there are no complex numbers", True),
    "complex": ("w is complex64, a dtype that there is not here", False),
    "branch": ("torch.export cannot export Branch", True),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_module_that_cannot_be_imported(torch, name):
    text, has_line = REFUSALS[name]
    with pytest.raises(ll.LabError) as caught:
        ll.from_torch(getattr(Uses(torch), name), torch.ones(3))
    assert text in str(caught.value)
    assert HERE in (caught.value.where or "") or not has_line


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_wrong_arguments(torch, net, monkeypatch):
    ids = torch.zeros(1, 2, dtype=torch.int64)
    wrong = [
        ((3,), {}, "3 is no PyTorch module"),
        ((net,), {}, "inputs are missing"),
        ((net, {"idz": ids}), {}, "Net.forward has no argument 'idz'"),
        ((net, (ids, ids, ids)), {}, "cannot be called with inputs: too many positional"),
        ((net, ll.Graph().tensor((1, 2))), {}, "ids is %0 (1, 2), a tensor of ours"),
        ((type(net), ids), {}, "make a module of it first"),
        ((net.state_dict(), ids), {}, "values is no PyTorch module"),
        ((torch.relu, ids), {}, "the function relu is no PyTorch module"),
        (
            (torch.jit.trace(torch.nn.Linear(4, 2), torch.zeros(1, 4)), ids),
            {},
            "a module of TorchScript cannot be exported",
        ),
        ((torch.export.export(net, (ids,)), ids), {}, "was exported with its own"),
        ((net, ids, ["batch"]), {}, "dynamic is ['batch']"),
        ((net, ids, {"ids": (1, 2)}), {}, "dynamic['ids'] names axis 0 1"),
        ((net, ids, {"idz": ("a",)}), {}, "dynamic names the argument 'idz'"),
        ((net, ids, {"ids": "batch"}), {}, "dynamic['ids'] is 'batch'"),
        ((net, ids, {"ids": (None, None, "c")}), {}, "names axis 2, and the tensor has 2"),
        ((net, ids, {"ids": ("b",)}), {}, "dynamic['ids'] names 1 axis, and the tensor has 2"),
        ((net, {"ids": ids, "scale": 2.0}, {"scale": ("b",)}), {}, "and the argument is 2.0"),
        ((net, ids), {"trust": 1}, "trust is 1"),
    ]
    for args, kwargs, text in wrong:
        with pytest.raises(ll.ArgumentError) as caught:
            ll.from_torch(*args, **kwargs)
        assert text in str(caught.value)

    def without(name: str) -> Any:
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'")
        return import_module(name)

    monkeypatch.setattr("luminal_lab.importing.torch_export.import_module", without)
    with pytest.raises(DeviceError, match="PyTorch is not installed"):
        ll.from_torch(net, ids)


def test_an_axis_that_the_module_fixes_cannot_vary(torch):
    class Fixed(torch.nn.Module):
        def forward(self, x):
            return x.reshape(2, 3)

    wanted = "axis 0 of x cannot vary: the module is made for the size 6"
    with pytest.raises(ll.ModelError, match=wanted):
        ll.from_torch(Fixed(), torch.zeros(6), dynamic={"x": ("n",)})


def test_a_branch_by_values_is_told_in_our_words_alone(torch, capfd):
    with pytest.raises(ll.ModelError) as caught:
        ll.from_torch(Uses(torch).branch, torch.ones(3))
    assert "a size or a branch depends on the values of a tensor" in str(caught.value)
    assert 'torch.compile(module, backend="luminal_lab")' in str(caught.value)
    # A notebook shows torch's own traceback no more than the text does.
    assert len("".join(caught.value._render_traceback_()).splitlines()) == 3
    assert capfd.readouterr() == ("", "")


def test_an_error_of_the_modules_own_is_passed_on(torch):
    with pytest.raises(
        ll.ModelError, match=r"cannot export Linear: .*must have same reduction dim"
    ):
        ll.from_torch(torch.nn.Linear(4, 2), torch.zeros(3, 5))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_a_compiled_module_is_the_one_inside(torch, net):
    model = ll.from_torch(torch.compile(net), torch.zeros(1, 2, dtype=torch.int64))
    assert type(model).__name__ == type(net).__name__


def test_a_file_of_another_kind_leads_to_what_opens_it(torch, tmp_path):
    ll.nn.Linear(2, 3).save(tmp_path / "head.safetensors")
    with pytest.raises(ll.ModelError, match=r"is weights in safetensors, and not a program"):
        ll.from_torch(tmp_path / "head.safetensors", trust=True)


def test_arguments_of_any_number(torch):
    class Sum(torch.nn.Module):
        def forward(self, x, *others):
            return sum(others, x * 2)

    x, y, z = np.arange(36, dtype="float32").reshape(3, 4, 3)
    fixed = ll.from_torch(Sum(), (x, y))
    assert list(fixed.types) == ["x", "others_0"]
    rows = "rows", None
    model = ll.from_torch(Sum(), (x, y, z), dynamic={"x": rows, "others_0": rows, "others_1": rows})
    cx = ll.Graph()
    given = model.tensors(cx)
    result = model(**given).retrieve()
    for tensor, value in zip(given.values(), (x, y, z), strict=True):
        tensor.set(value[:2])
    cx.execute()
    np.testing.assert_array_equal(result.numpy(), (x * 2 + y + z)[:2])


def test_structures_of_arguments(torch):
    class Pair(torch.nn.Module):
        def forward(self, pair, more):
            return [pair[0] + more["a"], pair[1] - more["b"]]

    x, y = torch.ones(2), torch.ones(3)
    names = {"pair": (("n",), None), "more": {"a": ("n",)}}
    model = ll.from_torch(Pair(), ((x, y), {"a": x, "b": y}), dynamic=names)
    cx = ll.Graph()
    a, b = cx.tensor(("k",)), cx.tensor((3,))
    out = model((a, b), {"a": a, "b": b})
    assert [str(t.shape) for t in out] == ["(k,)", "(3,)"]
    wrong = {
        "dynamic['pair'] is for 1 tensor, and the argument has 2": {"pair": (("n",),)},
        "dynamic['more'] names 'c'": {"more": {"c": ("n",)}},
    }
    for text, named in wrong.items():
        with pytest.raises(ll.ArgumentError) as caught:
            ll.from_torch(Pair(), ((x, y), {"a": x, "b": y}), dynamic=named)
        assert text in str(caught.value)
        assert caught.value.hint


def test_values_of_pytorch_are_no_argument_of_a_model(torch, model):
    with pytest.raises(ll.GraphError) as caught:
        model(torch.zeros(1, 2, dtype=torch.int64))
    assert caught.value.message == (
        "net: needs a tensor of a graph, and is given PyTorch's tensor (1, 2)"
    )
    assert caught.value.hint == (
        'give cx.tensor((1, 2), "int64").set(values), with cx = ll.Graph()'
    )
    cx = ll.Graph()
    with pytest.raises(ll.ArgumentError, match=r"ids is PyTorch's tensor \(1, 2\), and not a"):
        model(torch.zeros(1, 2), mask=cx.tensor((1, 2), "bool"))
