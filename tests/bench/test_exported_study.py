"""The study of exported models: what it times gives the session's results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from luminal_lab.bench.studies import exported

pytestmark = pytest.mark.needs("cc")


def test_a_library_alone_and_the_folders_model_are_the_session(tmp_path: Path) -> None:
    cx = exported.mlp()
    folder = exported.compiled(cx).export(tmp_path / "mlp")
    cx["x"].set(exported.ROW)
    cx.execute()
    got = exported.model_of(folder)(x=exported.ROW)["y"]
    assert np.array_equal(got, np.asarray(cx["y"].numpy()))
    assert exported.library(folder, exported.ROW)() == 0
    assert exported.onnx(cx, tmp_path) is None or (tmp_path / "mlp.onnx").is_file()


def test_each_has_its_turn() -> None:
    calls: list[str] = []
    ways = {name: (lambda name=name: calls.append(name)) for name in "ab"}
    least = exported.in_turns(ways, 2)
    assert list(least) == ["a", "b"]
    assert 0 < max(least.values()) < 1
    assert "".join(calls).replace("a", "") == "b" * (len(calls) // 2)
