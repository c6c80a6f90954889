"""Losses of numbers, against PyTorch."""

import warnings

import numpy as np
import pytest

from luminal_lab.errors import ArgumentError, DTypeError, GraphError, RangeError, ShapeError
from luminal_lab.nn import losses
from luminal_lab.session import Graph
from tests.expect import error_of, state
from tests.nn.losses.witness import agree
from tests.tensor.against import against, draw, interpret

REDUCTIONS = ["mean", "sum", "none"]


def pair(shape=(4, 3), dtype="float32"):
    return draw(shape, dtype), draw(shape, dtype, seed=1)


def quiet(theirs):
    """Return a function that does not warn; of `kl_div` PyTorch says that its mean is not one."""

    def call(*args, **options):
        with warnings.catch_warnings(action="ignore"):
            return theirs(*args, **options)

    return call


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mse_loss", {}),
        ("l1_loss", {}),
        ("huber_loss", {}),
        ("huber_loss", {"delta": 2.5}),
        ("smooth_l1_loss", {}),
        ("smooth_l1_loss", {"beta": 0.3}),
        ("smooth_l1_loss", {"beta": 0.0}),
        ("kl_div", {"log_target": True}),
        ("poisson_nll_loss", {}),
    ],
)
def test_values_and_gradients(torch, name, options, reduction):
    theirs = quiet(getattr(torch.nn.functional, name))
    agree(
        torch,
        lambda x, y: getattr(losses, name)(x, y, reduction=reduction, **options),
        lambda x, y: theirs(x, y, reduction=reduction, **options),
        *pair(),
        wrt=(0, 1),
    )


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"])
def test_other_dtypes(torch, name, dtype):
    half = dtype in ("float16", "bfloat16")
    theirs = getattr(torch.nn.functional, name)
    agree(torch, getattr(losses, name), theirs, *pair(dtype=dtype), atol=1e-2 if half else 1e-12)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 0), (2, 3, 4)])
def test_shapes(torch, shape):
    agree(torch, losses.mse_loss, torch.nn.functional.mse_loss, *pair(shape))


def test_special_values(torch):
    values = np.array([0, -0.0, 1, -1, 1e4, -1e4, 3e38, np.inf, -np.inf, np.nan], np.float32)
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    functional = torch.nn.functional
    for name in ("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"):
        ours, theirs = getattr(losses, name), getattr(functional, name)
        found = interpret(lambda a, b, f=ours: f(a, b, reduction="none"), x, y)
        wanted = theirs(torch.tensor(x), torch.tensor(y), reduction="none").numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-30)


def test_the_kinks_have_the_gradients_of_pytorch(torch):
    x = np.array([-2, -1, -0.5, 0, 0.5, 1, 2], np.float32)
    y = np.zeros_like(x)
    functional = torch.nn.functional
    for name in ("l1_loss", "huber_loss", "smooth_l1_loss"):
        agree(torch, getattr(losses, name), getattr(functional, name), x, y)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_rmse_is_the_root_and_flat_where_it_is_zero(torch, reduction):
    mse = torch.nn.functional.mse_loss
    agree(
        torch,
        lambda x, y: losses.rmse_loss(x, y, reduction=reduction),
        lambda x, y: mse(x, y, reduction=reduction).sqrt(),
        *pair(),
    )
    x = draw((3,))
    assert interpret(losses.rmse_loss, x, x) == 0
    agree(torch, losses.rmse_loss, lambda x, y: (x * y).sum() * 0, x, x)  # its gradient is 0
    assert losses.mae_loss is losses.l1_loss


@pytest.mark.parametrize("reduction", [*REDUCTIONS, "batchmean"])
def test_kl_div_of_probabilities(torch, reduction):
    x = np.log(draw((4, 5), low=0.1, high=1))
    y = draw((4, 5), seed=3, low=0.0, high=1)
    y[1, 2] = 0
    agree(
        torch,
        lambda a, b: losses.kl_div(a, b, reduction=reduction),
        lambda a, b: quiet(torch.nn.functional.kl_div)(a, b, reduction=reduction),
        x,
        y,
    )


def test_kl_div_is_zero_where_the_target_is_whatever_the_prediction_is():
    x = np.array([-np.inf, -1, -np.inf], np.float32)
    y = np.array([0, 0, 0.5], np.float32)
    found = interpret(lambda a, b: losses.kl_div(a, b, reduction="none"), x, y)
    assert found.tolist() == [0, 0, np.inf]


@pytest.mark.parametrize("log_target", [False, True])
def test_kl_div_of_special_values(torch, log_target):
    x, y = (
        a.ravel().astype(np.float32)
        for a in np.meshgrid([-2, 0, 2, np.nan], [-1, 0, 0.5, 1, 2, np.nan])
    )
    agree(
        torch,
        lambda a, b: losses.kl_div(a, b, reduction="none", log_target=log_target),
        lambda a, b: torch.nn.functional.kl_div(a, b, reduction="none", log_target=log_target),
        x,
        y,
        wrt=(0, 1),
    )


def test_kl_div_of_logarithms_is_zero_where_both_have_no_share():
    x = np.array([-np.inf, -1, -np.inf, np.nan], np.float32)
    y = np.array([-np.inf, -np.inf, -0.5, -np.inf], np.float32)
    found = interpret(lambda a, b: losses.kl_div(a, b, reduction="none", log_target=True), x, y)
    assert found.tolist() == [0, 0, np.inf, pytest.approx(np.nan, nan_ok=True)]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("full", [False, True])
