"""Data meets types: what is read as an array, what fits an input, which sizes it gives to dims."""

import itertools
import warnings

import ml_dtypes
import numpy as np
import pytest

from luminal_lab.core.binding import as_array, bound_shape, fit, solve_shape
from luminal_lab.core.dims import Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType
from luminal_lab.errors import DimError, DTypeError, InputError, LabError
from luminal_lab.session import Graph

N, P, Q = Symbol("n"), Symbol("p"), Symbol("q", 1, 8, 2)
TABLE = {"n": N, "p": P, "q": Q}


def fitted(data, shape=(2,), dtype="float32", copy=True):
    return fit("set: %x", data, TensorType(DType(dtype), shape), TABLE, copy=copy)


def message(data, shape=(2,), dtype="float32", kind=LabError):
    with pytest.raises(kind) as caught:
        fitted(data, shape, dtype)
    return str(caught.value)


class Exports:
    """An object that can only be read through DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Converts:
    def __array__(self, dtype=None, copy=None):
        return np.array([3, 4])


class Fails:
    def __array__(self, dtype=None, copy=None):
        raise KeyError("no data today")


@pytest.mark.parametrize(
    "data",
    [[1, 2], (1.0, 2.0), [True, 2], np.array([1, 2], np.int8), np.array([1, 2.0]), Converts()],
)
def test_whatever_is_an_array_is_read(data):
    array = fitted(data)
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, np.asarray(data, np.float32))


def test_dlpack_is_read_where_there_is_no_array_method():
    np.testing.assert_array_equal(fitted(Exports(np.array([5.0, 6.0]))), [5, 6])


def test_numbers_fill_what_has_one_element():
    for shape in [(), (1,), (1, 1, 1)]:
        assert fitted(2, shape).shape == shape
    assert fitted(2.5, (1,)) == 2.5
    assert "is (2,), but the data is ()" in message(2)


def test_torch_tensors_with_gradients_and_in_bfloat16(torch):
    given = torch.tensor([1.5, -2.0], requires_grad=True)
    np.testing.assert_array_equal(fitted(given), [1.5, -2])
    half = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    assert as_array(half).dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(fitted(half, dtype="bfloat16").astype(float), [1.5, -2])
    np.testing.assert_array_equal(fitted(torch.tensor([3, 4]), dtype="int64"), [3, 4])
    with_gradient = half.clone().requires_grad_()
    np.testing.assert_array_equal(fitted(with_gradient), [1.5, -2])
    np.testing.assert_array_equal(fitted(torch.arange(6).reshape(2, 3).T[1], dtype="int32"), [1, 4])


def test_copies_unless_that_is_not_wanted():
    data = np.zeros(2, np.float32)
    assert fitted(data, copy=False) is data
    assert not np.shares_memory(fitted(data), data)
    assert not np.shares_memory(fitted(data.astype(float), copy=False), data)


@pytest.mark.parametrize("order", ["C", "F"])
def test_layouts_and_byte_orders_do_not_matter(order):
    data = np.arange(6.0).reshape(2, 3).copy(order)
    np.testing.assert_array_equal(fitted(data[::-1], (2, 3)), data[::-1])
    np.testing.assert_array_equal(fitted(data.astype(">f4"), (2, 3)), data)


def test_empty_data_fits_every_dtype():
    for dtype in DType:
        assert fitted([], (0,), dtype).shape == (0,)
        assert fitted(np.zeros((0, 3)), (0, 3), dtype).dtype == dtype.numpy


def test_dtypes_lose_nothing_but_precision():
    order = {"bool": 0, "int": 1, "float": 2}
    for have, want in itertools.product(DType, DType):
        data = np.array([1, 0]).astype(have.numpy)
        if order[have.kind] <= order[want.kind]:
            assert fitted(data, dtype=want).dtype == want.numpy
        else:
            assert f"set: %x is {want}, but the data is {have}\n" in message(data, dtype=want)


def test_a_float_too_large_becomes_infinite_without_a_warning():
    with warnings.catch_warnings(action="error"):
        assert fitted([1e300, 1.0])[0] == np.inf


@pytest.mark.parametrize(
    ("data", "shape", "dtype", "text"),
    [
        (
            np.zeros(3),
            (2, 3),
            "float32",
            "set: %x is (2, 3), but the data is (3,)\n"
            "hint: give data with 2 axes, as in data.reshape(...)",
        ),
        (
            np.zeros((3, 2)),
            (2, 3),
            "float32",
            "set: %x is (2, 3), but the data is (3, 2), so that axis 0 has 3 and not 2\n"
            "hint: reshape the data, or make the tensor with the shape of the data",
        ),
        (
            np.zeros((0, 3)),
            (2, 3),
            "float32",
            "set: %x is (2, 3), but the data is (0, 3), so that axis 0 has 0 and not 2\n"
            "hint: reshape the data, or make the tensor with the shape of the data",
        ),
        (
            [[1, 2], [3]],
            (2, 2),
            "float32",
            "set: %x: a list that cannot be read as one array\n"
            "hint: give a number, nested lists of equal lengths, or an array",
        ),
        (
            Fails(),
            (2,),
            "float32",
            "set: %x: a Fails that cannot be read as one array\n"
            "hint: give a number, nested lists of equal lengths, or an array",
        ),
        (
            "ab",
            (2,),
            "float32",
            "set: %x: a str that holds <U2, and not numbers of one of our dtypes\n"
            "hint: the dtypes are float64, float32, float16, bfloat16, int64, int32, int16, int8, "
            "uint64, uint32, uint16, uint8, bool",
        ),
        (
            [1.5, np.nan],
            (2,),
            "int32",
            "set: %x is int32, but the data is float64 and holds NaN or infinity\n"
            'hint: convert it, as in numpy.array(data, "int32"), or make it a float32',
        ),
        (
            [1, 300],
            (2,),
            "int8",
            "set: %x is int8, but the data is int64 with values from 1 to 300, and int8 holds "
            "-128 to 127\nhint: make the tensor of a wider dtype",
        ),
        (
            np.array([1, 1 << 63], np.uint64),
            (2,),
            "int64",
            "set: %x is int64, but the data is uint64 with values from 1 to 9223372036854775808, "
            "and int64 holds -9223372036854775808 to 9223372036854775807\n"
            "hint: make the tensor of a wider dtype",
        ),
        (
            np.zeros((0, 4)),
            (N, 4),
            "float32",
            "set: %x is (n, 4), but the data is (0, 4): dim 'n': 0 is out of its bounds, which "
            "are at least 1\n"
            'hint: use other data, or declare it before anything else: cx.dim("n", low, high)',
        ),
        (
            np.zeros(3),
            (Q,),
            "float32",
            "set: %x is (q,), but the data is (3,): dim 'q': 3 is not a multiple of 2, as it is "
            "declared to be\nhint: pad the data to 4",
        ),
    ],
)
def test_what_does_not_fit_is_said(data, shape, dtype, text):
    assert message(data, shape, dtype) == text


@pytest.mark.parametrize(
    ("data", "held"),
    [
        (None, "None is neither a number nor an array"),
        (object(), "a object is neither a number nor an array"),
        ([1, None], "a list that holds None"),
        ([1, 10**30], "a list that holds numbers of more than 64 bits"),
        (1j, "a complex that holds complex128"),
        (["a", "b"], "a list that holds <U1"),
        ({1, 2}, "a set is neither a number nor an array"),
        (b"ab", "a bytes that holds |S2"),
        (np.zeros(2, "datetime64[s]"), "a ndarray that holds datetime64[s]"),
        (np.zeros(2, [("a", "f4")]), "a ndarray that holds [('a', '<f4')]"),
        (N, "a Symbol is neither a number nor an array"),
    ],
)
def test_what_holds_no_numbers_is_named(data, held):
    assert held in message(data, kind=DTypeError)


def test_errors_of_ours_pass_through():
    cx = Graph()
    other = cx.tensor((2,), name="other")
    with pytest.raises(RuntimeError, match="read: %other"):
        as_array(other)


@pytest.mark.parametrize(
    ("dims", "shape", "known", "found"),
    [
        ((N,), (5,), {}, {"n": 5}),
        ((N + 1,), (5,), {}, {"n": 4}),
        ((2 * P,), (6,), {}, {"p": 3}),
        ((2 * P + 1, P), (7, 3), {}, {"p": 3}),
        ((P * Q,), (12,), {"q": 4}, {"p": 3}),
        ((P * Q, Q), (12, 4), {}, {"p": 3, "q": 4}),
        ((P + Q, Q - N, N), (10, 3, 1), {}, {"n": 1, "q": 4, "p": 6}),
        ((P * Q,), (12,), {}, {}),
        ((N // 2,), (12,), {}, {}),
    ],
)
def test_shapes_of_data_decide_dims(dims, shape, known, found):
    assert solve_shape(dims, shape, known) == found


@pytest.mark.parametrize(
    ("dims", "shape", "text"),
    [
        ((2 * P,), (7,), "axis 0 has 7 and not 2*p"),
        ((2 * P + 1,), (4,), "axis 0 has 4 and not 2*p + 1"),
        ((N, N), (4, 5), "axis 1 has 5 and not 4"),
        ((N, N + 1), (4, 6), "axis 1 has 6 and not 5"),
        ((P * Q,), (1,), "axis 0 has 1 and not p*q"),
        ((P + 3,), (2,), "dim 'p': -1 is out of its bounds"),
    ],
)
def test_shapes_that_no_sizes_can_give(dims, shape, text):
    assert text in message(np.zeros(shape), dims)


def test_a_bound_shape_cannot_be_negative():
    assert bound_shape("x", (N - 2, 3), {"n": 5}) == (3, 3)
    with pytest.raises(DimError) as caught:
        bound_shape("execute: %x", (N - 5, 3), {"n": 3})
    assert str(caught.value) == (
        "execute: %x is (n - 5, 3), which is (-2, 3) with n = 3\n"
        "hint: a dim cannot be negative; declare bounds with dim(name, low, high)"
    )


def test_dims_bind_across_inputs():
    cx = Graph()
    a = cx.tensor(("p * q",), name="a").set(np.arange(12.0))
    cx.tensor(("q + 1",), name="b").set(np.zeros(5))
    y = (a.reshape(("p", "q")) * 2).retrieve()
    z = (cx["b"] * 1).retrieve()
    cx.execute()
    assert y.numpy().shape == (3, 4)
    assert z.numpy().shape == (5,)


def test_two_inputs_that_disagree_are_both_named():
    cx = Graph()
    a = cx.tensor(("n",), name="a").set([1, 2, 3, 4])
    b = cx.tensor(("n",), name="b").set([1, 2, 3, 4, 5])
    (a + b).retrieve()
    with pytest.raises(DimError) as caught:
        cx.execute()
    assert caught.value.message == (
        "execute: the data of %b is (5,), but it should be (4,) with n = 4 from %a"
    )
    assert 'b = cx.tensor(("n",), name="b")' in str(caught.value)
    assert caught.value.hint == "set all inputs that share a dim to data of one size"
    cx.set_dim("n", 4)
    with pytest.raises(DimError, match=r"should be \(4,\) with n = 4 from set_dim"):
        cx.execute()
    b.set([1, 1, 1, 1])
    cx.execute()


def test_an_unbound_dim_is_named_with_its_origin():
    cx = Graph()
    ones = cx.ones(("k", 2))
    total = ones.sum(0).retrieve()
    with pytest.raises(DimError) as caught:
        cx.execute()
    assert caught.value.message == "execute: dim 'k' is not bound; it comes from %0: f32[k, 2]"
    assert caught.value.where is not None
    assert 'ones = cx.ones(("k", 2))' in caught.value.where
    assert caught.value.hint == 'give data to an input that has it, or call cx.set_dim("k", …)'
    cx.set_dim("k", 3)
    cx.execute()
    assert total.tolist() == [3, 3]


def test_an_input_error_is_of_its_class():
    with pytest.raises(InputError):
        fitted(np.zeros(3))
