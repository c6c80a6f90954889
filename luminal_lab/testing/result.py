"""What a device got right, and what it did not: a table of ops, and each failure to paste."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import OPS, tuple_text
from luminal_lab.core.printer import as_text
from luminal_lab.tables import Table, frame
from luminal_lab.tensor.arguments import told_class
from luminal_lab.testing.cases import Case, CaseRun

SHOWN = 3
"""How many failures a text shows in full."""
MOST = 24
"""Elements of the largest array that is shown."""


class Row(NamedTuple):
    """The outcome of one case."""

    case: Case
    status: Literal["passed", "failed", "unsupported"]
    reason: str = ""
    seconds: float = 0.0
    blamed: str | None = None
    """The op whose implementation is wrong, if one is known."""
    run: CaseRun | None = None
    expected: Sequence[Array] = ()
    got: Sequence[Array] = ()
    note: str = ""

    @property
    def label(self) -> str:
        """The op on trial, or else the family of the case."""
        return self.case.op or self.case.family

    @override
    def __str__(self) -> str:
        if self.status != "failed":
            return f"{self.status} {self.case}" + (f": {self.reason}" if self.reason else "")
        lines = [f"failed {self.case}: {self.reason}"]
        if self.note:
            lines.append(f"  {self.note}")
        lines += [f"  {line}" for line in str(self.case.ir).splitlines()]
        if self.run is not None:
            lines += _shown("with", {f"%{k}": v for k, v in self.run.data.items()})
            if self.run.dims:
                sizes = ", ".join(f"{name} = {size}" for name, size in self.run.dims.items())
                lines.append(f"  where {sizes}")
        names = [str(node) for node in self.case.ir.outputs]
        for title, arrays in (("expected", self.expected), ("got", self.got)):
            lines += _shown(title, dict(zip(names, arrays, strict=False)))
        if self.blamed is not None:
            lines.append(f"hint: {self.blamed} needs fixing: {_meaning(self.blamed)}")
        return "\n".join(lines)


def _meaning(op: str) -> str:
    sentence = (OPS[op].__doc__ or "").strip().splitlines()[0]
    return f"it is “{sentence}”"


def _shown(title: str, arrays: Mapping[str, Array]) -> list[str]:
    lines: list[str] = []
    for name, array in arrays.items():
        text = f"{array.dtype}{tuple_text(array.shape)}"
        if array.size <= MOST:
            text = np.array2string(array, separator=", ", max_line_width=10_000)
            text = text.replace("\n", "")
        lines.append(f"  {title} {name} = {text}")
    return lines


@told_class
@dataclass(frozen=True, repr=False)
class Conformance:
    """The outcomes of all cases that were run on a device.

    >>> import luminal_lab as ll
    >>> generic = ll.GenericCompiler()
    >>> report = ll.devices.conformance(generic, only=["elementwise"], dtypes=["float32"])
    >>> report.ok, report.failed
    (True, ())
    """

    device: str
    rows: tuple[Row, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether no case failed."""
        return not self.failed

    @property
    def passed(self) -> tuple[Row, ...]:
        """The cases whose results are right."""
        return self._with("passed")

    @property
    def failed(self) -> tuple[Row, ...]:
        """The cases that are wrong, or ended in an error."""
        return self._with("failed")

    @property
    def unsupported(self) -> tuple[Row, ...]:
        """The cases that the device declines, each with the reason."""
        return self._with("unsupported")

    def _with(self, status: str) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.status == status)

    @property
    def wrong_ops(self) -> tuple[str, ...]:
        """The ops to fix, those with the most failed cases first."""
        blamed = Counter(row.blamed for row in self.failed if row.blamed is not None)
        return tuple(op for op, _ in blamed.most_common())

    def to_pandas(self) -> Table:
        """Return a pandas table with a row for each case.

        >>> report = ll.devices.conformance(ll.GenericCompiler(), only="source", dtypes=["float32"])
        >>> report.to_pandas()["op"].unique().tolist()
        ['constant', 'iota', 'random', 'input']
        """
        columns = ("case", "family", "op", "status", "to mend", "reason")
        rows = (
            (r.case.name, r.case.family, r.case.op, r.status, r.blamed, r.reason) for r in self.rows
        )
        return frame("conformance", columns, rows)

    @property
    def counts(self) -> str:
        """The counts of each op, and of the families of cases with more than one op."""
        counts: dict[str, Counter[str]] = {}
        for row in self.rows:
            counts.setdefault(row.label, Counter())[row.status] += 1
        width = max(map(len, counts))
        lines: list[str] = []
        for label, of in counts.items():
            texts = [f"{of['passed']:>3}"]
            texts += [f"{of[word]} {word}" for word in ("failed", "unsupported") if of[word]]
            lines.append(f"  {label:<{width}} {', '.join(texts)}")
        return "\n".join(lines)

    @property
    def summary(self) -> str:
        """The result on one line."""
        total, right = len(self.rows), len(self.passed)
        text = f"all {total} cases passed" if right == total else f"{right} of {total} cases passed"
        failed, declined = len(self.failed), len(self.unsupported)
        text += f", {failed} failed" * (failed > 0)
        text += f", {declined} not supported" * (declined > 0)
        return f"conformance of {self.device}: {text}"

    @override
    def __str__(self) -> str:
        lines = [self.summary, self.counts]
        if self.wrong_ops:
            lines.append(f"to be fixed: {', '.join(self.wrong_ops)}")
        reasons = Counter(row.reason for row in self.unsupported)
        lines += [f"not supported: {reason} ({n} cases)" for reason, n in reasons.items()]
        lines += ["", *map(str, self.failed[:SHOWN])] if self.failed else []
        if rest := Counter(row.label for row in self.failed[SHOWN:]):
            counts = ", ".join(f"{count} of {label}" for label, count in rest.items())
            lines.append(f"and {rest.total()} more, in .failed: {counts}")
        return "\n".join(lines)

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<{self.summary}; print(…) shows it>"
