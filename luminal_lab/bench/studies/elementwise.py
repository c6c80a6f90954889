"""How exact and how fast elementwise functions are, beside NumPy's and PyTorch's.

    python -m luminal_lab.bench.studies.elementwise [docs/performance.md]

Each is compiled as users compile it, for float32 and one thread. Errors are the largest over one
float32 in 997, of all signs and sizes, against float64: half a unit in the last place is correct
rounding. Times are those of the fastest of several runs over a million values that are in cache,
into existing memory. With a page, the table is written between its marks; it takes two minutes.
"""
# pyright: basic

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from math import inf, pi, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import luminal_lab as ll
from luminal_lab.bench.page import END, placed
from luminal_lab.core.dtypes import Array
from luminal_lab.devices.facts.probe import cpu_name
from luminal_lab.machines.load import Load, load_text
from luminal_lab.tensor import Tensor
from luminal_lab.writing import write_bytes

BEGIN = "<!-- measured by luminal_lab.bench.studies.elementwise -->"
torch: Any = import_module("torch") if find_spec("torch") else None
STRIDE, SIZE, TRIES, SECONDS = 997, 1 << 20, 5, 0.05
NEAR = -5.0, 5.0
POSITIVE = 0.01, 100.0


class Elementwise(NamedTuple):
    """A function: ours, PyTorch's (also in float64, as the reference), NumPy's if it has it."""

    name: str
    ours: Callable[[Tensor], Tensor]
    theirs: Callable[..., Any]
    numpy: Any = None
    span: tuple[float, float] = NEAR
    """Between which numbers it is timed."""
    exact: Callable[[Any], Any] | None = None
    """What is exact in float64, where PyTorch's own formula is not."""


def both(name: str, span: tuple[float, float] = NEAR, numpy: str = "") -> Elementwise:
    """Return a function that all three have under one name, or almost."""
    return Elementwise(
        name, getattr(Tensor, name), getattr(torch, name), getattr(np, numpy or name), span
    )


def gelu(x: Any) -> Any:
    return x * (0.5 * torch.special.erfc(x * -sqrt(0.5)))


def gelu_tanh(x: Any) -> Any:
    return x * torch.sigmoid(2 * sqrt(2 / pi) * x * (1 + 0.044715 * x * x))


def functions() -> tuple[Elementwise, ...]:
    """Return the rows of the table."""
    soft = torch.nn.functional
    return (
        both("exp"),
        both("exp2"),
        both("expm1"),
        both("log", POSITIVE),
        both("log2", POSITIVE),
        both("log1p", POSITIVE),
        both("sqrt", POSITIVE),
        Elementwise("rsqrt", Tensor.rsqrt, torch.rsqrt, None, POSITIVE),
        Elementwise("recip", Tensor.recip, torch.reciprocal, np.reciprocal, POSITIVE),
        both("sin"),
        both("cos"),
        both("tan"),
        both("atan", numpy="arctan"),
        both("tanh"),
        both("sinh"),
        both("cosh"),
        Elementwise("sigmoid", Tensor.sigmoid, torch.sigmoid),
        Elementwise("erf", Tensor.erf, torch.erf),
        Elementwise("erfc", Tensor.erfc, torch.special.erfc),
        Elementwise("silu", Tensor.silu, soft.silu, exact=lambda x: x * torch.sigmoid(x)),
        Elementwise("gelu", Tensor.gelu, soft.gelu, exact=gelu),
        Elementwise(
            "gelu('tanh')",
            lambda x: x.gelu("tanh"),
            lambda x: soft.gelu(x, approximate="tanh"),
            exact=gelu_tanh,
        ),
        Elementwise(
            "softplus",
            Tensor.softplus,
            lambda x: soft.softplus(x, threshold=inf),
            exact=lambda x: torch.relu(x) + torch.log1p(torch.exp(-x.abs())),
        ),
        Elementwise(
            "elu", Tensor.elu, soft.elu, exact=lambda x: torch.where(x > 0, x, torch.expm1(x))
        ),
    )


class Wrong(NamedTuple):
    """The largest error of a function, in units in the last place, and where it is."""

    ulps: float
    at: float


