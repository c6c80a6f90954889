"""State dicts and files of weights: what fits, what does not, and damaged files."""

import builtins
import copy
import json
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from luminal_lab import Graph, nn
from luminal_lab.errors import ArgumentError, DeviceError, DTypeError, InputError
from luminal_lab.nn.weights import Loaded, load_values
from tests.expect import error_of
from tests.needs import need


class Model(nn.Module):
    def __init__(self, dtype="float32"):
        self.embed = nn.Embedding(5, 3, dtype=dtype)
        self.norm = nn.BatchNorm1d(3)
        self.head = nn.Linear(3, 5, dtype=dtype)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.norm(self.embed(x)))


KEYS = [
    "embed.weight",
    "norm.weight",
    "norm.bias",
    "norm.running_mean",
    "norm.running_var",
    "norm.num_batches_tracked",
    "head.bias",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where files of weights are written and read, which a package does."""
    need("safetensors")
    return tmp_path


def test_a_state_dict_has_each_value_once_and_goes_back():
    one, two = Model().initialise(1), Model().initialise(2)
    state = one.state_dict()
    assert list(state) == KEYS
    assert two.load_state_dict(state) == Loaded()
    assert all(np.array_equal(two.state_dict()[key], state[key]) for key in KEYS)
    assert two.head.weight is two.embed.weight
    two.embed.weight.set(np.zeros((5, 3)))
    assert one.embed.weight.value.any()


def test_what_is_tied_may_be_given_by_any_of_its_paths():
    model, other = Model().initialise(1), Model().initialise(2)
    state = dict(model.state_dict())
    other.load_state_dict({**state, "head.weight": state["embed.weight"]})
    state["head.weight"] = state.pop("embed.weight")
    other.initialise(3).load_state_dict(state)
    np.testing.assert_array_equal(other.embed.weight.value, model.embed.weight.value)


def test_a_state_dict_of_pytorch_is_taken(torch):
    theirs = torch.nn.Linear(3, 2)
    model = nn.Linear(3, 2)
    model.load_state_dict(theirs.state_dict())
    np.testing.assert_array_equal(model.weight.value, theirs.weight.detach().numpy())


def test_all_that_does_not_fit_is_named_and_nothing_is_loaded():
    model = Model().initialise(1)
    before = {key: value.copy() for key, value in model.state_dict().items()}
    state = {key: np.zeros_like(value) for key, value in before.items()}
    del state["norm.bias"]
    state |= {
        "norm.running_mean": np.zeros(4, "f4"),
        "head.bias": np.zeros(5, "f8"),
        "head.scale": np.zeros((), "f4"),
    }
    error = error_of(lambda: model.load_state_dict(state), InputError)
    assert error.message.splitlines() == [
        "load_state_dict: 4 entries do not fit, and nothing was loaded",
        "  missing: norm.bias (3,) float32",
        "  extra: head.scale () float32",
        "  norm.running_mean: is (4,) float32, and must be (3,) float32",
        "  head.bias: is (5,) float64, and must be (5,) float32",
    ]
    assert "model.load_state_dict(state)" in error.where
    assert error.hint.startswith("make the module with the sizes of these values")
    for key, value in before.items():
        np.testing.assert_array_equal(model.state_dict()[key], value)


def test_what_one_of_both_has_not_is_left_out_on_request():
    model: Any = Model().initialise(1)
    bias = model.head.bias.value.copy()
    part = {"norm.bias": np.full(3, 7, "f4"), "more": np.zeros(2)}
    error = error_of(lambda: model.load_state_dict(part), InputError)
    assert error.message.startswith("load_state_dict: 7 entries do not fit")
    assert error.hint == "check the names; strict=False leaves out what only one side has"
    left = model.load_state_dict(part, strict=False)
    assert (left.missing, left.extra) == (
        tuple(key for key in KEYS if key != "norm.bias"),
        ("more",),
    )
    assert model.norm.bias.value.tolist() == [7, 7, 7]
    np.testing.assert_array_equal(model.head.bias.value, bias)
    wrong = {"norm.bias": np.zeros(4, "f4")}
    error = error_of(lambda: model.load_state_dict(wrong, strict=False), InputError)
    assert error.message.splitlines()[0].startswith("load_state_dict: 1 entry does not fit")


def test_what_was_left_out_is_told():
    model, part = nn.Linear(2, 2), {"bias": [1.0, 2.0], "w": [3.0]}
    paths = list(model.parameters().items())
    left = load_values("load", paths, part, strict=False)
    assert left == Loaded(missing=("weight",), extra=("w",))
    assert repr(left) == "<Loaded; missing: weight; extra: w>"
    assert model.bias is not None
    assert model.bias.value.tolist() == [1, 2]
    left = load_values("load", paths, model.state_dict(), strict=True)
    assert (left.missing, left.extra, repr(left)) == ((), (), "<Loaded all>")


def test_many_faults_are_cut_short():
    model = nn.Sequential(*(nn.Linear(1, 1) for _ in range(20)))
    error = error_of(lambda: model.load_state_dict({}), InputError)
    assert len(error.message.splitlines()) == 22
    assert error.message.endswith("  and 20 more")


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_a_file_goes_round_and_is_read_when_it_is_needed(folder, dtype):
    one: Any = Model(dtype).initialise(1)
    two: Any = Model(dtype)
    path = folder / "model.safetensors"
    one.save(path)
    assert two.load(str(path)) is two
    assert not any(p.is_loaded for p in two.parameters().values())
    for key, value in one.state_dict().items():
        found = two.state_dict()[key]
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value)
    assert str(two.embed.weight.value.dtype) == dtype
    two.save(path)  # what is mapped is not written into
    np.testing.assert_array_equal(two.head.bias.value, one.head.bias.value)
    assert [file.name for file in folder.iterdir()] == ["model.safetensors"]


def test_a_graph_runs_with_weights_from_a_file(folder):
    one: Any = nn.Linear(3, 2)
    one.save(folder / "w.safetensors")
    cx, model = Graph(), nn.Linear(3, 2)
    y = model(cx.tensor((1, 3)).set([[1, 2, 3]])).retrieve()
    model.load(folder / "w.safetensors")
    cx.execute()
    np.testing.assert_allclose(
        y.numpy()[0], one.weight.value @ [1, 2, 3] + one.bias.value, rtol=1e-5, atol=1e-5
    )


def test_files_and_pytorch_agree(folder, torch):
    files = need("safetensors.torch")
    theirs = torch.nn.Linear(3, 2).to(torch.bfloat16)
    files.save_file(theirs.state_dict(), folder / "theirs.safetensors")
    model = nn.Linear(3, 2, dtype="bfloat16").load(folder / "theirs.safetensors")
    wanted = theirs.weight.detach().float().numpy()
    np.testing.assert_array_equal(model.weight.value.astype("f4"), wanted)
    assert model.weight.value.dtype == ml_dtypes.bfloat16
    model.save(folder / "ours.safetensors")
    assert torch.equal(files.load_file(folder / "ours.safetensors")["weight"], theirs.weight)


def test_a_file_of_another_model_is_refused(folder):
    nn.Linear(3, 2, bias=False).save(folder / "w.safetensors")
    model = nn.Linear(3, 4, dtype="float16")
    error = error_of(lambda: model.load(folder / "w.safetensors"), InputError)
    assert error.message.splitlines() == [
        f"load: {folder / 'w.safetensors'}: 2 entries do not fit, and nothing was loaded",
        "  missing: bias (4,) float16",
        "  weight: is (2, 3) float32, and must be (4, 3) float16",
    ]


def test_a_dtype_that_we_have_not_is_named(folder):
    header = b'{"weight":{"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[0,4]}}'
    path = folder / "w.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 4)
    error = error_of(lambda: nn.Linear(2, 2, bias=False).load(path), InputError)
    assert error.message.endswith("  weight: is (2, 2) F8_E4M3, and must be (2, 2) float32")


HEADER = b'{"weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'.ljust(64)
WHOLE = struct.pack("<Q", 64) + HEADER + b"\0" * 16
TEXT = b"these are no weights"


def of_values(*places: tuple[int, int], size: int) -> bytes:
    """Return a file of bytes whose values lie in such places, which may be none."""
    parts = (
        f'"{name}":{{"dtype":"U8","shape":[{end - start}],"data_offsets":[{start},{end}]}}'
        for name, (start, end) in zip("abc", places, strict=False)
    )
    header = f"{{{','.join(parts)}}}".encode().ljust(200)
    return struct.pack("<Q", 200) + header + bytes(size)


DAMAGED = {
    "cut off": (WHOLE[:-5], "it should have 88 bytes, and has 83"),
    "too long": (WHOLE + b"more", "it should have 88 bytes, and has 92"),
    "cut off in the header": (WHOLE[:20], "its header should have 64 bytes, and the file has 20"),
    "too short": (WHOLE[:4], "it has 4 bytes, and the length of its header takes 8"),
    "empty": (b"", "it has 0 bytes, and the length of its header takes 8"),
    "no header": (
        WHOLE[:8] + b"x" * 80,
        "its header of 64 bytes does not say what it holds",
    ),
    "another header": (
        WHOLE[:8] + b"[1]".ljust(64) + WHOLE[72:],
        "its header of 64 bytes does not say what it holds",
    ),
    "deep": (
        struct.pack("<Q", 100_000) + b"[" * 100_000 + b"\0" * 16,
        "its header of 100,000 bytes does not say what it holds",
    ),
    "overlapping": (of_values((0, 8), (4, 12), size=12), "its values 'a' and 'b' overlap"),
    "the same place": (of_values((0, 8), (8, 9), (8, 9), size=9), "its values 'b' and 'c' overlap"),
    "beyond the end": (
        of_values((0, 8), (8, 10**18), size=8),
        "it should have 1,000,000,000,000,000,208 bytes, and has 216",
    ),
    "a header of 10^18 bytes": (
        struct.pack("<Q", 10**18) + WHOLE[8:],
        "its header should have 1,000,000,000,000,000,000 bytes, and the file has 88",
    ),
    "text": (
        TEXT,
        f"its header should have {int.from_bytes(TEXT[:8], 'little'):,} bytes, and the file has 20",
    ),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_files(folder, damage):
    data, reason = DAMAGED[damage]
    path, model = folder / "w.safetensors", nn.Linear(2, 2, bias=False)
    path.write_bytes(WHOLE)
    assert not model.load(path).weight.value.any()
    path.unlink()  # what is mapped stays as it is
    path.write_bytes(data)
    error = error_of(lambda: model.load(path), InputError)
    assert error.message == f"load: {path} is not a complete safetensors file: {reason}"
    assert error.hint == "fetch it again, or write it with module.save(path)"
    assert "model.load(path)" in error.where
    assert not model.weight.value.any()


def of_one(**part: object) -> bytes:
    """Return a file with 16 bytes of values, all of which should be those of `w`."""
    entry = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16], **part}
    about = entry.pop("about", {})
    header = json.dumps({"__metadata__": about, "w": entry}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(16)


KNOWN = (
    "there is float64, float32, float16, bfloat16, int64, int32, int16, int8, uint64, uint32, "
    "uint16, uint8, bool"
)
AGAIN = "fetch it again, or write it with module.save(path)"
WRONG = {
    "too large": (
        {"shape": [1 << 40, 1 << 30]},
        "'w' is float32 (1099511627776, 1073741824) and takes 4,722,366,482,869,645,213,696 "
        "bytes; the file has 16 for it",
    ),
    "too small": (
        {"shape": [3]},
        "'w' is float32 (3,) and takes 12 bytes; the file has 16 for it",
    ),
    "a negative size": ({"shape": [-4]}, "'w' has the shape [-4], and none of sizes"),
    "a text of sizes": ({"shape": "4"}, "'w' has the shape '4', and none of sizes"),
    "no sizes": ({"shape": None}, "'w' has the shape None, and none of sizes"),
    "another dtype": ({"dtype": "X9"}, "'w' is 'X9', a dtype that is not here"),
    "half bytes": ({"dtype": "F4"}, "'w' is 'F4', a dtype that is not here"),
    "a number of a dtype": ({"dtype": 7}, "'w' is 7, a dtype that is not here"),
    "a list of dtypes": ({"dtype": ["F32"]}, "'w' is ['F32'], a dtype that is not here"),
    "a hole": (
        {"shape": [2], "data_offsets": [8, 16]},
        "'w' begins at byte 8 of the values, and not at 0",
    ),
    "three offsets": (
        {"data_offsets": [0, 16, 20]},
        "'w' has the data_offsets [0, 16, 20], and no begin and end of its bytes",
    ),
    "metadata": ({"about": {"a": 3}}, "its __metadata__ is {'a': …}, and not texts by name"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_value_that_cannot_be_is_named(folder, case):
    part, reason = WRONG[case]
    path = folder / "w.safetensors"
    path.write_bytes(of_one(**part))
    error = error_of(lambda: nn.Linear(2, 2).load(path), InputError)
    assert error.message == f"load: {path}: {reason}"
    assert error.hint == (KNOWN if "dtype" in part else AGAIN)


def test_files_and_folders_that_are_not_there(folder):
    model = nn.Linear(3, 2)
    error = error_of(lambda: model.load(folder / "none"), InputError)
    assert error.message == f"load: there is no {folder / 'none'}"
    assert error.hint.startswith("the current folder is ")
    error = error_of(lambda: model.load(folder), InputError)
    assert error.message == f"load: {folder} is a folder"
    missing = folder / "none" / "w.safetensors"
    error = error_of(lambda: model.save(missing), InputError)
    assert (
        error.message == f"save: {missing} cannot be written: there is no folder {missing.parent}"
    )
    error = error_of(lambda: model.save(folder), InputError)
    assert error.message == f"save: {folder} cannot be written: it is a folder"
    assert not list(folder.iterdir())
    assert not list(folder.parent.glob("*.tmp"))


def test_ctrl_c_leaves_the_old_file_and_no_other(folder, monkeypatch):
    path = folder / "a.safetensors"
    nn.Linear(2, 3).save(path)
    before = path.read_bytes()

    def broken_off(draft, target):
        assert draft.is_file()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", broken_off)
        error_of(lambda: nn.Linear(2, 3).save(path), KeyboardInterrupt)
    assert path.read_bytes() == before
    assert [file.name for file in folder.iterdir()] == ["a.safetensors"]


def test_the_target_of_a_link_is_replaced_and_the_link_stays(folder):
    (folder / "link").symlink_to("a.safetensors")
    nn.Linear(2, 3).save(folder / "link")
    assert (folder / "link").is_symlink()
    nn.Linear(2, 3).load(folder / "a.safetensors")


def test_the_present_folder_is_gone(folder, monkeypatch):
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    error = error_of(lambda: nn.Linear(2, 3).load("a.safetensors"), InputError)
    assert error.message == "load: there is no a.safetensors"
    assert error.hint == "the current folder is gone"
    error = error_of(lambda: nn.Linear(2, 3).save("a.safetensors"), InputError)
    assert error.message.startswith("save: a.safetensors cannot be written: ")


def test_without_the_package_it_is_said_what_to_install(tmp_path, monkeypatch):
    found = builtins.__import__

    def without(name, *rest):
        if name.startswith("safetensors"):
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    model = nn.Linear(3, 2)
    for what, call in (("save", model.save), ("load", model.load)):
        error = error_of(lambda call=call: call(tmp_path / "w"), DeviceError)
        assert error.message == (
            f"{what}: the package safetensors, which reads and writes files of weights, is not "
            "installed"
        )
        assert error.hint.startswith('pip install "luminal-lab[io]"')


def test_a_file_cut_off_anywhere_is_refused(folder):
    path, model = folder / "w.safetensors", nn.Linear(2, 2, bias=False).initialise(1)
    before = model.weight.value
    for length in range(len(WHOLE)):
        path.write_bytes(WHOLE[:length])
        error_of(lambda: model.load(path), InputError)
    np.testing.assert_array_equal(model.weight.value, before)


@pytest.mark.parametrize("data", [WHOLE[:-16] + b"\1" * 16, WHOLE[:20], WHOLE * 2])
def test_a_file_that_was_written_into_after_it_was_loaded_is_not_read(folder, data):
    path, model = folder / "w.safetensors", nn.Linear(2, 2, bias=False)
    path.write_bytes(WHOLE)
    model.load(path)
    path.write_bytes(data)
    os.utime(path, ns=(1, 1))  # as two writes may be too near each other to tell
    error = error_of(lambda: model.weight.value, InputError)
    assert error.message == (
        f"load: {path} was changed after it was loaded, and weight was not read from it yet: it "
        f"had 88 bytes, and now has {len(data)}"
    )
    assert error.hint == "load it again; save(path) replaces a file without changing it"
    path.write_bytes(WHOLE)
    assert not model.load(path).weight.value.any()
    path.write_bytes(data)
    assert not model.weight.value.any()  # which was read already


def test_what_was_loaded_stays_when_its_file_is_replaced_or_deleted(folder):
    path, model = folder / "w.safetensors", nn.Linear(2, 2, bias=False)
    for change in (nn.Linear(2, 2, bias=False).initialise(5).save, os.unlink):
        path.write_bytes(WHOLE)
        model.load(path)
        change(path)
        assert not model.weight.value.any()


def test_lists_and_parameters_are_values_too():
    model, weight = nn.BatchNorm1d(2), nn.Parameter((2,), value=[3, 4])
    state = {**model.state_dict(), "bias": [1, 2], "num_batches_tracked": 7}
    model.load_state_dict({**state, "weight": weight})
    found = model.state_dict()
    assert found["bias"].tolist() == [1, 2]
    assert found["weight"].tolist() == [3, 4]
    assert found["num_batches_tracked"] == 7
    error = error_of(lambda: model.load_state_dict({**state, "num_batches_tracked": 0.5}))
    assert "num_batches_tracked: is () float64, and must be () int64" in error.message


def test_values_that_are_none():
    model, given = nn.Linear(2, 2), {}
    wrong: Any = [1]
    error = error_of(lambda: model.load_state_dict(wrong), ArgumentError)
    assert error.message == "load_state_dict: a list is given, and must be a dict of values by path"
    wrong = model
    error = error_of(lambda: model.load_state_dict(wrong), ArgumentError)
    assert error.hint == "give module.state_dict()"
    assert "test_weights.py" in error.where
    given = {**model.state_dict(), "bias": "abc"}
    error = error_of(lambda: model.load_state_dict(given), DTypeError)
    assert error.message.startswith("load_state_dict: bias: a str that holds ")
    assert "test_weights.py" in error.where
    need("safetensors")
    for what, call in (("save", model.save), ("load", model.load)):
        paths: Any = (None, 3, "a\0b")
        for path in paths:
            error = error_of(lambda call=call, path=path: call(path), ArgumentError)
            assert error.message == f"{what}: {path!r} is not the path of a file"
            assert "test_weights.py" in error.where


def test_modules_are_copied_and_pickled(folder):
    drawn = Model().initialise(1)
    drawn.save(folder / "w")
    for model in (drawn, Model(), Model().load(folder / "w")):
        for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert again.head.weight is again.embed.weight
            assert again.embed.weight is not model.embed.weight
            for path, value in model.state_dict().items():
                np.testing.assert_array_equal(again.state_dict()[path], value)
        again.embed.weight.set(np.zeros((5, 3)))
        assert model.embed.weight.value.any()
