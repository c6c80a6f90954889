"""Make docs/onnx_models.md: how ONNX files come in, their ops, and which of ONNX's tests pass.

    python docs/onnx_models.py            runs the tests in the interpreter, and writes the page
    python docs/onnx_models.py --keep     writes the page with the results that it has
    python docs/onnx_models.py --check    fails if the page is not what it would write with these

`tests/importing/test_onnx_backend.py` runs a share of them, compiled for the CPU, and compares.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from luminal_lab.importing.onnx_control import Control
from luminal_lab.importing.onnx_ops import OPS
from tests.importing.onnx_backend import COUNTS, Interpreted, cases, why_not

PAGE = Path(__file__).with_suffix(".md")
Results = dict[str, dict[str, list[str]]]
"""For each set of tests, the reasons why some are not run, and their names."""

EXPANDED = """
    AffineGrid Attention BlackmanWindow CausalConvWithState HammingWindow HannWindow LinearAttention
    NegativeLogLikelihoodLoss RotaryEmbedding SequenceMap SoftmaxCrossEntropyLoss SwiGLU"""
"""Ops that ONNX itself says the composition of, which is written in their place."""
NOT_HERE = """
    ImageDecoder MaxRoiPool Multinomial RegexFullMatch StringConcat StringNormalizer StringSplit
    TfIdfVectorizer"""
"""ONNX's other ops."""
SETS = {
    "Node": "one op each",
    "PyTorchConverted": "small models, as PyTorch exported them",
    "PyTorchOperator": "PyTorch's operators",
    "Simple": "control flow, sequences, strings",
}

TEXT = """
# ONNX models

Made by `python docs/onnx_models.py`. `pip install 'luminal-lab[onnx]'` brings the package that reads the files.

```python
model = ll.from_onnx("model.onnx")                       # a module, with the file's names
y = model(cx.tensor(("batch", 3, 224, 224)))             # in any graph, any number of times
```

The module is like any other: `parameters()`, `ll.quantise`, training, `save`. Floating-point
initialisers become its parameters, the others buffers. Its nodes carry the names of ONNX's nodes as scopes, and `print(*model.steps, sep="\\n")` shows what it is
made of. Inputs keep their order and names. One output is a tensor, several are a tuple, a sequence is a list.

## Sizes, and what is known at import

A dim that the file names may have any size, and one without a name gets one. What a model calculates of its shapes
(`Shape`, `Gather`, `Concat`, arithmetic, `Cast` to floats and back) stays symbolic, so that one compile serves all sizes.
Where a shape, a condition or a position depends on values, these must be known:

```python
ll.from_onnx("vad.onnx", known={"sr": 16000})            # an input's value; it is no argument any more
ll.from_onnx("detector.onnx", known={"height": 640})     # or the size of a dim
ll.from_onnx("unet.onnx", known={"height": ll.Symbol("height", 32, multiple_of=32)})
```

A `Symbol` says what sizes a dim may have: a U-Net, say, halves and doubles an axis, which fits multiples alone.

`If` takes the branch that is decided then. `Loop` and `Scan` of a known count are unrolled, into at most 4,096 nodes.
`NonZero`, `Unique`, `Compress`, `NonMaxSuppression` and `Range` need values that are known. A node that cannot be part
of a module is refused with its name and the reason (`ModelError`); `error.needs` lists the inputs to give.

## Models that the tests run

Each on what it is for, its results within 10⁻⁴ of ONNX Runtime's: the detector of voices of `silero-vad` (six of its
files, window by window with their states, or many windows in one call), the three models of `rapidocr-onnxruntime`
(where text is, which way up, which text), and `magika`, which says what kind of file this is.
`python -m luminal_lab.bench.studies.imported` times them beside ONNX Runtime, in turns.

## Files from elsewhere

Nothing of a file is executed. Sizes are counted before anything is allocated; data outside of the file must lie in its
folder, and is mapped. Functions of the model are written out, to at most 131,072 nodes. Domains other than ONNX's own
are refused by name. Dtypes of fewer than 8 bits, and float8, are for weights alone: `DequantizeLinear` and `Cast` read
them, and compute with int8, uint8 or float32, which hold their values.

## What differs

- `x / y` is x times the reciprocal of y, except where a quantised value depends on the last bit.
- A slice up to a dim, on an axis of known size, needs the dim to be within: tables of positions are read so. A size
  beyond it is an error of the run, where ONNX would cut the slice short.
- Random numbers (`RandomNormal`, `Bernoulli`, `Dropout` in training) are ours, and repeat with a seed.
- `GridSample` and its like take images of up to three axes, `Det` matrices of up to 5 rows, a transform (`DFT`, `STFT`)
  up to 4,096 numbers, as it is a product with a matrix of angles.
- Before version 7 of the ops `Add` and others broadcast from an axis on, before 13 `Softmax` goes over all axes from one
  on; both are read so. `Scan` is supported from version 9 on.
""".strip()


def main() -> None:
    """Write the page, or check that it is as it would be written."""
    keeps = "--keep" in sys.argv or "--check" in sys.argv
    text = page(results_in(PAGE.read_text(encoding="utf-8")) if keeps else results())
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        sys.exit(f"{PAGE.name} is not up to date: run python docs/{Path(__file__).name}")


def results() -> Results:
    """Run all tests in the interpreter, and return what is not run."""
    found: Results = {}
    for kind, rows in cases(Interpreted).items():
        found[kind] = defaultdict(list)
        for name, run in rows:
            reason = why_not(name, run)
            if reason:
                found[kind][reason].append(name)
    return found


def page(found: Results) -> str:
    """Return the text of the page."""
    ours = sorted(name for name in {*OPS, *Control.graphs} if "." not in name)
    lines = [TEXT, "", "## Ops", "", f"Ours, {len(ours)}:", "", _listed(ours), ""]
    lines += ["Composed of others, as ONNX defines them:", "", _listed(EXPANDED.split()), ""]
    lines += ["Not here:", "", _listed(NOT_HERE.split()), ""]
    lines += ["## ONNX's own tests", ""]
    lines += ["| set | what | tests | pass |", "|---|---|---|---|"]
    for kind, count in COUNTS.items():
        passed = count - sum(map(len, found[kind].values()))
        lines.append(f"| {kind} | {SETS[kind]} | {count:,} | {passed:,} |")
    lines.append("")
    for kind, reasons in found.items():
        if reasons:
            lines += [f"Not passed of {kind}:", "", "| reason | tests | names |", "|---|---|---|"]
            for reason, names in sorted(reasons.items(), key=lambda row: (-len(row[1]), row[0])):
                lines.append(f"| {reason} | {len(names)} | {_listed(names)} |")
            lines.append("")
    return "\n".join(lines)


def results_in(text: str) -> Results:
    """Return the results that a page has."""
    found: Results = {kind: {} for kind in COUNTS}
    for kind, table in re.findall(r"Not passed of (\w+):\n\n((?:\|.*\n)+)", text):
        for row in table.splitlines()[2:]:
            reason, _, names = row.strip("| ").split(" | ")
            found[kind][reason] = re.findall(r"`(\w+)`", names)
    return found


def _listed(names: Sequence[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    main()