def test_poisson_and_gaussian(torch, full, reduction):
    functional = torch.nn.functional
    x, y = draw((6,), low=0.2, high=4), np.array([0, 1, 2, 5, 0.5, 9], np.float32)
    for log_input in (False, True):
        agree(
            torch,
            lambda a, b, k=log_input: losses.poisson_nll_loss(a, b, k, full, reduction=reduction),
            lambda a, b, k=log_input: functional.poisson_nll_loss(
                a, b, k, full=full, reduction=reduction
            ),
            x,
            y,
        )
    agree(
        torch,
        lambda a, b, c: losses.gaussian_nll_loss(a, b, c, full, reduction=reduction),
        lambda a, b, c: functional.gaussian_nll_loss(a, b, c, full, reduction=reduction),
        x,
        y,
        draw((6,), seed=2, low=0.1, high=2),
        wrt=(0, 2),
    )


def test_a_target_may_be_data_and_an_integer():
    cx = Graph()
    x = cx.tensor((2, 2), name="x").set([[1, 2], [3, 5]])
    loss = losses.mse_loss(x, np.array([[1, 2], [3, 4]])).retrieve()
    rows = cx.tensor(("n", 2), name="rows").set([[1, 2], [3, 5]])
    other = losses.mse_loss(rows, cx.tensor(("n", 2)).set([[1, 2], [3, 4]])).retrieve()
    cx.execute()
    assert (loss.item(), other.item()) == (0.25, 0.25)


def test_nodes_know_the_loss_that_made_them():
    cx = Graph()
    loss = losses.mse_loss(cx.tensor((2,)), [1.0, 2.0])
    with cx.scope("model"):
        other = losses.l1_loss(cx.tensor((2,)), [1.0, 2.0])
    assert (loss.node.meta.scope, other.node.meta.scope) == ("mse_loss", "model.l1_loss")


@pytest.mark.parametrize(
    ("call", "kind", "message", "hint"),
    [
        (
            lambda x: losses.mse_loss(x, x[:, 0]),
            ShapeError,
            "mse_loss: the prediction %x (4, 1) and the target %1 (4,) differ in shape",
            "%x.squeeze(-1) has the shape of the target",
        ),
        (
            lambda x: losses.l1_loss(x[:, 0], x),
            ShapeError,
            "l1_loss: the prediction %1 (4,) and the target %x (4, 1) differ in shape",
            "%x.squeeze(-1) has the shape of the prediction",
        ),
        (
            lambda x: losses.huber_loss(x, x.T),
            ShapeError,
            "huber_loss: the prediction %x (4, 1) and the target %1 (1, 4) differ in shape",
            "to repeat one of them on purpose, write expand_as(...)",
        ),
        (
            lambda x: losses.mse_loss(x, x, "men"),
            ArgumentError,
            "mse_loss: there is no reduction 'men'",
            "did you mean 'mean'?",
        ),
        (
            lambda x: losses.mse_loss(x, x, reduction="avg"),
            ArgumentError,
            "mse_loss: there is no reduction 'avg'",
            "one of 'mean', 'sum' and 'none'",
        ),
        (
            lambda x: losses.mse_loss([1.0], x),  # pyright: ignore[reportArgumentType]
            GraphError,
            "mse_loss: prediction is [1.0] and not a tensor",
            "a loss takes first what the model made, a tensor of a graph",
        ),
        (
            lambda x: losses.huber_loss(x, x, delta=-1),
            RangeError,
            "huber_loss: delta is -1, and must be above 0",
            "try delta=1.0",
        ),
        (
            lambda x: losses.mse_loss(x, Graph().tensor((4, 1), name="y")),
            GraphError,
            "mse_loss: %y (4, 1) belongs to another graph than %x (4, 1)",
            "make both in one graph, or move the value: cx.transfer(theirs, an_input_of_ours)",
        ),
        (
            lambda x: losses.mse_loss(x, "high"),
            DTypeError,
            "mse_loss: a str that holds <U4, and not numbers of one of our dtypes",
            "the dtypes are float64, float32, float16, bfloat16, int64, int32, int16, int8, "
            "uint64, uint32, uint16, uint8, bool",
        ),
    ],
)
def test_errors(call, kind, message, hint):
    cx = Graph()
    x = cx.tensor((4, 1), name="x")
    before = state(cx) if kind is not ShapeError else None
    error = error_of(lambda: call(x))
    assert type(error) is kind
    assert (error.message, error.hint) == (message, hint)
    assert "call(x)" in str(error.where) or "losses." in str(error.where)
    assert before is None or state(cx) == before


def test_a_variance_for_each_row(torch):
    x, y = draw((4, 3)), draw((4, 3), seed=1)
    theirs = torch.nn.functional.gaussian_nll_loss
    for shape in ((4, 1), (4,)):
        variance = draw(shape, seed=2, low=0.1, high=2.0)
        against(torch, losses.gaussian_nll_loss, theirs, x, y, variance, rtol=1e-5)
    against(torch, losses.gaussian_nll_loss, theirs, x, y[:1], draw((4, 3), low=0.1), rtol=1e-5)
    cx = Graph()
    a, b = cx.tensor((4, 3)), cx.tensor((2,))
    error_of(lambda: losses.gaussian_nll_loss(a, a, b), ShapeError)
