"""Which of many schedules to measure first: ridge regression on the numbers they are made of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import log2
from typing import cast

import numpy as np
import numpy.typing as npt

from luminal_lab.search.draws import ScheduleDraft

Floats = npt.NDArray[np.float64]
LEAST = 64
"""Below this many measured schedules a fit says nothing."""
PENALTY = 1.0
WORD = re.compile(r"[a-z]+")
NUMBER = re.compile(r"\b[0-9]+\b")


def ranked(
    known: Sequence[tuple[ScheduleDraft, float]],
    drafts: Sequence[ScheduleDraft],
    least: int = LEAST,
) -> list[ScheduleDraft]:
    """Return drafts in the order of their predicted seconds; unchanged if too few are known."""
    if len(known) < least:
        return [*drafts]
    features = [_features(draft) for draft in (*(draft for draft, _ in known), *drafts)]
    names = sorted({name for given in features for name in given})
    table: Floats = np.array([[given.get(name, 0.0) for name in names] for given in features])
    spread = table.std(0)
    table = (table - table.mean(0)) / np.where(spread > 0, spread, 1.0)
    x, y = table[: len(known)], np.log(np.array([seconds for _, seconds in known]))
    squares: Floats = x.T @ x + PENALTY * np.eye(len(names))
    weights = cast("Floats", np.linalg.solve(squares, x.T @ (y - y.mean())))
    predicted: Floats = table[len(known) :] @ weights
    # Rounded, so that the last digit of another NumPy does not change the order.
    return [drafts[at] for at in np.argsort(predicted.round(6), kind="stable")]


def _features(draft: ScheduleDraft) -> dict[str, float]:
    """Return what may predict a schedule's speed: its open numbers, and its steps by word."""
    features = {f"number {name}": log2(1 + value) for name, value in draft.choices}
    features[f"form {draft.form}"] = 1.0
    for line in draft.schedule.splitlines():
        word = WORD.match(line)
        name = word[0] if word else ""
        features[f"steps {name}"] = features.get(f"steps {name}", 0.0) + 1
        size = sum(log2(1 + int(number)) for number in NUMBER.findall(line))
        features[f"sizes {name}"] = features.get(f"sizes {name}", 0.0) + size
    features.update({f"{name} squared": value * value for name, value in features.items()})
    return features