def main() -> None:
    """Print the table, or write it into a page."""
    if torch is None:
        sys.exit("PyTorch is the reference: pip install torch")
    torch.set_num_threads(1)
    path = Path(sys.argv[1]) if sys.argv[1:] else None
    text = path.read_text(encoding="utf-8") if path else f"{BEGIN}\n{END}\n"
    if BEGIN not in text:
        sys.exit(f"{path} has no line {BEGIN}")
    with Load() as load, np.errstate(all="ignore"):
        lines = [line(function) for function in functions()]
    busy = load_text(load.others)
    where = f"{cpu_name()}, 1 thread, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    libraries = f"NumPy {np.__version__} and PyTorch {torch.__version__}"
    head = (
        f"{where}, beside {libraries}{f'; {busy}' if busy else ''}.\n\n"
        "| function | ours, ulp | at | NumPy, ulp | PyTorch, ulp "
        "| ours, ns | NumPy, ns | PyTorch, ns |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|\n"
    )
    table = head + "\n".join(lines) + "\n"
    if path is None:
        print(table)
    else:
        write_bytes("elementwise", path, placed(text, table, BEGIN).encode())


def line(function: Elementwise) -> str:
    """Return the row of a function."""
    x = sweep()
    wide = torch.from_numpy(x.astype(np.float64))
    exact = (function.exact or function.theirs)(wide).numpy()
    ours = worst(x, compiled(function.ours, x)(), exact)
    torch_worst = worst(x, function.theirs(torch.from_numpy(x)).numpy(), exact)
    numpy_worst = worst(x, function.numpy(x), exact) if function.numpy else None
    near = np.random.default_rng(0).uniform(*function.span, SIZE).astype(np.float32)
    out, given = np.empty_like(near), torch.from_numpy(near)
    runs: list[Callable[[], object]] = [compiled(function.ours, near)]
    runs.append(lambda: function.theirs(given))
    if function.numpy:
        runs.append(lambda: function.numpy(near, out=out))
    times = fastest(runs)
    cells = [
        f"`{function.name}`",
        f"{ours.ulps:.2f}",
        f"{ours.at:.4g}",
        f"{numpy_worst.ulps:.2f}" if numpy_worst else "-",
        f"{torch_worst.ulps:.2f}",
        f"{times[0]:.2f}",
        f"{times[2]:.2f}" if function.numpy else "-",
        f"{times[1]:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def sweep() -> Array:
    """Return one float32 in `STRIDE`, of all signs and sizes, but NaN."""
    x = np.arange(0, 1 << 32, STRIDE).astype(np.uint32).view(np.float32)
    return x[~np.isnan(x)]


def compiled(function: Callable[[Tensor], Tensor], x: Array) -> Callable[[], Array]:
    """Return a function compiled for an array, which it writes into the same memory each time."""
    cx = ll.Graph()
    given = cx.tensor(x.shape, name="x")
    result = function(given).retrieve()
    given.borrow(x)
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1, reuse_outputs=True))

    def run() -> Array:
        given.borrow(x)
        cx.execute()
        return result.numpy()

    return run


def worst(x: Any, y: Any, exact: Any) -> Wrong:
    """Return the largest error of results, against the values in float64."""
    right = exact.astype(np.float32)
    same = (y == right) & (np.isinf(right) | (right == 0)) | (np.isnan(y) & np.isnan(right))
    errors = np.abs(y - exact) / np.spacing(np.abs(right)).astype(np.float64)
    # The next float below infinity is one unit away from it.
    most = np.copysign(np.finfo(np.float32).max, right)
    beside = (np.isinf(right) & (y == most)) | ((right == most) & (y == np.copysign(inf, y)))
    beside &= np.signbit(y) == np.signbit(right)
    errors = np.where(same, 0.0, np.where(beside, 1.0, errors))
    errors = np.where(np.isnan(errors), inf, errors)
    at = int(errors.argmax())
    return Wrong(float(errors[at]), float(x[at]))


def fastest(runs: list[Callable[[], object]]) -> list[float]:
    """Return the nanoseconds per value of the fastest run of each, timed in turns."""
    best = [inf] * len(runs)
    for _ in range(TRIES):
        for index, run in enumerate(runs):
            run()
            begin = time.perf_counter()
            while time.perf_counter() < begin + SECONDS:
                start = time.perf_counter()
                run()
                best[index] = min(best[index], time.perf_counter() - start)
    return [seconds / SIZE * 1e9 for seconds in best]


if __name__ == "__main__":
    main()
