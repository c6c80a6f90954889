"""Linear algebra of small matrices, against PyTorch: values, gradients, batches, refusals."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, DTypeError, GraphError, LabError, ShapeError
from tests.expect import error_of
from tests.tensor.against import against, draw, interpret

SQUARES = [draw((4, 4)), draw((2, 3, 5, 5), seed=1), draw((1, 1)), np.zeros((0, 3, 3), np.float32)]
SWAPPED = np.array([[0, 2, 1], [1, 0, 0], [3, 1, 4]], np.float32)
TALL, WIDE = draw((2, 5, 3)), draw((3, 5), seed=2)
SINGULAR = np.array([[1, 2], [2, 4]], np.float32)


def definite(*shape: int) -> np.ndarray:
    """Return positive definite matrices."""
    x = draw(shape)
    return x @ np.swapaxes(x, -1, -2) + 2 * np.eye(shape[-1], dtype=np.float32)


def slopes(torch: Any, ours: Callable[..., Any], theirs: Callable[..., Any], *arrays: Any) -> None:
    """Fail unless the gradients of the sum of weighted results are PyTorch's."""
    cx = ll.Graph()
    given = [cx.tensor(a.shape).set(a) for a in arrays]
    known = [torch.tensor(a, requires_grad=True) for a in arrays]
    mine, other = ours(*given), theirs(*known)
    mine, other = ([r] if not isinstance(r, (tuple, list)) else list(r) for r in (mine, other))
    total, loss = None, 0
    for k, (m, o) in enumerate(zip(mine, other, strict=True)):
        if not o.requires_grad:
            continue
        weight = draw(o.shape, seed=k + 7)
        part = (m * cx.tensor(weight.shape).set(weight)).sum()
        total = part if total is None else total + part
        loss = loss + (o * torch.tensor(weight)).sum()
    assert total is not None
    found = ll.grad(total, given)
    cx.retrieve(found)
    cx.execute()
    torch.autograd.backward(loss)
    for f, t in zip(found, known, strict=True):
        scale = max(1.0, float(t.grad.abs().max()) if t.grad.numel() else 1.0)
        np.testing.assert_allclose(f.numpy(), t.grad.numpy(), rtol=2e-3, atol=2e-4 * scale)


def both(torch: Any, ours: Any, theirs: Any, *arrays: np.ndarray, derived: bool = True) -> None:
    against(torch, ours, theirs, *arrays, rtol=2e-3, atol=2e-4)
    if derived:
        slopes(torch, ours, theirs, *arrays)


@pytest.mark.parametrize("a", [*SQUARES, SWAPPED], ids=lambda a: str(a.shape))
@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "inv_ex"])
def test_of_squares(torch, name: str, a: np.ndarray):
    both(torch, getattr(ll.linalg, name), lambda t: tuple(r) if isinstance(
        r := getattr(torch.linalg, name)(t), tuple) else r, a)  # fmt: skip


def test_solutions(torch):
    for a, b in (
        (SWAPPED, draw((3,))), (SWAPPED, draw((3, 2))), (SQUARES[1], draw((2, 3, 5))),
        (SQUARES[1], draw((3, 5, 2))), (SQUARES[0], draw((2, 4, 1))),
    ):  # fmt: skip
        both(torch, ll.linalg.solve, torch.linalg.solve, a, b)
    ours = lambda a, b: ll.linalg.solve(a, b, left=False)  # noqa: E731
    both(torch, ours, lambda a, b: torch.linalg.solve(a, b, left=False), SWAPPED, draw((2, 3)))
    against(torch, ll.linalg.solve_ex, lambda a, b: tuple(torch.linalg.solve_ex(a, b)),
            SWAPPED, draw((3, 2)), rtol=1e-4, atol=1e-5)  # fmt: skip


