"""Losses of classes, against PyTorch."""

import itertools
import math

import numpy as np
import pytest

from luminal_lab.errors import ArgumentError, DTypeError, RangeError, ShapeError
from luminal_lab.nn import losses
from luminal_lab.passes.gradients import grad
from luminal_lab.session import Graph
from tests.expect import error_of
from tests.nn.losses.witness import agree
from tests.tensor.against import draw, interpret, same

INF = math.inf
REDUCTIONS = ["mean", "sum", "none"]
WEIGHT = np.array([0.5, 2.0, 1.0, 0.0, 3.0], np.float32)


def rows(shape=(6, 5), seed=0):
    """Return logits, and the number of a class for each row; some are to be ignored."""
    classes = shape[0] if len(shape) == 1 else shape[1]
    target = np.random.default_rng(seed).integers(0, classes, shape[:1] + shape[2:])
    return draw(shape, seed=seed), np.array(target) if len(shape) > 1 else np.array(2)


# -- numbers of classes ---------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_classes(torch, name, reduction):
    ours, theirs = getattr(losses, name), getattr(torch.nn.functional, name)
    x, target = rows()
    ignoring = target.copy()
    ignoring[[1, 4]] = -100
    for weight, given in itertools.product((None, WEIGHT), (target, ignoring)):
        agree(
            torch,
            lambda a, b, w=weight: ours(a, b, w, reduction=reduction),
            lambda a, b, w=weight: theirs(
                a, b, None if w is None else torch.tensor(w), reduction=reduction
            ),
            x,
            given,
        )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighed", [False, True])
def test_label_smoothing(torch, weighed, reduction):
    x, target = rows()
    target[2] = 3
    for ignored, smoothing in itertools.product((-100, 3), (0.1, 1.0)):
        options = {"reduction": reduction, "label_smoothing": smoothing, "ignore_index": ignored}
        agree(
            torch,
            lambda a, b, o=options: losses.cross_entropy(a, b, WEIGHT if weighed else None, **o),
            lambda a, b, o=options: torch.nn.functional.cross_entropy(
                a, b, torch.tensor(WEIGHT) if weighed else None, **o
            ),
            x,
            target,
        )


@pytest.mark.parametrize("shape", [(5,), (1, 5), (3, 1), (2, 5, 3), (2, 5, 3, 4)])
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_ranks(torch, name, shape):
    agree(torch, getattr(losses, name), getattr(torch.nn.functional, name), *rows(shape))


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_dtypes_of_logits(torch, dtype):
    x, target = draw((6, 5), dtype), rows()[1]
    atol = 1e-12 if dtype == "float64" else 1e-2
    agree(torch, losses.cross_entropy, torch.nn.functional.cross_entropy, x, target, atol=atol)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32"])
def test_dtypes_of_classes(dtype):
    x, target = rows()
    wanted = interpret(losses.cross_entropy, x, target)
    assert interpret(losses.cross_entropy, x, target.astype(dtype)) == wanted


def test_the_class_axis_may_be_the_last():
    x = draw((2, 3, 5))
    target = np.array([[0, 1, 2], [3, 4, 0]])
    found = interpret(lambda a, b: losses.cross_entropy(a, b, axis=-1), x, target)
    flat = interpret(losses.cross_entropy, x.reshape(6, 5), target.ravel())
    same(found, flat, rtol=1e-6)
    logs = interpret(lambda a: a.log_softmax(-1), x)
    same(interpret(lambda a, b: losses.nll_loss(a, b, axis=2), logs, target), flat, rtol=1e-6)


def test_without_an_ignored_class_it_takes_fewer_nodes():
    cx = Graph()
    x, target = cx.tensor((64, 10)), cx.tensor((64,), "int64")
    counts = [
        sum(losses.cross_entropy(x, target, ignore_index=k).op_counts().values())
        for k in (None, -100)
    ]
    assert counts == [23, 34]


EXTREME = [
    [1e4, -1e4, 0, 5, -5],
    [-1e4, -1e4, -1e4, -1e4, -1e4],
    [3e38, -3e38, 0, 0, 0],
    [-INF, -INF, 2, 3, -INF],
    [1e4, 1e4 - 1, -INF, 0, 0],
    [90, -90, 88, -104, 0],
]


