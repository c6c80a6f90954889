"""Fourier transforms by matrices, against PyTorch: a complex value is a pair."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, GraphError, LabError, ShapeError
from tests.expect import error_of
from tests.tensor.against import draw, interpret

X, Y = draw((3, 4, 5)), draw((3, 4, 5), seed=1)
ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
REAL = ("rfft", "ihfft")


def same(found: Any, wanted: Any) -> None:
    """Fail unless a pair is a complex value, or a tensor a real one."""
    wanted = wanted.resolve_conj().resolve_neg()
    parts = [wanted.real, wanted.imag] if wanted.is_complex() else [wanted]
    found = found if isinstance(found, list) else [found]
    assert len(found) == len(parts)
    for ours, theirs in zip(found, parts, strict=True):
        assert ours.dtype == theirs.numpy().dtype
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ONE)
def test_one_axis(torch, name: str, norm: str | None):
    ours, theirs = getattr(ll.fft, name), getattr(torch.fft, name)
    for n, axis in ((None, -1), (7, 1), (2, 0), (6, -1), (1, -1)):
        same(interpret(lambda t, n=n, a=axis: ours(t, n, a, norm), X),
             theirs(torch.tensor(X), n, axis, norm))  # fmt: skip
        if name not in REAL:
            value = torch.complex(torch.tensor(X), torch.tensor(Y))
            same(interpret(lambda t, u, n=n, a=axis: ours((t, u), n, a, norm), X, Y),
                 theirs(value, n, axis, norm))  # fmt: skip


@pytest.mark.parametrize("name", [f"{name}{k}" for name in ONE for k in ("2", "n")])
def test_several_axes(torch, name: str):
    ours, theirs = getattr(ll.fft, name), getattr(torch.fft, name)
    for given in ({}, {"s": (3, 6)}, {"dim": (0, -1)}, {"s": (3, -1), "dim": (1, 0)}):
        same(interpret(lambda t, g=given: ours(t, **g), X), theirs(torch.tensor(X), **given))


@pytest.mark.parametrize("name", ONE)
def test_gradients(torch, name: str):
    cx = ll.Graph()
    x = cx.tensor(X.shape).set(X)
    result = getattr(ll.fft, name)(x)
    parts = list(result) if isinstance(result, tuple) else [result]
    weights = [draw(part.shape, seed=k + 3) for k, part in enumerate(parts)]
    total = cx.constant(0.0)
    for part, w in zip(parts, weights, strict=True):
        total = total + (part * cx.tensor(w.shape).set(w)).sum()
    slope = ll.grad(total, x).retrieve()
    cx.execute()
    t = torch.tensor(X, requires_grad=True)
    value = getattr(torch.fft, name)(t)
    theirs = [value.real, value.imag] if value.is_complex() else [value]
    loss = torch.zeros(())
    for part, w in zip(theirs, weights, strict=True):
        loss = loss + (part * torch.tensor(w)).sum()
    loss.backward()
    np.testing.assert_allclose(slope.numpy(), t.grad.numpy(), rtol=1e-4, atol=2e-5)


def test_shifts(torch):
    for axis in (None, 0, (0, -1)):
        for name in ("fftshift", "ifftshift"):
            found = interpret(lambda t, n=name, a=axis: getattr(ll.fft, n)(t, a), X)
            np.testing.assert_array_equal(
                found, getattr(torch.fft, name)(torch.tensor(X), axis).numpy()
            )
    cx = ll.Graph()
    assert [part.shape for part in ll.fft.fftshift(ll.fft.fft(cx.tensor((4,))))] == [(4,), (4,)]


def test_a_long_axis_keeps_its_accuracy(torch):
    x = draw((4096,))
    real, imaginary = interpret(ll.fft.rfft, x)
    wanted = torch.fft.rfft(torch.tensor(x).double()).numpy()
    scale = np.abs(wanted).max()
    assert np.abs(real - wanted.real).max() < 2e-6 * scale
    assert np.abs(imaginary - wanted.imag).max() < 2e-6 * scale


def test_there_and_back():
    for n in (1, 2, 5, 8):
        x = draw((2, n))
        back = interpret(lambda t, n=n: ll.fft.irfft(ll.fft.rfft(t), n), x)
        np.testing.assert_allclose(back, x, rtol=1e-5, atol=1e-5)


def test_it_is_compiled():
    cx = ll.Graph()
    real, imaginary = ll.fft.rfft(cx.tensor(X.shape).set(X))
    cx.retrieve([real, imaginary])
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    cx.execute()
    wanted = np.fft.rfft(X)
    np.testing.assert_allclose(real.numpy(), wanted.real, rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(imaginary.numpy(), wanted.imag, rtol=1e-4, atol=2e-5)


def test_errors():
    cx = ll.Graph()
    x = cx.tensor((4, 6), name="x")
    error = error_of(lambda: ll.fft.fft(cx.tensor((5000,))), ShapeError)
    assert error.message == "fft: 5,000 positions are to be transformed"
    error_of(lambda: ll.fft.fft(cx.tensor((0,))), ShapeError)
    error_of(lambda: ll.fft.fft(cx.tensor(("n",))), ShapeError)
    error = error_of(lambda: ll.fft.rfft((x, x)), ShapeError)  # pyright: ignore[reportArgumentType]
    assert error.message == "rfft: it takes real values, and a pair is given"
    error_of(lambda: ll.fft.fft((x, x[0])), ShapeError)
    error_of(lambda: ll.fft.fft((x,)), ShapeError)  # pyright: ignore[reportArgumentType]
    error_of(lambda: ll.fft.fft(x, norm="none"), ArgumentError)
    error_of(lambda: ll.fft.fft2(x, s=(1, 2, 3)), ShapeError)
    error_of(lambda: ll.fft.fftn(x, dim=(0, 0)), LabError)
    error_of(lambda: ll.fft.fft([1.0]), GraphError)  # pyright: ignore[reportArgumentType]
    error_of(lambda: ll.fft.fft(x, dim=2), LabError)
