"""Make the two pages of the site that compute: a reader of digits, and a small GPT of letters.

    python docs/running.py FOLDER

writes `digits.html` and `letters.html`. Both models are trained here, in less than a minute: one on
the digits of scikit-learn (`pip install scikit-learn`), one on the words of the changelog. The
pages need `ziglang`, too.
"""

import re
import sys
from pathlib import Path

import numpy as np

import luminal_lab as ll
from luminal_lab import nn

ROOT = Path(__file__).resolve().parents[1]
SIZE, CONTEXT, BATCH = 8, 24, 32
LETTERS = " abcdefghijklmnopqrstuvwxyz.,"


def digits(path: Path, steps: int = 300) -> float:
    """Write the reader of digits; return the share of unseen digits that it reads."""
    from sklearn.datasets import load_digits  # slow to load

    images, labels = map(np.asarray, load_digits(return_X_y=True))
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = (images[order] / 16).astype("float32"), labels[order]
    model = nn.Sequential(nn.Linear(SIZE**2, 64), nn.ReLU(), nn.Linear(64, 10)).initialise(seed=0)
    train, rng = ll.Graph("train"), np.random.default_rng(0)
    x, y = train.tensor((64, SIZE**2), name="x"), train.tensor((64,), "int64", name="y")
    nn.AdamW(lr=nn.schedules.Cosine(0.01, steps=steps)).minimise(nn.cross_entropy(model(x), y))
    train.compile(ll.GenericCompiler(), ll.CPUCompiler())
    for _ in range(steps):
        some = rng.choice(1500, 64)
        x.set(images[some])
        y.set(labels[some])
        train.execute()
    cx = ll.Graph("digits")
    image = cx.tensor((SIZE, SIZE), name="image").set(images[1500].reshape(SIZE, SIZE))
    model(image.reshape(1, SIZE**2)).softmax(-1).reshape(10).named("digit").retrieve()
    written(cx, path, {"digit": "0123456789"})
    test = ll.Graph("test")
    found = model(test.tensor((297, SIZE**2)).set(images[1500:])).argmax(-1).retrieve()
    test.execute()
    return float((found.numpy() == labels[1500:]).mean())


def letters(path: Path, steps: int = 400) -> float:
    """Write the GPT; return its last loss, where chance would be 3.4."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8").lower()
    text = re.sub(f"[^{LETTERS}]+", " ", text)
    tokens = np.array([LETTERS.index(letter) for letter in text], "int64")
    model = nn.models.GPT2(layers=2, heads=4, width=64, vocab=len(LETTERS), context=CONTEXT)
    model.initialise(seed=0)
    train, rng = ll.Graph("train"), np.random.default_rng(0)
    x = train.tensor((BATCH, CONTEXT), "int64", name="x")
    y = train.tensor((BATCH, CONTEXT), "int64", name="y")
    loss = nn.cross_entropy(model(x), y, axis=-1)
    nn.AdamW(lr=nn.schedules.Cosine(0.003, steps=steps)).minimise(loss)
    loss.retrieve()
    train.compile(ll.GenericCompiler(), ll.CPUCompiler())
    for _ in range(steps):
        starts = rng.integers(0, len(tokens) - CONTEXT - 1, (BATCH, 1)) + np.arange(CONTEXT)
        x.set(tokens[starts])
        y.set(tokens[starts + 1])
        train.execute()
    cx = ll.Graph("letters")
    words = cx.tensor((1, CONTEXT), "int64", name="text")
    start = "the graph of a model "
    words.set([[0] * (CONTEXT - len(start)) + [LETTERS.index(letter) for letter in start]])
    model(words)[0, -1].softmax(-1).named("next").retrieve()
    written(cx, path, {"text": LETTERS})
    return float(loss.numpy())


def written(cx: ll.Graph, path: Path, run: dict[str, object]) -> None:
    """Compile a graph for this machine, and write its page, which runs on any."""
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    cx.workbench().export(path, run=run)


def main(folder: Path) -> None:
    """Write both pages."""
    folder.mkdir(parents=True, exist_ok=True)
    print(f"digits.html reads {digits(folder / 'digits.html'):.1%} of unseen digits")
    print(f"letters.html has a loss of {letters(folder / 'letters.html'):.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