@pytest.mark.parametrize("target", [[0, 1, 2, 3, 0, 2], [1, 4, 0, 2, 1, 1], [2, 2, 2, 0, 2, 3]])
def test_extreme_logits_and_masks(torch, target):
    agree(
        torch,
        lambda a, b: losses.cross_entropy(a, b, reduction="none"),
        lambda a, b: torch.nn.functional.cross_entropy(a, b, reduction="none"),
        np.array(EXTREME, np.float32),
        np.array(target),
    )


def test_nothing_to_average_is_nan(torch):
    x, _ = rows()
    ignored = np.full(6, -100)
    for theirs in (losses.cross_entropy, losses.nll_loss):
        assert np.isnan(interpret(theirs, x, ignored))
    none = np.zeros((0, 5), np.float32), np.zeros((0,), np.int64)
    assert np.isnan(interpret(losses.cross_entropy, *none))
    assert interpret(lambda a, b: losses.cross_entropy(a, b, reduction="sum"), *none) == 0


def test_a_symbolic_batch():
    cx = Graph()
    x, target = cx.tensor(("n", 5), name="x"), cx.tensor(("n",), "int64", "target")
    loss = losses.cross_entropy(x, target).retrieve()
    slope = grad(loss, x).retrieve()
    for count in (2, 6):
        values, classes = rows((count, 5))
        x.set(values)
        target.set(classes)
        cx.execute()
        same(loss.numpy(), interpret(losses.cross_entropy, values, classes), rtol=1e-6)
        assert slope.numpy().shape == (count, 5)


def test_a_class_that_is_not_there_is_an_error_of_the_run():
    for wrong in (5, -1):
        cx = Graph()
        x = cx.tensor((2, 5)).set(draw((2, 5)))
        losses.cross_entropy(x, [0, wrong]).retrieve()
        error = error_of(cx.execute, RangeError)
        message = f"gather: the index at (1, 0) is {wrong}, but axis 1 has size 5"
        assert error.message == message
        assert error.hint == "indices go from 0 to 4"


# -- probabilities --------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_probabilities(torch, smoothing, reduction):
    x, share = draw((6, 5)), np.random.default_rng(0).dirichlet(np.ones(5), 6).astype(np.float32)
    for weight in (None, WEIGHT):
        options = {"reduction": reduction, "label_smoothing": smoothing}
        agree(
            torch,
            lambda a, b, w=weight, o=options: losses.cross_entropy(a, b, w, **o),
            lambda a, b, w=weight, o=options: torch.nn.functional.cross_entropy(
                a, b, None if w is None else torch.tensor(w), **o
            ),
            x,
            share,
            wrt=(0, 1),
        )


def test_probabilities_of_other_ranks(torch):
    theirs = torch.nn.functional.cross_entropy
    for shape in ((5,), (2, 5, 3)):
        agree(torch, losses.cross_entropy, theirs, draw(shape), draw(shape, seed=1, low=0))


def test_a_probability_of_zero_costs_nothing_where_the_logit_is_masked():
    cx = Graph()
    x = cx.tensor((2, 3), name="x").set([[-INF, 1, 1], [-INF, 1, 1]])
    each = losses.cross_entropy(x, np.array([[0, 1, 0], [0.5, 0.5, 0]]), reduction="none")
    slope = grad(each[0], x)
    cx.retrieve([each, slope])
    cx.execute()
    same(each.numpy(), np.array([math.log(2), INF]), rtol=1e-6)
    same(slope.numpy()[0], np.array([0, -0.5, 0.5]), rtol=1e-6)


# -- yes-or-no labels -----------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropies(torch, reduction):
    functional = torch.nn.functional
    x, y = draw((4, 3)), draw((4, 3), seed=1, low=0, high=1)
    weight = draw((3,), seed=2, low=0.1, high=2)
    for w in (None, weight):
        t = None if w is None else torch.tensor(w)
        agree(
            torch,
            lambda a, b, w=w: losses.binary_cross_entropy_with_logits(a, b, w, reduction, w),
            lambda a, b, t=t: functional.binary_cross_entropy_with_logits(
                a, b, t, reduction=reduction, pos_weight=t
            ),
            x,
            y,
            wrt=(0, 1),
        )
        agree(
            torch,
            lambda a, b, w=w: losses.multilabel_soft_margin_loss(a, b, w, reduction),
            lambda a, b, t=t: functional.multilabel_soft_margin_loss(a, b, t, reduction=reduction),
            x,
            np.round(y),
        )
        agree(
            torch,
            lambda a, b, w=w: losses.binary_cross_entropy(a, b, w, reduction),
            lambda a, b, t=t: functional.binary_cross_entropy(a, b, t, reduction=reduction),
            draw((4, 3), low=0.05, high=0.95),
            y,
        )


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_dtypes_of_binary_logits(torch, dtype):
    agree(
        torch,
        losses.binary_cross_entropy_with_logits,
        torch.nn.functional.binary_cross_entropy_with_logits,
        draw((4, 3), dtype),
        draw((4, 3), dtype, seed=1, low=0, high=1),
        atol=1e-12 if dtype == "float64" else 1e-2,
    )


