"""Products against PyTorch: values, dtypes, shapes, lowering, errors, symbolic sizes."""

from typing import Any, cast

import numpy as np
import pytest

from luminal_lab.core.op import size_of
from luminal_lab.errors import AxisError, DTypeError, GraphError, LabError, ShapeError
from luminal_lab.session import Graph
from luminal_lab.tensor.called import cdist
from luminal_lab.tensor.product import chain_matmul, einsum, multi_dot
from tests.tensor.against import FLOATS, INTS, against, draw, interpret

MATMULS = [
    ((4,), (4,)),
    ((3, 4), (4,)),
    ((4,), (4, 5)),
    ((3, 4), (4, 5)),
    ((3, 3), (3, 3)),
    ((1, 4), (4, 1)),
    ((3, 1), (1, 5)),
    ((1, 1), (1, 1)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 3, 4), (1, 4, 5)),
    ((6, 1, 3, 4), (2, 4, 5)),
    ((6, 1, 3, 4), (1, 2, 4, 5)),
    ((2, 1, 3, 2, 4), (2, 2, 1, 4, 3)),
    ((1, 2, 3, 2, 4), (4, 3)),
    ((0, 4), (4, 5)),
    ((3, 0), (0, 5)),
    ((3, 4), (4, 0)),
    ((0,), (0,)),
    ((0, 3, 4), (4, 5)),
]


@pytest.mark.parametrize("shapes", MATMULS, ids=str)
def test_matmul(torch, shapes):
    a, b = draw(shapes[0]), draw(shapes[1], seed=1)
    against(torch, lambda a, b: a @ b, None, a, b, atol=1e-6)
    against(torch, lambda a, b: a.matmul(b), None, a.astype("f8"), b.astype("f8"), rtol=1e-12)


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
def test_matmul_in_every_dtype(torch, dtype):
    a, b = draw((3, 9), dtype, low=0, high=30), draw((9, 2), dtype, low=0, high=30, seed=1)
    against(torch, lambda a, b: a @ b, None, a, b)  # integers wrap around, halves sum in float32


def test_16_bit_floats_are_multiplied_in_32():
    b = np.array([[300], [300], [-300], [-300]], "f2")
    found = interpret(lambda a, b: a @ b, np.full((1, 4), 300, "f2"), b)
    assert found == 0  # 300 * 300 is infinite in float16


def test_views_are_multiplied(torch):
    a, b = draw((6, 4)), draw((6, 8), seed=1)
    against(torch, lambda a, b: a.T @ b, None, a, b, atol=1e-6)
    against(torch, lambda a, b: a[::2].T @ b[1::2, ::2], None, a, b, atol=1e-6)
    against(torch, lambda a, b: a[:, :1].expand(6, 6) @ b, None, a, b, atol=1e-6)


def test_numpy_arrays_stand_on_either_side():
    x, w = draw((3, 4)), draw((4, 5), seed=1)
    np.testing.assert_allclose(interpret(lambda x: x @ w, x), x @ w, rtol=1e-5)
    np.testing.assert_allclose(interpret(lambda w: x @ w, w), x @ w, rtol=1e-5)


def test_dtypes_are_promoted():
    # PyTorch refuses to multiply a float32 by a float64 here, though not in a * b.
    found = interpret(lambda a, b: a @ b, draw((2, 3)), draw((3, 2), "float64"))
    assert found.dtype == "float64"
    assert interpret(lambda a, b: a @ b, draw((2, 3), "int32"), draw((3, 2))).dtype == "float32"


def test_infinities_and_nan_stay_where_they_belong(torch):
    a = np.array([[np.inf, 1], [np.nan, 1], [3e38, 3e38], [0, -0.0]], "f4")
    against(torch, lambda a, b: a @ b, None, a, np.array([[1, 0], [1, -1]], "f4"))