def test_singular_matrices():
    assert interpret(ll.linalg.det, SINGULAR) == 0
    sign, log = interpret(ll.linalg.slogdet, SINGULAR)
    assert (sign, log) == (0, -math.inf)
    assert not np.isfinite(interpret(ll.linalg.inv, SINGULAR)).all()
    assert interpret(ll.linalg.inv_ex, SINGULAR)[1] == 2
    assert interpret(ll.linalg.cholesky_ex, -SINGULAR)[1] == 1
    assert np.isnan(interpret(ll.linalg.cholesky, -SINGULAR)).any()
    assert np.isnan(interpret(ll.linalg.logdet, np.diag([1, -1]).astype(np.float32)))


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangles(torch, upper: bool, left: bool, unit: bool):
    a = draw((2, 4, 4)) + 3 * np.eye(4, dtype=np.float32)
    b = draw((4, 3) if left else (3, 4))
    options = {"upper": upper, "left": left, "unitriangular": unit}
    triangle = lambda t: t.triu() if upper else t.tril()  # noqa: E731
    both(
        torch,
        lambda a, b: ll.linalg.solve_triangular(a, b, **options),
        lambda a, b: torch.linalg.solve_triangular(triangle(a), b, **options),
        a, b,
    )  # fmt: skip


@pytest.mark.parametrize("upper", [True, False])
def test_positive_definite_matrices(torch, upper: bool):
    for a in (definite(3, 3), definite(2, 5, 5), np.zeros((2, 0, 0), np.float32)):
        ours = lambda t: ll.linalg.cholesky(t, upper=upper)  # noqa: E731
        both(torch, ours, lambda t: torch.linalg.cholesky(t, upper=upper), a)
    factor = np.linalg.cholesky(definite(3, 3)).astype(np.float32)
    factor = factor.T if upper else factor
    ours = lambda t: ll.linalg.cholesky_inverse(t, upper)  # noqa: E731
    both(torch, ours, lambda t: torch.cholesky_inverse(t, upper), factor, derived=False)
    ours = lambda b, t: ll.linalg.cholesky_solve(b, t, upper)  # noqa: E731
    theirs = lambda b, t: torch.cholesky_solve(b, t, upper)  # noqa: E731
    both(torch, ours, theirs, draw((3, 2)), factor, derived=False)


@pytest.mark.parametrize("a", [SQUARES[0], TALL, WIDE, SWAPPED], ids=lambda a: str(a.shape))
def test_factors(torch, a: np.ndarray):
    both(torch, ll.linalg.qr, lambda t: tuple(torch.linalg.qr(t)), a, derived=a is not WIDE)
    for mode in ("complete", "r"):
        ours = lambda t, m=mode: ll.linalg.qr(t, m)  # noqa: E731
        against(torch, ours, lambda t, m=mode: tuple(torch.linalg.qr(t, m)), a, atol=1e-5)
    against(torch, ll.linalg.geqrf, lambda t: tuple(torch.geqrf(t)), a, rtol=1e-4, atol=1e-5)
    for pivot in (True,):
        ours = lambda t, p=pivot: ll.linalg.lu(t, pivot=p)  # noqa: E731
        both(torch, ours, lambda t, p=pivot: tuple(torch.linalg.lu(t, pivot=p)), a)
        ours = lambda t, p=pivot: ll.linalg.lu_factor_ex(t, pivot=p)  # noqa: E731
        theirs = lambda t, p=pivot: tuple(torch.linalg.lu_factor_ex(t, pivot=p))  # noqa: E731
        against(torch, ours, theirs, a, rtol=1e-4, atol=1e-5)
    product = interpret(lambda t: ll.linalg.qr(t)[0] @ ll.linalg.qr(t)[1], a)
    np.testing.assert_allclose(product, a, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_what_factors_solve(torch, left: bool, adjoint: bool):
    b = draw((3, 2) if left else (2, 3))
    options = {"left": left, "adjoint": adjoint}
    both(
        torch,
        lambda a, b: ll.linalg.lu_solve(*ll.linalg.lu_factor(a), b, **options),
        lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, **options),
        SWAPPED, b,
    )  # fmt: skip
    a = draw((3, 3))
    ours = lambda a, c: ll.linalg.ormqr(*ll.linalg.geqrf(a), c, left, adjoint)  # noqa: E731
    theirs = lambda a, c: torch.ormqr(*torch.geqrf(a), c, left, adjoint)  # noqa: E731
    against(torch, ours, theirs, a, draw((3, 3), seed=4), rtol=1e-4, atol=1e-5)