def test_the_least_probabilities_have_a_gradient_that_is_a_number():
    cx = Graph()
    p = cx.tensor((4,), name="p").set(np.array([1e-45, 1e-44, 1e-40, 0.0], np.float32))
    each = losses.binary_cross_entropy(p, [1, 1, 1, 1], reduction="none").retrieve()
    slope = grad(each.sum(), p).retrieve()
    cx.execute()
    assert each.tolist() == pytest.approx([100, 100, 92.1034, 100])
    assert slope.tolist()[:2] == [0, 0]
    assert slope.tolist()[3] == 0


def test_extreme_binary_logits(torch):
    x = np.array([1e4, -1e4, 3e38, -3e38, 0, -0.0, 90, -104, 1e-30, np.nan], np.float32)
    for label in (0.0, 1.0, 0.3):
        agree(
            torch,
            lambda a, b: losses.binary_cross_entropy_with_logits(a, b, reduction="none"),
            lambda a, b: torch.nn.functional.binary_cross_entropy_with_logits(
                a, b, reduction="none"
            ),
            x,
            np.full_like(x, label),
        )


@pytest.mark.parametrize("weighted", [False, True])
def test_targets_of_binary_logits_have_the_gradient_of_pytorch(torch, weighted):
    settings = {"pos_weight": [3.0]} if weighted else {}
    x, y = (
        a.ravel().astype(np.float32)
        for a in np.meshgrid([-2, -0.5, 0, 3, np.nan], [-1, 0, 0.3, 1, 2, np.nan])
    )
    agree(
        torch,
        lambda a, b: losses.binary_cross_entropy_with_logits(a, b, reduction="none", **settings),
        lambda a, b: torch.nn.functional.binary_cross_entropy_with_logits(
            a, b, reduction="none", **{key: torch.tensor(value) for key, value in settings.items()}
        ),
        x,
        y,
        wrt=(0, 1),
    )


def test_infinite_binary_logits_have_the_gradient_of_pytorch(torch):
    x = np.array([INF, -INF] * 4, np.float32)
    y = np.array([0, 0, 1, 1, 0.3, 0.3, np.nan, np.nan], np.float32)
    cx = Graph()
    logits = cx.tensor(x.shape).set(x)
    slope = grad(losses.binary_cross_entropy_with_logits(logits, y, reduction="sum"), logits)
    slope.retrieve()
    cx.execute()
    given = torch.tensor(x, requires_grad=True)
    function = torch.nn.functional.binary_cross_entropy_with_logits
    function(given, torch.tensor(y), reduction="sum").backward()
    same(slope.numpy(), given.grad.numpy(), rtol=1e-6)


def test_infinite_binary_logits_cost_nothing_where_the_label_agrees():
    x = np.array([INF, -INF, INF, -INF], np.float32)
    y = np.array([1, 0, 0, 1], np.float32)
    each = interpret(
        lambda a, b: losses.binary_cross_entropy_with_logits(a, b, reduction="none"), x, y
    )
    assert each.tolist() == [0, 0, INF, INF]


def test_sure_probabilities(torch):
    p = np.array([0, 1, 0, 1, 0.5, 1e-42, np.nan], np.float32)
    y = np.array([0, 1, 1, 0, 0.5, 1, 0.5], np.float32)
    found = interpret(lambda a, b: losses.binary_cross_entropy(a, b, reduction="none"), p, y)
    assert found[:4].tolist() == [0, 0, 100, 100]
    same(found[4:], np.array([math.log(2), -math.log(p[5]), np.nan]), rtol=1e-4)
    cx = Graph()
    x = cx.tensor((7,)).set(p)
    slope = grad(losses.binary_cross_entropy(x, y, reduction="sum"), x).retrieve()
    cx.execute()
    assert slope.numpy()[:4].tolist() == [1, -1, 0, 0]


