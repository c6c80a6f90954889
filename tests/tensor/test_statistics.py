"""Quantiles, modes, covariances, histograms and distances, against PyTorch."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, LabError, RangeError, ShapeError
from tests.expect import error_of
from tests.tensor.against import against, draw, interpret

X = draw((4, 5))
HOLES = np.where(draw((4, 5), seed=1) > 1.5, np.nan, X).astype(np.float32)
HOLES[2] = np.nan


@pytest.mark.parametrize("way", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_quantiles(torch, name: str, way: str):
    shares = np.array([0, 0.3, 0.5, 1], np.float32)
    for axis, keepdim in ((None, False), (None, True), (0, False), (-1, True)):
        for x in (X, HOLES):
            both = lambda t, q, n=name, a=axis, k=keepdim: getattr(t, n)(  # noqa: E731
                q, a, k, interpolation=way
            )
            against(torch, both, both, x, shares, atol=1e-6)
            one = lambda t, n=name, a=axis, k=keepdim: getattr(t, n)(  # noqa: E731
                0.4, a, k, interpolation=way
            )
            against(torch, one, one, x, atol=1e-6)


def test_median_without_nan_and_mode(torch):
    for axis in (0, -1):
        for x in (X, HOLES[:2]):
            found = interpret(lambda t, a=axis: t.nanmedian(a), x)
            wanted = torch.nanmedian(torch.tensor(x), axis)
            np.testing.assert_array_equal(found[0], wanted.values.numpy())
    against(torch, lambda t: t.nanmedian(), lambda t: t.nanmedian(), HOLES)
    whole = np.rint(draw((5, 7), low=0, high=3))
    for axis in (0, 1):
        found = interpret(lambda t, a=axis: t.mode(a, True), whole)
        wanted = torch.mode(torch.tensor(whole), axis, True).values.numpy()
        np.testing.assert_array_equal(found[0], wanted)
        np.testing.assert_array_equal(np.take_along_axis(whole, found[1], axis), wanted)


def test_covariances(torch):
    weights, times = draw((5,), low=0.1, high=2), np.array([1, 2, 0, 3, 1])
    for correction in (0, 1, 2):
        both = lambda t, n=correction: t.cov(correction=n)  # noqa: E731
        against(torch, both, both, X, rtol=1e-5, atol=1e-5)
    against(
        torch,
        lambda t, f, a: t.cov(fweights=f, aweights=a),
        lambda t, f, a: t.cov(fweights=f, aweights=a),
        X, times, weights, rtol=1e-5, atol=1e-5,
    )  # fmt: skip
    for x in (X, X[0]):
        against(torch, lambda t: t.corrcoef(), lambda t: t.corrcoef(), x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf")])
def test_distances(torch, p: float):
    x, y = draw((2, 3, 4)), draw((5, 4), seed=1)
    y[0] = x[0, 0]
    against(torch, lambda a, b: a.cdist(b, p), lambda a, b: torch.cdist(a, b, p), x, y, atol=1e-5)
    pdist = torch.nn.functional.pdist
    against(torch, lambda a: a.pdist(p), lambda a: pdist(a, p), x[0], rtol=1e-5, atol=1e-5)
    if p:
        against(torch, lambda a, b: a.dist(b, p), lambda a, b: a.dist(b, p), x, y[:3], atol=1e-4)


def test_a_distance_of_0_has_the_gradient_0():
    cx = ll.Graph()
    x = cx.tensor((1, 2)).set([[1, 2]])
    slope = ll.grad(x.cdist(cx.tensor((1, 2)).set([[1, 2]])).sum(), x).retrieve()
    cx.execute()
    assert slope.tolist() == [[0, 0]]


def test_renorm_histc_isin(torch):
    for p, axis in ((1.0, 0), (2.0, -1), (float("inf"), 1)):
        both = lambda t, q=p, a=axis: t.renorm(q, a, 1.5)  # noqa: E731
        against(torch, both, both, draw((3, 4, 2)), atol=1e-6)
    for given in ((4, -2, 2), (5,), (3, 1, 2)):
        both = lambda t, g=given: t.histc(*g)  # noqa: E731
        against(torch, both, both, X)
    against(torch, lambda t: t.histc(3), lambda t: t.histc(3), np.ones(4, np.float32))
    both = lambda t, e: torch.isin(t, e)  # noqa: E731
    against(torch, lambda t, e: t.isin(e), both, HOLES, HOLES[:, 1])
    against(torch, lambda t, e: t.isin(e, invert=True), lambda t, e: torch.isin(t, e, invert=True),
            np.arange(6).reshape(2, 3), np.array([1, 4]))  # fmt: skip
    assert not interpret(lambda t: t.isin([]), X).any()


def test_errors():
    x = ll.Graph().tensor((2, 3), name="x")
    error = error_of(lambda: x.quantile(0.5, interpolation="cubic"), ArgumentError)
    assert error.message == "quantile: there is no interpolation 'cubic'"
    assert error_of(lambda: x.quantile(1.5), RangeError).message == "quantile: q is 1.5"
    error_of(lambda: x.quantile(float("nan")), RangeError)
    error_of(lambda: x.quantile([[0.5]]), RangeError)
    error_of(lambda: x.sum(0).pdist(), ShapeError)
    error_of(lambda: x.unsqueeze(0).cov(), ShapeError)
    error_of(lambda: x.sum(0).renorm(2, 0, 1.0), ShapeError)
    error_of(lambda: x.histc(0), LabError)
    error_of(lambda: x.histc(3, 2, 1), RangeError)
    error_of(lambda: x[:0].nanmedian(0), ShapeError)