def test_powers_and_shapes(torch):
    for n in (-2, 0, 1, 5):
        ours = lambda t, k=n: ll.linalg.matrix_power(t, k)  # noqa: E731
        both(torch, ours, lambda t, k=n: torch.linalg.matrix_power(t, k), SWAPPED, derived=n != 0)
    for scale in (0.1, 1, 3):
        both(torch, ll.linalg.matrix_exp, torch.linalg.matrix_exp, scale * SQUARES[0] / 4)
    assert interpret(ll.linalg.matrix_exp, np.zeros((0, 0), np.float32)).shape == (0, 0)
    both(torch, lambda t: ll.linalg.tensorinv(t, 1), lambda t: torch.linalg.tensorinv(t, 1),
         draw((4, 2, 2)))  # fmt: skip
    both(torch, ll.linalg.tensorsolve, torch.linalg.tensorsolve, draw((2, 3, 6)), draw((2, 3)))
    both(torch, lambda t: ll.linalg.vander(t, N=4), lambda t: torch.linalg.vander(t, N=4), TALL[0])
    against(torch, ll.linalg.vecdot, torch.linalg.vecdot, TALL, TALL[0], atol=1e-5)


@pytest.mark.parametrize("order", [None, "fro", 1, -1, math.inf, -math.inf])
def test_matrix_norms(torch, order: Any):
    for dim in ((0, 1), (-1, 0)):
        both(
            torch,
            lambda t, d=dim: ll.linalg.norm(t, order, d, True),
            lambda t, d=dim: torch.linalg.norm(t, order, d, True),
            TALL,
        )


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, -1, math.inf, -math.inf])
def test_vector_norms(torch, order: float):
    for dim in (None, 0, (0, -1)):
        both(
            torch,
            lambda t, d=dim: ll.linalg.vector_norm(t, order, d),
            lambda t, d=dim: torch.linalg.vector_norm(t, order, d),
            TALL,
            derived=order != 0,
        )


def test_halves_and_doubles():
    assert str(interpret(ll.linalg.inv, SWAPPED.astype(np.float16)).dtype) == "float16"
    found = interpret(ll.linalg.inv, SWAPPED.astype(np.float64))
    np.testing.assert_allclose(found, np.linalg.inv(SWAPPED.astype(np.float64)), rtol=1e-12)


def test_it_is_compiled():
    cx = ll.Graph()
    a = cx.tensor((3, 3)).set(SWAPPED)
    y = ll.linalg.solve(a, cx.tensor((3, 1)).set([[1], [2], [3]])).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    cx.execute()
    np.testing.assert_allclose(SWAPPED @ y.numpy(), [[1], [2], [3]], rtol=1e-5, atol=1e-5)


def test_errors():
    cx = ll.Graph()
    a, big = cx.tensor((2, 3), name="a"), cx.tensor((65, 65), name="big")
    error = error_of(lambda: ll.linalg.inv(a), ShapeError)
    assert error.message == "inv: %a (2, 3) is not square: it has 2 rows and 3 columns"
    error = error_of(lambda: ll.linalg.cholesky(big), ShapeError)
    assert (
        error.message == "cholesky: %big (65, 65) has 65 rows and 65 columns, and 64 are the most"
    )
    error = error_of(lambda: ll.linalg.qr(a[0]), ShapeError)
    assert "has 1 axes, and a matrix has two" in error.message
    error_of(lambda: ll.linalg.det(cx.tensor((2, 2), "int64")), DTypeError)
    error_of(lambda: ll.linalg.det(cx.tensor(("n", "n"))), ShapeError)
    error_of(lambda: ll.linalg.solve(cx.tensor((2, 2)), [1.0, 2.0, 3.0]), ShapeError)
    error_of(lambda: ll.linalg.solve(cx.tensor((2, 3, 3)), cx.tensor((4, 3, 1))), ShapeError)
    for call in (
        lambda: ll.linalg.matrix_norm(a, "nuc"),
        lambda: ll.linalg.qr(a, "full"),
        lambda: ll.linalg.inv_ex(cx.tensor((2, 2)), check_errors=True),
        lambda: ll.linalg.norm(a[0], "fro"),
    ):
        error_of(call, ArgumentError)
    error_of(lambda: ll.linalg.inv([[1.0]]), GraphError)  # pyright: ignore[reportArgumentType]
    error = error_of(lambda: ll.linalg.inv(a, 3), LabError)  # pyright: ignore[reportCallIssue]
    assert error.message.startswith("inv: ")
    before = str(cx)
    error_of(lambda: ll.linalg.solve(cx.tensor((2, 2)), [1.0, 2.0, 3.0]), ShapeError)
    assert str(cx).count("\n") <= before.count("\n") + 2
