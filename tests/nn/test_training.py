"""Training as a whole: models learn, and learn step by step what they learn in PyTorch."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.nn import models, schedules
from tests.nn.digits import digits

HELD_OUT = 1500


def batches(steps, size, below=HELD_OUT, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, below, size) for _ in range(steps)]


def learn(model, images, labels, *, steps, size, lr):
    """Return the share of held-out digits that a model reads after training."""
    train = ll.Graph("train")
    x = train.tensor((size, 64), name="x")
    y = train.tensor((size,), "int64", "y")
    nn.AdamW(schedules.Cosine(lr, steps)).minimise(nn.cross_entropy(model(x), y))
    for at in batches(steps, size):
        x.set(images[at])
        y.set(labels[at])
        train.execute()
    test = ll.Graph("test")
    found = model(test.tensor((297, 64)).set(images[HELD_OUT:])).argmax(-1).retrieve()
    test.execute()
    return float((found.numpy() == labels[HELD_OUT:]).mean())


def test_an_mlp_reads_digits():
    """It takes seconds: nothing smaller shows that all parts together learn."""
    model = models.MLP(64, 128, 10).initialise(seed=0)
    assert learn(model, *digits(), steps=300, size=64, lr=0.01) >= 0.97


def test_a_cnn_reads_digits():
    """It takes seconds, as that of the MLP."""
    model = models.CNN(channels=(16,)).initialise(seed=0)
    assert learn(model, *digits(), steps=250, size=32, lr=0.01) >= 0.97


TEXT = """\
What is written is a graph, and the graph is text that reads back. Nothing was computed before \
the graph was executed.
"""


def test_a_gpt_learns_a_text_by_heart():
    """It takes seconds: a hundred steps of a transformer; `bench.studies.training` does a page."""
    letters = sorted(set(TEXT))
    codes = np.array([letters.index(letter) for letter in TEXT])
    model = models.GPT2(layers=1, heads=2, width=32, vocab=len(letters), context=16)
    model.initialise(seed=0)
    cx = ll.Graph()
    tokens, following = (cx.tensor((8, 16), "int64", name) for name in ("tokens", "following"))
    loss = nn.cross_entropy(model(tokens), following, axis=-1).retrieve()
    rate = schedules.Warmup(10, schedules.Cosine(0.02, 110))
    nn.AdamW(rate).minimise(loss, clip_norm=1.0)
    losses = []
    for starts in batches(120, 8, below=len(codes) - 16):
        at = starts[:, None] + np.arange(16)
        tokens.set(codes[at])
        following.set(codes[at + 1])
        cx.execute()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(np.log(len(letters)), rel=0.02)
    assert np.mean(losses[-10:]) < 0.8


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": 0.1, "momentum": 0.9}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-3}),
        ("Adam", {"lr": 0.01}),
        ("AdamW", {"lr": 0.01, "weight_decay": 0.1}),
    ],
    ids=str,
)
def test_the_loss_curve_is_that_of_pytorch(torch, name, options):
    """The same first weights and batches: each of the losses within 2e-5 of PyTorch's."""
    images, labels = digits()
    model = models.MLP(64, 32, 10).initialise(seed=0)
    theirs = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    with torch.no_grad():
        for given, parameter in zip(theirs.parameters(), model.parameters().values(), strict=True):
            given.copy_(torch.tensor(parameter.value.copy()))
    optimiser = getattr(torch.optim, name)(theirs.parameters(), **options)
    cx = ll.Graph()
    x, y = cx.tensor((64, 64), name="x"), cx.tensor((64,), "int64", "y")
    loss = nn.cross_entropy(model(x), y).retrieve()
    getattr(nn, name)(**options).minimise(loss)
    ours_are, theirs_are = [], []
    for at in batches(40, 64):
        x.set(images[at])
        y.set(labels[at])
        cx.execute()
        optimiser.zero_grad()
        wanted = torch.nn.functional.cross_entropy(
            theirs(torch.tensor(images[at])), torch.tensor(labels[at])
        )
        wanted.backward()
        optimiser.step()
        ours_are.append(loss.item())
        theirs_are.append(wanted.item())
    np.testing.assert_allclose(ours_are, theirs_are, rtol=2e-5)
    assert ours_are[-1] < ours_are[0] / 2


def test_a_compiled_step_is_the_step_that_was_written():
    images, labels = digits()
    curves = []
    for passes in ((), ("simplify, dce",)):
        model = models.MLP(64, 16, 10).initialise(seed=0)
        cx = ll.Graph()
        x, y = cx.tensor((32, 64)), cx.tensor((32,), "int64")
        loss = nn.cross_entropy(model(x), y).retrieve()
        nn.AdamW(schedules.Cosine(0.01, 20)).minimise(loss, clip_norm=1.0)
        if passes:
            cx.compile(*passes)
        curve = []
        for at in batches(8, 32):
            x.set(images[at])
            y.set(labels[at])
            cx.execute()
            curve.append(loss.item())
        curves.append(curve)
    assert curves[1] == pytest.approx(curves[0], rel=1e-6)
    assert curves[0][-1] < curves[0][0]


def test_dropout_draws_anew_in_each_step_and_the_run_can_be_repeated():
    def run():
        model = nn.Sequential(nn.Linear(4, 32), nn.Dropout(0.5), nn.Linear(32, 1)).initialise(0)
        cx = ll.Graph(seed=3)
        x = cx.tensor((8, 4)).set(np.ones((8, 4)))
        loss = nn.mse_loss(model(x), np.zeros((8, 1), np.float32)).retrieve()
        nn.SGD(0.0).minimise(loss)
        found = []
        for _ in range(3):
            cx.execute()
            found.append(loss.item())
        return found

    first = run()
    assert len(set(first)) == 3
    assert run() == first


def test_batch_norm_measures_while_the_optimiser_steps():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).initialise(seed=0)
    cx = ll.Graph()
    x = cx.tensor((16, 4)).set(np.random.default_rng(0).normal(2, 3, (16, 4)))
    loss = nn.mse_loss(model(x), np.ones((16, 1), np.float32)).retrieve()
    nn.SGD(0.05).minimise(loss)
    cx.execute()
    first = loss.item()
    for _ in range(20):
        cx.execute()
    assert loss.item() < first / 2
    assert np.abs(model.state_dict()["1.running_mean"]).max() > 0.1
