"""The table of what models take: its line, and that the page can be written by one command."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from luminal_lab.bench.page import END
from luminal_lab.machines.load import Load
from tests.needs import need

PAGE = Path(__file__).parents[2] / "docs" / "memory.md"
OURS = {"arena": 10e6, "least": 10e6, "plan": 12e6, "peak": 11.4e6, "made": 3e6, "whole": 14.4e6}


@pytest.fixture(scope="module")
def study() -> ModuleType:
    """The study, which needs PyTorch."""
    need("torch")
    return import_module("luminal_lab.bench.studies.memory")


def test_a_line_has_shares_of_the_plan_and_of_what_pytorch_takes(study):
    told = study.line("mlp", OURS, {"whole": 12_000_000})
    assert told == "| mlp | 10.00 | 10.00 | 12.00 | 11.40 | 0.950 | 3.00 | 14.40 | 12.00 | 1.20 |"
    assert study.line("mlp", OURS, {}).endswith("| 14.40 | – | – |")
    assert {row.count("|") for row in (told, *study.HEAD.splitlines())} == {11}


def test_the_page_is_written_between_its_marks(study, tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{study.BEGIN}\nold\n{END}\nbehind\n", encoding="utf-8")
    monkeypatch.setattr(study, "apart", lambda name, peer: OURS if peer == "ours" else {})
    monkeypatch.setattr("sys.argv", ["memory", "mlp", "conv", "--page", str(page)])
    study.main()
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n\n{study.BEGIN}\n\nIn MB, on ")
    assert text.endswith(f"{END}\nbehind\n")
    assert [line[:7] for line in text.splitlines()[6:10]] == [
        "| | are",
        "|---|--",
        "| mlp |",
        "| conv ",
    ]
    assert "old" not in text
    monkeypatch.setattr("sys.argv", ["memory", "--page", str(Path(__file__))])
    with pytest.raises(SystemExit):
        study.main()


def test_the_load_is_told_with_the_machine(study):
    load = Load()
    load.others = 1.5
    assert study.where(load).endswith("; measured while other programs kept 1.5 cores busy.")


def test_the_page_has_lines_of_models_that_there_are(study):
    text = PAGE.read_text(encoding="utf-8").partition(study.BEGIN)[2].partition(END)[0]
    names = [line.split(" | ")[0][2:] for line in text.splitlines() if line.startswith("| ")]
    known = [*study.NAMES, study.CHECKPOINTED]
    assert names[1:] == [name for name in known if name in names]
    assert len(names) > len(known) - 1