RELATIVES = {
    "dot": (lambda a, b: a.dot(b), [(4,), (4,)]),
    "vdot": (lambda a, b: a.vdot(b), [(4,), (4,)]),
    "outer": (lambda a, b: a.outer(b), [(4,), (3,)]),
    "inner": (lambda a, b: a.inner(b), [(2, 3, 4), (5, 4)]),
    "inner of vectors": (lambda a, b: a.inner(b), [(4,), (4,)]),
    "inner of a number": (lambda a, b: a.inner(b), [(), (4,)]),
    "mm": (lambda a, b: a.mm(b), [(2, 3), (3, 4)]),
    "bmm": (lambda a, b: a.bmm(b), [(5, 2, 3), (5, 3, 4)]),
    "mv": (lambda a, b: a.mv(b), [(2, 3), (3,)]),
    "addmm": (lambda x, a, b: x.addmm(a, b, beta=0.5, alpha=2), [(4,), (2, 3), (3, 4)]),
    "addmm with all but x": (lambda x, a, b: x.addmm(a, b, beta=0), [(4,), (2, 3), (3, 4)]),
    "baddbmm": (lambda x, a, b: x.baddbmm(a, b), [(5, 2, 4), (5, 2, 3), (5, 3, 4)]),
    "addmv": (lambda x, a, b: x.addmv(a, b, alpha=-1), [(2,), (2, 3), (3,)]),
    "kron": (lambda a, b: a.kron(b), [(2, 3), (4, 5)]),
    "kron of ranks": (lambda a, b: a.kron(b), [(2, 1, 3), (4,)]),
    "cross": (lambda a, b: a.cross(b, dim=1), [(4, 3), (4, 3)]),
    "cross along": (lambda a, b: a.cross(b, dim=0), [(3, 3), (3, 3)]),
    "cross of rows": (lambda a, b: a.cross(b, dim=-1), [(4, 3), (1, 3)]),
}


@pytest.mark.parametrize("name", RELATIVES)
def test_relatives(torch, name):
    function, shapes = RELATIVES[name]
    arrays = [draw(shape, seed=k) for k, shape in enumerate(shapes)]
    against(torch, function, None, *arrays, atol=1e-6)


@pytest.mark.parametrize(
    ("shapes", "dims"),
    [
        (((2, 3, 4), (4, 5)), 1),
        (((2, 3, 4), (3, 4, 5)), 2),
        (((2, 3), (4, 5)), 0),
        (((2, 3, 4), (5, 4, 2)), ([2, 0], [1, 2])),
        (((2, 3), (3, 2)), ([0, 1], [1, 0])),
        (((2, 3), (3, 2)), ([-1], [-2])),
    ],
)
def test_tensordot(torch, shapes, dims):
    arrays = [draw(shape, seed=k) for k, shape in enumerate(shapes)]
    theirs = lambda a, b: torch.tensordot(a, b, dims)  # noqa: E731
    against(torch, lambda a, b: a.tensordot(b, dims), theirs, *arrays, atol=1e-6)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (0, 4), (2, 1, 3, 4)])
def test_linear(torch, shape):
    arrays = draw(shape), draw((5, 4), seed=1), draw((5,), seed=2)
    linear = torch.nn.functional.linear
    against(torch, lambda x, w: x.linear(w), linear, *arrays[:2], atol=1e-6)
    against(torch, lambda x, w, b: x.linear(w, b), linear, *arrays, atol=1e-6)
    against(
        torch,
        lambda x, w, b: x.linear(w, bias=b),
        linear,
        *[a.astype("f2") for a in arrays],
        atol=2e-3,
    )
    against(torch, lambda x, w: x.linear(w), linear, arrays[0], draw((4,)), atol=1e-6)


def test_bilinear(torch):
    arrays = draw((2, 3)), draw((2, 4), seed=1), draw((5, 3, 4), seed=2), draw((5,), seed=3)
    bilinear = torch.nn.functional.bilinear
    against(torch, lambda x, y, w: x.bilinear(y, w), bilinear, *arrays[:3], atol=1e-5)
    against(torch, lambda x, y, w, b: x.bilinear(y, w, b), bilinear, *arrays, atol=1e-5)


