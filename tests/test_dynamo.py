"""torch.compile's backend: found by name, eager's values, its aliasing, its training."""

import copy
import gc
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import dynamo
from luminal_lab.bench.studies.torch_models import MODELS
from tests.importing.test_zoo import drawn, leaves
from tests.importing.zoo import ZOO, made

# PyTorch's own modules warn of their own calls, and its tracer of what transformers caches.
pytestmark = [
    pytest.mark.needs("torch"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`"),
]
TRAINED = "gelu_mlp", "resnet", "gpt"


@pytest.fixture
def compiled(torch: Any) -> Any:
    """Compile a function anew, with none of PyTorch's caches of the last test."""
    torch._dynamo.reset()

    def compiling(function: Any, **options: Any) -> Any:
        return torch.compile(function, backend="luminal_lab", **options)

    yield compiling
    torch._dynamo.reset()


@pytest.fixture
def same(torch: Any) -> Any:
    """Compare tensors, within rounding."""

    def compare(got: Any, wanted: Any, off: float = 1e-5) -> None:
        torch.testing.assert_close(got, wanted, rtol=off, atol=off)

    return compare


@pytest.fixture
def as_eager(compiled: Any, same: Any, torch: Any) -> Any:
    """Call a function twice, compiled and not, each time with copies of its arguments."""

    def compare(function: Any, *given: Any, **options: Any) -> None:
        call = compiled(function, **options)
        for _ in range(2):
            mine = [a.clone() if isinstance(a, torch.Tensor) else a for a in given]
            theirs = [a.clone() if isinstance(a, torch.Tensor) else a for a in given]
            got, wanted = call(*mine), function(*theirs)
            same(got, wanted)
            for a, b in zip(leaves(got), leaves(wanted), strict=True):
                if a.numel():
                    assert a.stride() == b.stride()
            for a, b in zip(mine, theirs, strict=True):
                if isinstance(a, torch.Tensor):
                    same(a, b)  # what it writes into its arguments

    return compare


# -- how it is asked for ---------------------------------------------------------------------------


def test_pytorch_finds_it_without_an_import() -> None:
    code = (
        "import torch\n"
        "double = torch.compile(lambda x: x * 2, backend='luminal_lab')\n"
        "print(double(torch.ones(3)).tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True
    )
    assert done.stdout == "[2.0, 2.0, 2.0]\n", done.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"options": {"fall_back": "eager"}}, "there is no option 'fall_back'\nhint: did you mean"),
        ({"options": {"fallback": "none"}}, "the fallback is 'none'\nhint: it is 'error' or"),
        ({"mode": "max-autotune"}, "the mode is 'max-autotune', which is one of Inductor's"),
    ],
)
def test_a_wrong_option_is_an_error(torch, compiled, given, message):
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        compiled(lambda x: x * 2, **given)(torch.ones(3))
    assert f"ArgumentError: torch.compile: {message}" in str(caught.value)


def test_its_threads_are_those_of_the_compiler(torch, compiled, monkeypatch):
    asked: list[Any] = []

    def compiler(threads: Any) -> Any:
        asked.append(threads)
        return ll.CPUCompiler(threads=threads)

    monkeypatch.setattr(dynamo, "CPUCompiler", compiler)
    compiled(lambda x: x * 2, options={"threads": 1})(torch.ones(3))
    assert asked == [1]


# -- models ----------------------------------------------------------------------------------------


@pytest.mark.share("name", list(MODELS), 2)
def test_a_model_is_one_graph(torch, compiled, same, name):
    torch.manual_seed(0)
    module, inputs = MODELS[name](torch)
    before = {graph.number for graph in dynamo.captured()}
    call = compiled(module.eval(), fullgraph=True)
    with torch.no_grad():
        same(call(*inputs), module(*inputs))
    (graph,) = [graph for graph in dynamo.captured() if graph.number not in before]
    assert graph.kind == "inference"
    assert graph.ended is None


@pytest.mark.share("name", list(ZOO), 1)
def test_a_model_of_the_zoo_gives_what_pytorch_gives(torch, compiled, name):
    model = made(name)
    given = drawn(torch, model, model.sizes[0], 0)
    with torch.no_grad():
        got, wanted = (leaves(call(**given)) for call in (compiled(model.module), model.module))
    for a, b in zip(got, wanted, strict=True):
        assert float((a - b).abs().max()) <= model.tolerance * float(b.abs().max())


@pytest.mark.share("name", TRAINED, 1)
def test_training_has_the_losses_of_eager(torch, compiled, name):
    torch.manual_seed(0)
    module, inputs = MODELS[name](torch)
    losses: list[list[float]] = []
    for made_by in (lambda module: module, compiled):
        own = copy.deepcopy(module).train()
        call, optimiser = made_by(own), torch.optim.SGD(own.parameters(), 0.02, 0.9)
        losses.append([])
        for _ in range(20):
            optimiser.zero_grad()
            loss = (call(*inputs) - 0.5).square().mean()
            loss.backward()
            optimiser.step()
            losses[-1].append(loss.item())
    assert losses[0][-1] < losses[0][0]
    assert np.abs(np.subtract(losses[0], losses[1])).max() < 1e-4


# -- sizes -----------------------------------------------------------------------------------------


def test_other_sizes_are_compiled_anew(torch, compiled, same):
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
    call = compiled(module, dynamic=True)
    with torch.no_grad():
        for rows in (2, 3, 7, 2):
            x = torch.randn(rows, 8)
            same(call(x), module(x))
    assert len(dynamo.captured()[-1].sessions) == 3


def test_the_sizes_that_are_kept_are_the_last_ones(torch, compiled, monkeypatch):
    monkeypatch.setattr(dynamo, "MOST_SIZES", 2)
    call = compiled(lambda x: x * 2, dynamic=True)
    for rows in (2, 3, 2, 4):
        call(torch.ones(rows))
    sizes = [next(iter(session.ir.inputs)).shape for session in dynamo.captured()[-1].sessions]
    assert sizes == [(2,), (4,)]


def test_sizes_and_numbers_are_arguments(torch, compiled, same):
    def function(x: Any, count: int, scale: float) -> Any:
        y = x[:count].T.sin()
        return y * scale, y[1:], x.shape[0] * 2, y.split(2)

    call = compiled(function, dynamic=True)
    for count, scale in ((3, 0.5), (4, 1.5), (5, 2.5)):
        x = torch.randn(count + 3, 4)
        same(call(x, count, scale), function(x, count, scale))


# -- memory ----------------------------------------------------------------------------------------


def test_a_result_that_is_an_argument_or_a_view_of_one_is_so(torch, compiled):
    call, x = compiled(lambda x: (x, x.T, x[1:], x + 1)), torch.randn(3, 4)
    for _ in range(2):
        own, turned, rest, more = call(x)
        assert own is x
        assert turned.data_ptr() == x.data_ptr()
        assert rest.data_ptr() == x[1:].data_ptr()
        assert torch.equal(more, x + 1)
        x.add_(1)


def test_results_that_are_views_of_each_other_are_so(torch, compiled):
    def function(x: Any) -> Any:
        y = x.exp()
        return y, y[1:], y.T, y

    whole, rest, turned, again = compiled(function)(torch.zeros(3, 4))
    whole.zero_()
    assert not rest.any()
    assert not turned.any()
    assert not again.any()
    assert turned.stride() == (1, 4)


def test_other_results_have_memory_of_their_own(torch, compiled, same):
    def function(x: Any) -> Any:
        return x.clone(), x * 1, x.reshape(-1) + 0, x + 1, x + 1, torch.arange(4), torch.ones(3)

    call, x = compiled(function), torch.randn(3, 4)
    kept = x.clone()
    for _ in range(2):
        results = call(x)
        for k, result in enumerate(results):
            others = [r.clone() for r in results[k + 1 :]]
            result.zero_()
            same(results[k + 1 :], tuple(others))
        assert torch.equal(x, kept)
        same(call(x), function(x))


def test_a_gradient_goes_through_views_of_strided_results(torch, compiled, same):
    def function(x: Any) -> Any:
        y = x.T.sin()
        return y.T, y[1:], y

    x = torch.randn(3, 4, requires_grad=True)
    gradients = []
    for call in (function, compiled(function)):
        turned, rest, whole = call(x)
        gradients += torch.autograd.grad(rest.sum() + turned.cos().sum() + whole.exp().sum(), x)
    same(*gradients)
    same(compiled(function)(x), function(x))


def test_strides_of_arguments_do_not_matter(torch, as_eager):
    def function(x: Any) -> Any:
        return (x @ x.T).relu() + x.sum(), x.T.sin(), x * 2

    as_eager(function, torch.randn(6, 4).T)
    as_eager(function, torch.randn(8, 8)[::2, ::2])
    as_eager(function, torch.randn(1, 4).expand(4, 4))
    as_eager(
        torch.nn.Conv2d(3, 4, 3), torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    )


def test_what_it_writes_into_arguments_is_there(torch, as_eager):
    def function(x: Any) -> Any:
        x.add_(1)
        x[0] = 3
        rest = x[1:]
        rest.mul_(2)
        return x * 2, rest

    as_eager(function, torch.randn(3, 4))


def test_arguments_may_share_memory(torch, compiled, same):
    def function(x: Any, y: Any) -> Any:
        x.add_(1)
        return x * y

    call = compiled(function)
    for views in (lambda x: (x, x), lambda x: (x[1:], x[:-1]), lambda x: (x[:3], x[3:])):
        mine, theirs = (torch.arange(6.0) for _ in range(2))
        same(call(*views(mine)), function(*views(theirs)))
        same(mine, theirs)


def test_a_weight_may_change_in_any_way(torch, compiled, same):
    module, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
    call = compiled(module)

    def changes() -> Any:
        yield lambda: module.weight.mul_(2)
        yield lambda: module.weight.data.mul_(2)
        yield lambda: setattr(module.weight, "data", torch.randn(4, 4))
        yield lambda: module.weight.detach().numpy().fill(3)
        yield lambda: x.numpy().fill(2)

    with torch.no_grad():
        for change in changes():
            for _ in range(3):
                same(call(x), module(x))
            change()
            same(call(x), module(x))


def test_arguments_are_not_kept_alive(torch, compiled):
    call = compiled(lambda x: x * 2)
    given = [np.ones(1000, np.float32) for _ in range(2)]
    counts = [sys.getrefcount(array) for array in given]
    for k in range(2):
        call(torch.from_numpy(given[k]))
    gc.collect()
    assert [sys.getrefcount(array) for array in given] == counts


def test_graphs_that_nobody_uses_are_gone(torch, compiled):
    compiled(torch.nn.Linear(4, 4))(torch.ones(2, 4))
    newest = max(graph.number for graph in dynamo.captured())
    torch._dynamo.reset()
    gc.collect()
    assert newest not in {graph.number for graph in dynamo.captured()}


# -- values ----------------------------------------------------------------------------------------


def test_numbers_without_axes_and_empty_tensors(torch, as_eager):
    as_eager(lambda x, y: (x * y).sin() + 1, torch.tensor(2.0), torch.randn(()))
    as_eager(lambda x: (x * 2, x.sum(), x.T @ x), torch.randn(0, 4))
    as_eager(lambda x: None, torch.ones(3))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_whole_dtypes(torch, as_eager, dtype):
    x = torch.arange(5).to(getattr(torch, dtype))
    if dtype == "bool":
        as_eager(lambda x: (~x, x & x, x.sum(), x.float()), x)
    else:
        as_eager(lambda x: (x * 2, x // 3, x.sum(), x > 2), x)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_float_dtypes(torch, compiled, same, dtype):
    def function(x: Any) -> Any:
        return x * 2, x.sum(), x.exp(), x.relu()

    x = torch.randn(4, 4).to(getattr(torch, dtype))
    same(compiled(function)(x), function(x), 1e-2 if "16" in dtype else 1e-5)


def test_autocast_and_inference_mode(torch, compiled, same):
    module = torch.nn.Linear(8, 8)
    call = compiled(module)
    with torch.inference_mode():
        for _ in range(3):
            x = torch.randn(2, 8)
            same(call(x), module(x))
    with torch.autocast("cpu", torch.bfloat16):
        x = torch.randn(2, 8)
        assert call(x).dtype is torch.bfloat16
        same(call(x), module(x), 2e-2)


def test_two_passes_forward_before_two_back(torch, compiled, same):
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    gradients = []
    for call in (module, compiled(module)):
        module.zero_grad()
        (call(a).sum() * call(b).sum()).backward()
        gradients.append([p.grad.clone() for p in module.parameters()])
    same(*gradients)


def test_norms_move_their_moments(torch, compiled, same):
    module = torch.nn.BatchNorm1d(4)
    own = copy.deepcopy(module)
    call = compiled(own)
    for _ in range(3):
        x = torch.randn(8, 4)
        same(call(x), module(x))
    same(own.state_dict(), module.state_dict())


# -- chance ----------------------------------------------------------------------------------------


def test_dropout_drops_its_share_and_the_same_in_gradients(torch, compiled):
    call = compiled(torch.nn.Dropout(0.3))
    shares = []
    for _ in range(20):
        x = torch.ones(1000, requires_grad=True)
        y = call(x)
        y.sum().backward()
        assert torch.equal(x.grad, y.detach())
        assert torch.equal(y, (y != 0) / 0.7)
        shares.append(float((y == 0).float().mean()))
    assert len(set(shares)) > 1
    assert np.mean(shares) == pytest.approx(0.3, abs=0.02)


def test_the_seed_of_pytorch_decides_what_is_drawn(torch, compiled):
    call, x = compiled(lambda x: torch.nn.functional.dropout(x)), torch.ones(1000)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(call(x))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_no_two_graphs_draw_the_same(torch, compiled):
    def function(x: Any) -> Any:
        first = torch.nn.functional.dropout(x), torch.nn.functional.dropout(x)
        torch._dynamo.graph_break()
        return *first, torch.nn.functional.dropout(x)

    results = compiled(function)(torch.ones(1000))
    for k, result in enumerate(results):
        for other in results[:k]:
            assert float((result == other).float().mean()) == pytest.approx(0.5, abs=0.1)


def test_draws_have_their_distributions(torch, compiled):
    def function(x: Any) -> Any:
        return (
            torch.rand_like(x),
            torch.randn_like(x),
            torch.bernoulli(x + 0.3),
            torch.randint(0, 5, x.shape).float(),
        )

    for result, mean in zip(compiled(function)(torch.zeros(10_000)), (0.5, 0, 0.3, 2), strict=True):
        assert float(result.mean()) == pytest.approx(mean, abs=0.06)


# -- several threads -------------------------------------------------------------------------------


def test_several_threads_call_one_model(torch, compiled, same):
    module = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32))
    call, failed = compiled(module, dynamic=False), list[BaseException]()

    def work(seed: int) -> None:
        try:
            draw = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for k in range(30):
                    x = torch.randn(4 + k % 2, 32, generator=draw)
                    same(call(x), module(x))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


# -- what is not here ------------------------------------------------------------------------------


def test_an_op_that_is_not_here_is_named_with_its_line(torch, compiled):
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        compiled(lambda x: torch.linalg.svdvals(x) * 2)(torch.randn(4, 4))
    error = caught.value.inner_exception
    assert isinstance(error, ll.ModelError)
    assert "torch.compile: aten._linalg_svd.default cannot be imported" in str(error)
    assert "test_dynamo.py" in (error.where or "")
    assert "torch.linalg.svdvals(x) * 2" in (error.where or "")


def test_an_op_of_a_gradient_is_named_with_the_line_of_its_op(torch, compiled, monkeypatch):
    monkeypatch.delitem(dynamo.OPS, "aten.convolution_backward.default")
    x, w = torch.randn(1, 2, 4, requires_grad=True), torch.randn(2, 2, 3)
    with pytest.raises(Exception, match=r"convolution_backward\.default cannot be imp") as caught:
        compiled(lambda x: torch.conv1d(x, w).sum())(x).backward()
    assert "torch.conv1d(x, w).sum()" in str(caught.value)


@pytest.mark.parametrize("gradient", [False, True])
def test_the_fallback_leaves_it_to_pytorch(torch, compiled, same, gradient):
    def function(x: Any) -> Any:
        return torch.linalg.svdvals(x) * 2, torch.fft.fft(x * 2).real

    x = torch.randn(4, 4, requires_grad=gradient)
    got, wanted = compiled(function, options={"fallback": "eager"})(x), function(x)
    same(got, wanted)
    if gradient:
        same(*[torch.autograd.grad(a.sum() + b.sum(), x) for a, b in (got, wanted)])


def test_another_device_is_an_error(torch, compiled):
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        compiled(torch.nn.Linear(4, 4).to("meta"))(torch.ones(2, 4, device="meta"))
    error = caught.value.inner_exception
    assert isinstance(error, ll.DeviceError)
    assert "is on meta, and ours runs on the CPU" in str(error)


# -- what is shown ---------------------------------------------------------------------------------


def test_a_graph_says_why_dynamo_broke_off(torch, compiled, capsys):
    def function(x: Any) -> Any:
        y = x * 2
        print("in between")
        return y + 1

    compiled(function)(torch.ones(3))
    assert capsys.readouterr().out == "in between\n"
    first, second = dynamo.captured()[-2:]
    assert second.ended is None
    assert first.ended is not None
    assert first.ended.reason == "dynamo does not trace print"
    assert first.ended.origin is not None
    assert first.ended.origin.text == 'print("in between")'
    assert repr(first).endswith("dynamo broke off, since dynamo does not trace print>")
    assert 'print("in between")' in str(first)
    assert first.number < second.number


class Branch:
    """A module whose forward dynamo cuts into parts; made when torch is there."""

    def __new__(cls, torch: Any) -> Any:
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.more, self.less = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

            def forward(self, x):
                h = torch.tanh(x)
                h = self.more(h) if h.sum() > 0 else self.less(h)
                return h * h.mean().item()

        return Net()


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_a_workbench_says_which_part_it_shows_and_why_it_ends(torch, compiled, tmp_path):
    known = {graph.number for graph in dynamo.captured()}
    net = compiled(Branch(torch))
    net(torch.ones(2, 4)).sum().backward()
    first, more, last, *slopes = [g for g in dynamo.captured() if g.number not in known]
    name = Branch.__new__.__qualname__ + ".<locals>.Net.forward"
    assert str(first.part) == f"part 1 of 3 of {name}"
    assert str(last.part) == f"part 3 of 3 of {name}"
    assert first.ended is not None
    assert more.ended is not None
    assert first.ended.reason == "the values of a tensor decide how it goes on"
    assert more.ended.reason == "the value of a tensor is read as a number"
    assert last.ended is None
    (session,) = more.sessions
    assert "graph forward_" in str(session.ir)
    assert "(%more.weight: f32[4, 4], %more.bias: f32[4], %h: f32[2, 4])" in str(session.ir)
    assert all(node.meta.origin is None for node in session.ir.inputs)
    text = str(session.workbench())
    assert f"\npart 2 of 3 of {name}, as dynamo has cut it\n" in text
    assert "\nit ends here, since the value of a tensor is read as a number\n" in text
    assert "return h * h.mean().item()" in text
    (backward,) = slopes[-1].sessions
    assert str(backward.explore()).splitlines()[1].startswith("the gradients of part ")
    # The other branch is a part too, and what is said counts anew; a file keeps it.
    net(-torch.ones(2, 4))
    session.save(tmp_path / "part.lab")
    first_remark, second = ll.open(tmp_path / "part.lab").subjects[0].facts.remarks
    assert first_remark.text == f"part 2 of 4 of {name}, as dynamo has cut it"
    assert first_remark.line is not None
    assert (first_remark.line.file, first_remark.line.code) == (
        "test_dynamo.py",
        "def forward(self, x):",
    )
    assert second.line is not None
    assert second.line.code == "return h * h.mean().item()"


def test_a_function_in_one_graph_is_whole(torch, compiled):
    def function(x: Any) -> Any:
        return x * 2

    compiled(function)(torch.ones(3))
    assert str(dynamo.captured()[-1].part).startswith("the whole of test_a_function_in_one_graph")


def test_a_session_has_the_authors_modules_and_lines(torch, compiled):
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())

    def function(x: Any) -> Any:
        return module(x) * 3

    x = torch.ones(2, 4, requires_grad=True)
    compiled(function)(x).sum().backward()
    forward, backward = dynamo.captured()[-2:]
    assert (forward.kind, backward.kind) == ("forward", "backward")
    for graph in (forward, backward):
        (session,) = graph.sessions
        assert session.name == f"{graph.kind}_{graph.number}"
        lines = {node.meta.origin.text for node in session.ir if node.meta.origin is not None}
        assert "return module(x) * 3" in lines
        assert any(node.meta.scope for node in session.ir)


def test_a_session_can_be_timed_and_says_what_is_gone(torch, compiled):
    module = torch.nn.Linear(4, 3)
    with torch.no_grad():
        wanted = compiled(module)(torch.ones(2, 4))
    (session,) = dynamo.captured()[-1].sessions
    (name,) = [node.name for node in session.ir.inputs if node.shape == (2, 4)]
    with pytest.raises(ll.InputError, match=f"the argument {name} is gone"):
        session.execute()
    session[name].set(np.ones((2, 4)))
    session.execute()
    assert np.array_equal(session[session.ir.outputs[0].name].numpy(), wanted.numpy())
    assert [*session.time(rounds=2)]
