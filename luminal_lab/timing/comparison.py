"""Two timings side by side, kernel by kernel; and lines of a table, aligned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import override

from luminal_lab.core.printer import as_text
from luminal_lab.tables import Table, aligned, frame
from luminal_lab.tensor.arguments import told_object

if TYPE_CHECKING:
    from luminal_lab.timing.timings import Timings


@told_object("comparison")
@dataclass(frozen=True, repr=False)
class Comparison:
    """Two timings side by side; a ratio above 1 is how many times faster the second is."""

    first: Timings
    second: Timings

    @property
    def kernels(self) -> dict[str, tuple[float | None, float | None]]:
        """The seconds of each kernel in both, None where one has no such kernel."""
        first, second = self.first.by_kernel(), self.second.by_kernel()
        return {name: (first.get(name), second.get(name)) for name in {**first, **second}}

    @property
    def ratios(self) -> dict[str, float]:
        """How many times faster the second is, for each kernel that both have."""
        return {n: a / b for n, (a, b) in self.kernels.items() if a is not None and b}

    @property
    def ratio(self) -> float:
        """How many times faster the second is as a whole."""
        return self.first.seconds / self.second.seconds

    def to_pandas(self) -> Table:
        """Return a table of pandas, a row for each kernel: both seconds, and their ratio."""
        rows = ((name, *pair, self.ratios.get(name)) for name, pair in self.kernels.items())
        columns = ("kernel", "first_seconds", "second_seconds", "ratio")
        return frame("comparison", columns, rows)

    @override
    def __str__(self) -> str:
        sides = self.first, self.second
        unit = self.first.unit if self.first.unit == self.second.unit else "ms"
        title = f"{self.first.graph} beside {self.second.graph}"
        heads = [
            f"  {name}: {side.how}{side.where}"
            for name, side in zip(("first", "second"), sides, strict=True)
        ]
        rows = [
            [
                *("" if t is None else s.shown(t, unit) for t, s in zip(pair, sides, strict=True)),
                f"{self.ratios[name]:.2f}" if name in self.ratios else "",
                name,
            ]
            for name, pair in self.kernels.items()
        ]
        whole = [s.shown(s.seconds, unit) for s in sides]
        rows.append([*whole, f"{self.ratio:.2f}", "the whole"])
        header = [(">", f"first {unit}"), (">", f"second {unit}"), (">", "ratio"), ("<", "kernel")]
        return "\n".join([title, *heads, *aligned(header, rows)])

    @override
    def __repr__(self) -> str:
        return f"<Comparison: the second takes 1/{self.ratio:.2f} of the time; print(…) shows it>"

    _repr_mimebundle_ = as_text