EINSUMS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("ij , jk -> ki", (3, 4), (4, 5)),
    ("ba,cb", (3, 4), (5, 3)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bqhd,bkhd->bhqk", (2, 3, 4, 5), (2, 6, 4, 5)),
    ("bhqk,bkhd->bqhd", (2, 4, 3, 6), (2, 6, 4, 5)),
    ("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (3, 4, 5)),
    ("...i,...i", (2, 3), (2, 3)),
    ("i...,i...->...", (2, 3), (2, 3)),
    ("...ij->...ji", (2, 3, 4)),
    ("...i->...", (2, 3, 4)),
    ("...i->i", (2, 3, 4)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("iji->j", (3, 2, 3)),
    ("iij->ij", (3, 3, 2)),
    ("iii->i", (2, 2, 2)),
    ("ij->", (3, 4)),
    ("ij->ji", (3, 4)),
    ("ij->ij", (3, 4)),
    ("i,j->ij", (3,), (4,)),
    ("i,i->", (3,), (3,)),
    ("ij,kl->", (3, 4), (2, 5)),
    ("ij,j->i", (3, 4), (4,)),
    ("ijk,jk->i", (2, 3, 4), (3, 4)),
    ("ij,ij->ij", (3, 4), (3, 4)),
    ("ij,kj->ik", (3, 1), (5, 4)),
    (",i->i", (), (4,)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,ik,il->jkl", (2, 3), (2, 4), (2, 5)),
    ("a,b,c->cba", (2,), (3,), (4,)),
    ("ij,jj,jk->ki", (2, 3), (3, 3), (3, 4)),
    ("aB,Bc", (2, 3), (3, 4)),
    ("ij,jk->ik", (0, 4), (4, 5)),
    ("ij,jk->ik", (3, 0), (0, 5)),
    ("ij,ik->j", (3, 4), (3, 0)),
]


@pytest.mark.parametrize("case", EINSUMS, ids=str)
def test_einsum(torch, case):
    text, *shapes = case
    arrays = [draw(shape, seed=k) for k, shape in enumerate(shapes)]
    theirs = lambda *xs: torch.einsum(text, *xs)  # noqa: E731
    against(torch, lambda *xs: einsum(text, *xs), theirs, *arrays, rtol=1e-5, atol=1e-5)


def test_einsum_takes_lists_and_numpy_arrays():
    a, b = draw((3, 4)), draw((4, 5))
    wanted = np.einsum("ij,jk", a, b)
    found = interpret(lambda x, y: einsum("ij,jk", [x, y]), a, b)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    mixed: list[Any] = [a]
    found = interpret(lambda y: einsum("ij,jk", [*mixed, y]), b)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_einsum_sums_alone_what_only_one_has():
    cx = Graph()
    a, b = cx.tensor((30, 40)), cx.tensor((50, 60))
    einsum("ij,kl->", a, b)
    assert max(size_of(node.shape) for node in cx.ir.nodes) == 3000


def test_chains(torch):
    arrays = [draw(s, seed=k) for k, s in enumerate([(10, 2), (2, 30), (30, 3), (3, 5)])]
    theirs = lambda *xs: torch.linalg.multi_dot(xs)  # noqa: E731
    against(torch, lambda *xs: chain_matmul(*xs), theirs, *arrays, rtol=1e-4, atol=1e-4)
    against(torch, lambda *xs: multi_dot(list(xs)), theirs, *arrays[:2], atol=1e-5)
    against(torch, lambda *xs: multi_dot(list(xs)), theirs, draw((2,)), *arrays[1:], atol=1e-4)
    against(torch, lambda *xs: multi_dot(list(xs)), theirs, *arrays, draw((5,)), atol=1e-4)
    cx = Graph()
    chain_matmul(*[cx.tensor(shape) for shape in [(100, 2), (2, 100), (100, 2), (2, 100)]])
    sizes = [size_of(node.shape) for node in cx.ir.nodes if node.op.name == "mul"]
    assert sum(sizes) < 21_000


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, np.inf])
def test_distances(torch, p):
    a, b = draw((2, 3, 4)), draw((5, 4), seed=1)
    theirs = lambda a, b: torch.cdist(a, b, p, "donot_use_mm_for_euclid_dist")  # noqa: E731
    against(torch, lambda a, b: cdist(a, b, p), theirs, a, b, rtol=2e-5)
    if p == 2:
        assert (interpret(lambda a: cdist(a, a), b).diagonal() == 0).all()


def test_symbolic_sizes():
    cx = Graph()
    a, b = cx.tensor(("batch", "m", 4)), cx.tensor((4, "n"))
    c = (a @ b).retrieve()
    assert str(c.shape) == "(batch, m, n)"
    d = einsum("bmn,cn->bmc", c, cx.tensor((2, "n")).set(np.ones((2, 5)))).retrieve()
    a.set(draw((2, 3, 4)))
    b.set(draw((4, 5)))
    cx.execute()
    wanted = draw((2, 3, 4)) @ draw((4, 5))
    np.testing.assert_allclose(np.array(c.tolist()), wanted, rtol=1e-5)
    np.testing.assert_allclose(
        np.array(d.tolist()), wanted @ np.ones((5, 2), "f4"), rtol=1e-5, atol=1e-5
    )


def test_matmul_is_the_fewest_views():
    cx = Graph()
    v, m, w = cx.tensor((4,)), cx.tensor((3, 4)), cx.tensor((1, 4))
    assert v.dot(v).op_counts() == {"mul": 1, "reshape": 1, "sum_reduce": 1}
    assert (m @ v).op_counts() == {"expand": 1, "mul": 1, "reshape": 2, "sum_reduce": 1}
    assert (w @ v).op_counts() == {"mul": 1, "reshape": 2, "sum_reduce": 1}


# -- errors ----------------------------------------------------------------------------------------


def matmul_of(a, b):
    return lambda cx: cx.tensor(a, name="a") @ cx.tensor(b, name="b")


def einsum_of(text, *shapes):
    return lambda cx: einsum(
        text, *[cx.tensor(s, name=n) for s, n in zip(shapes, "abc", strict=False)]
    )


ERRORS = {
    "inner": (
        matmul_of((3, 4), (5, 6)),
        "matmul: the inner dims differ: %a is (3, 4) and %b is (5, 6), so 4 meets 5",
        "the last axis of one must be as long as the second to last of the other",
    ),
    "transposed": (
        matmul_of((3, 4), (5, 4)),
        "matmul: the inner dims differ: %a is (3, 4) and %b is (5, 4), so 4 meets 5",
        "%b.T is (4, 5); did you mean to transpose the other one?",
    ),
    "transposed first": (
        matmul_of((2, 3, 4), (3, 6)),
        "matmul: the inner dims differ: %a is (2, 3, 4) and %b is (3, 6), so 4 meets 3",
        "%a.mT is (2, 4, 3); did you mean to transpose the first one?",
    ),
    "vectors": (
        matmul_of((3,), (4,)),
        "matmul: the inner dims differ: %a is (3,) and %b is (4,), so 3 meets 4",
        "the last axis of one must be as long as the first of the other",
    ),
    "batches": (
        matmul_of((2, 3, 4), (3, 4, 5)),
        "matmul: axis -3 is 2 in %a (2, 3, 4) and 3 in %b (3, 4, 5)",
        "the sizes must be equal, or 1",
    ),
    "numbers": (matmul_of((), (4,)), "matmul: %a () has no axes", "use * to multiply by a number"),
    "a number": (
        lambda cx: cx.tensor((2, 2)) @ 3,
        "matmul: 3 is not a tensor",
        "use * for multiples",
    ),
    "dot": (
        lambda cx: cx.tensor((2, 2), name="a").dot(cx.tensor((2,))),
        "dot: needs 1 axes, but %a (2, 2) has 2",
        "reshape or unsqueeze it first",
    ),
    "linear": (
        lambda cx: cx.tensor((2, 3), name="x").linear(cx.tensor((3, 4), name="w")),
        "linear: the last axes differ: %x (2, 3) and the weight %w (3, 4)",
        "the weight is [out, in], and x is [..., in]",
    ),
    "bias": (
        lambda cx: cx.tensor((2, 3)).linear(cx.tensor((4, 3), name="w"), cx.tensor((3,), name="b")),
        "linear: bias is %b (3,), but there are (4,) values to give one each: axes (1,) of "
        "%9 (2, 4)",
        "give bias the shape (4,)",
    ),
    "tensordot": (
        lambda cx: cx.tensor((2, 3), name="a").tensordot(cx.tensor((4, 3), name="b"), 1),
        "tensordot: axis 1 of %a (2, 3) is 3, and axis 0 of %b (4, 3) is 4",
        "pair axes of equal sizes",
    ),
    "tensordot pairs": (
        lambda cx: cx.tensor((2, 3), name="a").tensordot(
            cx.tensor((3, 2), name="b"), ([0, 1], [1])
        ),
        "tensordot: ([0, 1], [1]) are not pairs of axes of %a (2, 3) and %b (3, 2)",
        "give two lists, as many axes of one as of the other, and each once",
    ),
    "cross": (
        lambda cx: cx.tensor((2, 4), name="a").cross(cx.tensor((2, 4)), axis=1),
        "cross: axis 1 of %a (2, 4) has size 4 and not 3",
        "name the axis of x, y and z",
    ),
    "cdist": (
        lambda cx: cdist(cx.tensor((2, 3), name="a"), cx.tensor((2, 4), name="b")),
        "cdist: the rows differ: %a (2, 3) and %b (2, 4), so 3 meets 4",
        "both need as many columns",
    ),
    "einsum sizes": (
        einsum_of("ij,jk->ik", (3, 4), (5, 6)),
        "einsum: j is 4 in %a (3, 4) and 5 in %b (5, 6)",
        "the sizes must be equal, or 1",
    ),
    "einsum rank": (
        einsum_of("ijk->i", (3, 4)),
        "einsum: 'ijk' names 3 axes, but %a (3, 4) has 2",
        'write one letter for each axis, or "..." for the rest',
    ),
    "einsum count": (
        einsum_of("ij,jk->ik", (3, 4)),
        "einsum: 'ij,jk->ik' describes 2 operands, but 1 are given",
        "write one group of letters for each operand, with commas between",
    ),
    "einsum letters": (
        einsum_of("i1->i", (3, 4)),
        "einsum: 'i1' are not letters",
        'spell it as in "ij,jk->ik" or "...i,ij->...j"',
    ),
    "einsum output": (
        einsum_of("ij->ik", (3, 4)),
        "einsum: 'k' of 'ij->ik' is in no operand",
        "the letters after the arrow are some of those before it, each once",
    ),
    "einsum twice": (
        einsum_of("ij->ii", (3, 4)),
        "einsum: 'i' of 'ij->ii' comes twice in the result",
        "the letters after the arrow are some of those before it, each once",
    ),
    "einsum diagonal": (
        einsum_of("ii->i", (3, 4)),
        "einsum: i is 3 and 4 in %a (3, 4)",
        "a diagonal needs axes of equal sizes",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    call, message, hint = ERRORS[case]
    with pytest.raises(LabError) as caught:
        call(Graph())
    assert caught.value.message == message
    assert caught.value.hint == hint
    assert caught.value.where is not None


WRONG = {
    "bools": (
        lambda cx: cx.tensor((2, 2), "bool", "a") @ cx.tensor((2, 2), "bool"),
        DTypeError,
        r"matmul: needs numbers, but %a \(2, 2\) is bool",
    ),
    "no tensor": (
        lambda cx: einsum("ij->i", *cast(Any, [np.ones((2, 2))])),
        GraphError,
        "einsum: there is no tensor in",
    ),
    "no text": (lambda cx: einsum(cx.tensor((2, 2)), cx.tensor((2,))), ShapeError, "is not text"),
    "letters": (lambda cx: cx.tensor((2, 2)).tensordot(cx.tensor((2, 2)), "ab"), AxisError, "'a'"),
    "triples": (
        lambda cx: cx.tensor((2, 2)).tensordot(cx.tensor((2, 2)), (1, 1, 1)),
        AxisError,
        "are not pairs",
    ),
    "too many": (
        lambda cx: cx.tensor((2, 2)).tensordot(cx.tensor((2, 2)), 3),
        AxisError,
        "there is no axis",
    ),
    "nothing": (lambda cx: cx.tensor((2, 2)) @ None, DTypeError, "cannot be read|not a number"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_kinds_of_arguments(case):
    call, kind, message = WRONG[case]
    cx = Graph()
    with pytest.raises(kind, match=message):
        call(cx)