# -- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "kind", "message", "hint"),
    [
        (
            lambda x, t: losses.cross_entropy(x, t[:2]),
            ShapeError,
            "cross_entropy: the target is %2 (2,) and the logits are %x (4, 5), whose classes are "
            "on axis 1",
            "give one class for each row of logits: the shape (4,)",
        ),
        (
            lambda x, t: losses.cross_entropy(x, t.unsqueeze(1)),
            ShapeError,
            "cross_entropy: the target is %2 (4, 1) and the logits are %x (4, 5), whose classes "
            "are on axis 1",
            "write target.squeeze(-1)",
        ),
        (
            lambda x, t: losses.cross_entropy(x.unsqueeze(0), t.unsqueeze(0)),
            ShapeError,
            "cross_entropy: the target is %3 (1, 4) and the logits are %2 (1, 4, 5), whose classes "
            "are on axis 1",
            "the classes are on the last axis: write axis=-1",
        ),
        (
            lambda x, t: losses.cross_entropy(x, t.one_hot(5)),
            ShapeError,
            "cross_entropy: the target is %5 (4, 5) and the logits are %x (4, 5), whose classes "
            "are on axis 1",
            'for probabilities write target.cast("float32"), or target.argmax(axis)',
        ),
        (
            lambda x, t: losses.cross_entropy(x, t.float()),
            DTypeError,
            "cross_entropy: the target %2 (4,) is float32, and numbers of classes are integers",
            'write target.cast("int64")',
        ),
        (
            lambda x, t: losses.cross_entropy(x, x[:, :3]),
            ShapeError,
            "cross_entropy: the target %2 (4, 3) is float32, and so holds a probability for each "
            "class, but the logits %x (4, 5) have another shape",
            "give probabilities of the shape (4, 5), or numbers of classes of the shape (4,)",
        ),
        (
            lambda x, t: losses.cross_entropy(x, t > 2),
            DTypeError,
            "cross_entropy: the target %3 (4,) is bool, and must hold the numbers of classes",
            "for yes-or-no labels write binary_cross_entropy_with_logits",
        ),
        (
            lambda x, t: losses.nll_loss(x, x),
            DTypeError,
            "nll_loss: the target %x (4, 5) is float32, and must hold the numbers of classes",
            'write target.cast("int64"), or cross_entropy for probabilities',
        ),
        (
            lambda x, t: losses.cross_entropy(x, t, reduction="average"),
            ArgumentError,
            "cross_entropy: there is no reduction 'average'",
            "one of 'mean', 'sum' and 'none'",
        ),
        (
            lambda x, t: losses.cross_entropy(x, t, label_smoothing=1.5),
            RangeError,
            "cross_entropy: label_smoothing is 1.5, and must be from 0 to 1",
            "try label_smoothing=0.1",
        ),
        (
            lambda x, t: losses.cross_entropy(x, t, ignore_index="a"),  # pyright: ignore
            ArgumentError,
            "cross_entropy: ignore_index is 'a', and must be the number of a class",
            "give a whole number such as -100, or None",
        ),
        (
            lambda x, t: losses.cross_entropy(x, t, [1.0, 2.0]),
            ShapeError,
            "cross_entropy: weight is %2 (2,), but there are (5,) values to give one each: axes "
            "(1,) of %x (4, 5)",
            "give weight the shape (5,)",
        ),
        (
            lambda x, t: losses.cross_entropy(x.sum(), t),
            ShapeError,
            "cross_entropy: %4 () has no axis for classes",
            "logits are (classes,), (batch, classes) or (batch, classes, ...)",
        ),
        (
            lambda x, t: losses.binary_cross_entropy_with_logits(x, x, pos_weight=[1.0, 2.0]),
            ShapeError,
            "binary_cross_entropy_with_logits: the weight %2 (2,) cannot be broadcast to (4, 5)",
            "give one weight for each element, or axes of size 1 where it repeats",
        ),
    ],
)
def test_errors(call, kind, message, hint):
    cx = Graph()
    x, t = cx.tensor((4, 5), name="x"), cx.tensor((4,), "int64", "t")
    error = error_of(lambda: call(x, t))
    assert type(error) is kind
    assert error.hint == hint
    # The numbers of unnamed nodes are no matter of this test.
    assert scrubbed(error.message) == scrubbed(message)
    assert "test_classification.py" in str(error.where)


def scrubbed(text):
    return " ".join(
        "%…" if word[:1] == "%" and word[1:].isdigit() else word for word in text.split()
    )
