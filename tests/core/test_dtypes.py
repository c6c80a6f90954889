"""Dtypes and promotion, with PyTorch as the witness, and NumPy where PyTorch has no rule."""

import itertools
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from luminal_lab.core.dtypes import (
    INTEGERS,
    DType,
    as_dtype,
    promote,
    promote_all,
    scalar_dtype,
)
from luminal_lab.errors import DTypeError

ALL = list(DType)
NUMPYS = {DType.uint16, DType.uint32, DType.uint64}
SCALARS: list[bool | int | float] = [True, 3, 2.5]


def name_of(torch_dtype: object) -> str:
    return str(torch_dtype).removeprefix("torch.")


def made_by(torch: ModuleType, dtype: DType, rank: int) -> Any:
    return torch.zeros((1,) * rank, dtype=getattr(torch, dtype.value))


@pytest.mark.parametrize(("one", "two"), [*itertools.product(ALL, ALL)])
def test_two_tensors_promote_as_in_pytorch(torch: ModuleType, one: DType, two: DType):
    if one is not two and not (one.is_float or two.is_float) and {one, two} & NUMPYS:
        return  # it has no rule
    assert promote(one, two) == name_of(
        torch.promote_types(getattr(torch, one.value), getattr(torch, two.value))
    )
    for ranks in itertools.product((0, 1, 2), repeat=2):
        a, b = (made_by(torch, d, r) for d, r in zip((one, two), ranks, strict=True))
        ours = promote_all([*zip((one, two), ranks, strict=True)])
        assert ours == name_of(torch.result_type(a, b)), ranks


@pytest.mark.parametrize(("one", "two"), [*itertools.product(INTEGERS, INTEGERS)])
def test_two_integers_promote_as_in_numpy(one: DType, two: DType):
    wanted = np.promote_types(one.numpy, two.numpy)
    if wanted.kind != "f":  # NumPy's for uint64 and signed integers
        assert promote(one, two) == str(wanted)
        return
    with pytest.raises(DTypeError) as caught:
        promote(one, two)
    assert str(caught.value) == (
        f"promotion: no integer dtype holds all values of {one} and of {two}\n"
        "hint: convert one of them with cast"
    )
    # A float settles it, wherever it stands.
    for order in itertools.permutations((one, DType.float16, two)):
        assert promote_all([(dtype, 1) for dtype in order]) is DType.float16


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_tensor_and_a_scalar_promote_as_in_pytorch(
    torch: ModuleType, dtype: DType, scalar: bool | float, rank: int
):
    theirs = torch.result_type(made_by(torch, dtype, rank), scalar)
    assert promote_all([(dtype, rank)], [scalar]) == name_of(theirs)


@pytest.mark.parametrize("dtype", ALL)
def test_scalars_alone_and_beside_two_tensors(dtype: DType):
    # What only scalars decide, and three kinds of operand at once (as in clip or where).
    assert promote_all([], [True, 3]) is DType.int64
    assert promote_all([], [3, 2.5]) is DType.float32
    assert promote_all([(dtype, 1), (dtype, 0)], [True]) is dtype
    assert promote_all([(DType.int8, 1), (DType.float64, 0)], [3]) is DType.float64


def promoted(*tensors: tuple[DType, int]) -> DType | None:
    try:
        return promote_all(tensors)
    except DTypeError:
        return None


def test_promotion_has_no_order():
    for a, b, c in itertools.product(ALL, repeat=3):
        assert promoted((a, 1), (b, 1)) is promoted((b, 1), (a, 1))
        assert promoted((a, 1), (b, 1), (c, 0)) is promoted((c, 0), (b, 1), (a, 1))
        assert promoted((a, 1), (b, 1), (c, 1)) is promoted((c, 1), (a, 1), (b, 1))
        assert promote(a, a) is a


def test_nothing_to_promote():
    with pytest.raises(DTypeError) as caught:
        promote_all([])
    assert str(caught.value) == "promotion: there is nothing to promote"


@pytest.mark.parametrize("dtype", ALL)
def test_what_a_dtype_knows(dtype: DType):
    zero = np.zeros((), dtype.numpy)
    assert dtype.itemsize == zero.itemsize
    assert dtype == str(zero.dtype) == dtype.value
    assert dtype.is_float == (dtype in {"float64", "float32", "float16", "bfloat16"})
    assert dtype.is_half == (dtype in {"float16", "bfloat16"})
    assert dtype.is_unsigned == (dtype in {"uint8", "uint16", "uint32", "uint64"})
    assert hash(dtype) == hash(dtype.value)
    for name in (dtype.value, dtype.short, dtype.numpy, dtype, f"torch.{dtype.value}"):
        assert as_dtype(name) is dtype


def test_limits():
    assert DType.int8.limits == (-128, 127)
    assert DType.int64.limits == (-(2**63), 2**63 - 1)
    assert DType.uint8.limits == (0, 255)
    assert DType.uint64.limits == (0, 2**64 - 1)
    assert DType.bool_.limits == (0, 1)


def test_dtypes_by_other_names(torch: ModuleType):
    assert as_dtype(float) is DType.float32
    assert as_dtype(int) is DType.int64
    assert as_dtype(bool) is DType.bool_
    assert as_dtype(np.float64) is DType.float64
    assert as_dtype(np.dtype("int16")) is DType.int16
    assert as_dtype(ml_dtypes.bfloat16) is DType.bfloat16
    assert as_dtype("bool_") is DType.bool_
    for dtype in ALL:
        assert as_dtype(getattr(torch, dtype.value)) is dtype


def test_dtypes_of_numbers():
    assert [scalar_dtype(value) for value in SCALARS] == ["bool", "int64", "float32"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("flaot32", "'flaot32' is not a dtype that luminal_lab has\nhint: did you mean 'float32'?"),
        (
            "complex64",
            "'complex64' is not a dtype that luminal_lab has\nhint: one of float64, float32, "
            "float16, bfloat16, int64, int32, int16, int8, uint64, uint32, uint16, uint8, bool",
        ),
        ("uint12", "'uint12' is not a dtype that luminal_lab has\nhint: did you mean 'uint32'?"),
        (np.complex64, "'complex64' is not a dtype that luminal_lab has\nhint: one of float64, "
         "float32, float16, bfloat16, int64, int32, int16, int8, uint64, uint32, uint16, uint8, "
         "bool"),
    ],
)  # fmt: skip
def test_unknown_dtypes(name: Any, text: str):
    with pytest.raises(DTypeError) as caught:
        as_dtype(name)
    assert str(caught.value) == f"dtype: {text}"


@pytest.mark.parametrize("what", [None, 3, [], object, {}, ("float32",), "", ">f4"])
def test_what_is_no_dtype_at_all(what: Any):
    with pytest.raises(DTypeError, match=r"^dtype: .* is not a dtype that luminal_lab has\nhint: "):
        as_dtype(what)
