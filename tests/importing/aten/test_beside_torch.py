"""Each op of the table gives what PyTorch's gives, on PyTorch's own samples and on ours."""

import json
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.dtypes import as_dtype
from luminal_lab.importing.aten import OPS, REFUSED
from luminal_lab.importing.aten.table import full_name
from tests.importing.aten.samples import CONV, POOL2, POOL3, SAMPLES

WITNESSES: dict[str, list[str]] = json.loads(
    Path(__file__).with_name("witnesses.json").read_text(encoding="utf-8")
)
"""For each op, functions of PyTorch whose samples reach it."""
OWN: dict[str, list[str]] = {}
for line in SAMPLES.strip().splitlines():
    word, _, given = line.partition(" | ")
    OWN.setdefault(full_name(word), []).append(given)

RANDOM = """
    rand randn rand_like randn_like randint randint.low randperm bernoulli bernoulli.p
    native_dropout
"""
UNDEFINED = "empty.memory_format empty_strided empty_permuted empty_like new_empty"
OTHER = {
    **dict.fromkeys(map(full_name, RANDOM.split()), "its numbers are ours, and not PyTorch's"),
    **dict.fromkeys(map(full_name, UNDEFINED.split()), "PyTorch's values are whatever was there"),
    full_name("_grouped_mm"): "PyTorch's wants bfloat16; the zoo's experts call it",
    "transformers.grouped_mm_fallback.default": "the zoo's experts call it",
    full_name("_scaled_dot_product_flash_attention_for_cpu_backward"): "what trains calls it",
    full_name("_native_multi_head_attention"): "test_layers.py compares its module",
    full_name("_transformer_encoder_layer_fwd"): "test_layers.py compares its module",
    full_name("bincount"): "it is refused: its size depends on values",
}
"""Ops whose values cannot be compared, with the reason."""
ONES = [name for name in OPS if name.startswith("aten.") and name not in OTHER]
DTYPES = "float32", "int64", "bool"
SEVERAL, MOST = 10, 5_000
"""The most samples of an op, and the most elements of a tensor in one."""
UNSTABLE = {full_name("topk"), full_name("kthvalue"), full_name("sort"), full_name("median.dim")}
FIRST = """
    _embedding_bag _embedding_bag_forward_only _scaled_dot_product_flash_attention_for_cpu
"""
UNUSED = set(map(full_name, FIRST.split()))
"""Ops whose first result alone is for users."""
"""Ops whose positions of equal values PyTorch leaves open: values alone are compared."""


@pytest.fixture(scope="module")
def op_infos(torch) -> dict[str, Any]:
    """Return PyTorch's samples, by the names of functions."""
    with warnings.catch_warnings(action="ignore"):
        table = import_module("torch.testing._internal.common_methods_invocations").op_db
    return {info.name: info for info in table if not info.variant_test_name}


def name_of(func: Any) -> str:
    space, _, name = func._schema.name.partition("::")
    return f"{space}.{name}.{func._overloadname}"


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


def recorded(torch: Any, name: str, info: Any, dtype: str) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the arguments and results of an op's calls in a function's samples."""
    mode = import_module("torch.utils._python_dispatch").TorchDispatchMode
    tree_map = import_module("torch.utils._pytree").tree_map
    calls: list[tuple[Any, Any, Any]] = []

    def kept(value: Any) -> Any:
        is_tensor = isinstance(value, torch.Tensor)
        return value.detach().clone() if is_tensor else value

    class Recording(mode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            before = tree_map(kept, (args, kwargs or {}))
            result = func(*args, **(kwargs or {}))
            if name_of(func) == name:
                calls.append((*before, tree_map(kept, result)))
            return result

    torch.manual_seed(0)
    for sample, _ in zip(
        info.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False),
        range(SEVERAL),
        strict=False,
    ):
        calls.clear()
        with Recording():
            info(sample.input, *sample.args, **sample.kwargs)
        yield from calls


def called(torch: Any, name: str) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the arguments of our samples, with what PyTorch makes of them."""
    _, packet, overload = name.split(".")
    op = getattr(getattr(torch.ops.aten, packet), overload)
    torch.manual_seed(0)
    names = {
        "f": lambda *shape: torch.randn(shape),
        "i": lambda *shape: torch.randint(0, 3, shape),
        "b": lambda *shape: torch.rand(shape) < 0.5,
        "call": lambda *args, **kwargs: (args, kwargs),
        "device": torch.device("cpu"),
        "torch": torch,
        "CONV": CONV,
        "POOL2": POOL2,
        "POOL3": POOL3,
        "X2": (flat := torch.randn(1, 2, 4, 4)),
        "X3": (deep := torch.randn(1, 2, 4, 4, 4)),
        "AT2": torch.ops.aten.max_pool2d_with_indices(flat, [2, 2])[1],
        "AT3": torch.ops.aten.max_pool3d_with_indices(deep, [2, 2, 2])[1],
    }
    for text in OWN.get(name, []):
        args, kwargs = eval(f"call({text})", names)
        yield args, kwargs, op(*args, **kwargs)


def as_ours(torch: Any, cx: ll.Graph, value: Any) -> Any:
    """Return an argument with tensors of ours."""
    if isinstance(value, torch.Tensor):
        data = value.detach().contiguous().numpy()
        return cx.tensor(data.shape, str(data.dtype)).set(data)
    if isinstance(value, torch.dtype):
        return as_dtype(str(value).removeprefix("torch."))
    if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
        return None
    if isinstance(value, (list, tuple)):
        return type(value)([as_ours(torch, cx, part) for part in value])
    return value


def compare(torch: Any, name: str, args: Any, kwargs: Any, wanted: Any) -> None:
    """Fail unless our op gives what PyTorch's has given."""
    cx = ll.Graph()
    dropped = {"device", "layout", "pin_memory", "memory_format", "non_blocking"}
    words = {k: as_ours(torch, cx, v) for k, v in kwargs.items() if k not in dropped}
    result = leaves(OPS[name](cx, *[as_ours(torch, cx, arg) for arg in args], **words))
    outputs = [part for part in result if isinstance(part, ll.Tensor)]
    cx.retrieve(outputs)
    if outputs:
        cx.execute()
    pairs = list(zip(result, leaves(wanted), strict=True))
    for own, theirs in pairs[:1] if name in UNSTABLE | UNUSED else pairs:
        if not isinstance(theirs, torch.Tensor):
            assert own == theirs
            continue
        value = theirs.detach().numpy()
        assert (str(own.dtype), own.numpy().shape) == (str(value.dtype), value.shape)
        np.testing.assert_allclose(own.numpy(), value, rtol=2e-4, atol=2e-5)


def is_ours(torch: Any, args: Any, kwargs: Any, result: Any) -> bool:
    """Return whether a call is small, and of dtypes that there are."""
    tensors = [x for x in leaves([args, kwargs, result]) if isinstance(x, torch.Tensor)]
    known = {str(dtype) for dtype in ll.DType} - {"bfloat16"}
    return all(str(x.dtype).removeprefix("torch.") in known and x.numel() < MOST for x in tensors)


LEFT_OUT: dict[str, str] = {
    "as_strided": "only values in row-major order are imported",
    "gather": "an empty index of another rank",
    "histc": "an interval that depends on values is refused",
    "index_put": "as many values as a mask has are refused",
    "unfold": "a number has no axis to unfold",
}
"""Ops whose calls may be refused, with the reason."""


@pytest.mark.share("name", ONES, 12)
def test_an_op_gives_what_pytorch_gives(torch, op_infos, name):
    count = 0
    for args, kwargs, wanted in called(torch, name):
        compare(torch, name, args, kwargs, wanted)
        count += 1
    word = name.split(".")[1]
    for witness in WITNESSES.get(name, []):
        info = op_infos[witness]
        for dtype in DTYPES:
            if getattr(torch, dtype) not in info.dtypes:
                continue
            with warnings.catch_warnings(action="ignore"):  # of calls that are not the subject
                calls = list(recorded(torch, name, info, dtype))
            for args, kwargs, wanted in calls:
                if is_ours(torch, args, kwargs, wanted):
                    count += 1
                    try:
                        compare(torch, name, args, kwargs, wanted)
                    except (ll.LabError, AssertionError):
                        if word not in LEFT_OUT:
                            raise
    assert count


def test_the_table_has_ops_of_pytorch(torch):
    for name in [*OPS, *REFUSED]:
        space, _, rest = name.partition(".")
        if space == "aten":
            packet, _, overload = rest.partition(".")
            assert overload in getattr(torch.ops.aten, packet).overloads(), name
    assert not OPS.keys() & REFUSED.keys()


def test_each_entry_is_compared_or_has_a_reason_not_to_be():
    without = [name for name in ONES if name not in WITNESSES and name not in OWN]
    assert without == []


def test_core_ops_have_an_entry_or_a_reason(torch):
    """Of the ops that all of PyTorch is made of, backward ones aside."""
    missing = []
    for packet in dir(torch.ops.aten):
        family = getattr(torch.ops.aten, packet)
        for overload in getattr(family, "overloads", list)():
            op = getattr(family, overload)
            name = f"aten.{packet}.{overload}"
            is_core = torch.Tag.core in op.tags and "backward" not in packet
            if is_core and not op._schema.is_mutable and name not in OPS and name not in REFUSED:
                missing.append(name)
    assert missing == []
