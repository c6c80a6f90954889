"""The examples of the pages run, each block as a notebook cell, and show what the pages say.

What they show is accepted by `pytest --bless tests/test_pages.py`.
"""

import builtins
import contextlib
import importlib
import inspect
import io
import linecache
import pkgutil
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from luminal_lab import trust
from luminal_lab.core.op import OPS
from luminal_lab.devices.build import cache
from luminal_lab.devices.facts import probe
from luminal_lab.kernels import steps
from luminal_lab.kernels.steps import schedule
from luminal_lab.kernels.steps.step import STEPS, Step
from luminal_lab.passes.gradients.rule import RULES
from luminal_lab.passes.pipeline import known_passes
from tests.conftest import Golden
from tests.needs import missing, need, needed
from tests.passes import running
from tests.rain import rain
from tests.readme import FENCE

assert running  # imports all passes
assert schedule  # comes before the steps, which read it
for _, name, _ in pkgutil.iter_modules(steps.__path__, f"{steps.__name__}."):
    importlib.import_module(name)
DOCS = Path(__file__).resolve().parents[1] / "docs"
COMPILED = {
    *("charts.md", "emulator.md", "extending.md", "kernels.md", "language.md", "precision.md"),
    *("recordings.md", "schedules.md", "sharding.md", "times.md"),
}
SOURCE = re.compile(r"^(>>> .*\n(?:\.\.\.(?: .*)?\n)*)", re.MULTILINE)
MILLISECONDS = re.compile(r" +\d+\.\d\d$", re.MULTILINE)


@pytest.fixture(autouse=True)
def _tables_as_they_were() -> Iterator[None]:
    """Forget the ops, the gradients and the steps that a page defines."""
    tables: list[dict[Any, Any]] = [OPS, RULES, STEPS]
    before = [dict(table) for table in tables]
    yield
    for table, then in zip(tables, before, strict=True):
        table.clear()
        table.update(then)


@pytest.mark.parametrize(
    "page",
    [
        "charts.md",
        "devices.md",
        "emulator.md",
        "extending.md",
        "display.md",
        "gradients.md",
        "grammar.md",
        "kernels.md",
        "language.md",
        "nn.md",
        "passes.md",
        "precision.md",
        "recordings.md",
        "schedules.md",
        "sharding.md",
        "times.md",
        "training.md",
        "workbench.md",
    ],
)
def test_the_examples_show_what_is_written_under_them(
    page: str, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert text.count("\n>>> ") > 15
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cache, "user_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(trust, "trusted_file", lambda: tmp_path / "trusted")  # nothing is signed
    for name, small in {"BUDGET": 0.0, "LEAST": 1 << 20, "MOST": 4 << 20}.items():
        monkeypatch.setattr(probe, name, small)  # no page shows how fast this machine is
    if page in COMPILED:
        need("cc")
    if page == "language.md":
        need("jinja2")
        rain(tmp_path / "rain")
    golden(replayed(with_steps(text)), f"../docs/{page}")
    need(*needed(text))


def test_the_table_of_passes_has_them_all() -> None:
    text = (DOCS / "passes.md").read_text(encoding="utf-8")
    listed = re.findall(
        r"^\| `([\w-]+)`", text.partition("| pass |")[2].partition("\n\n")[0], flags=re.MULTILINE
    )
    ours = {
        name
        for name, cls in known_passes().items()
        if cls.__module__.startswith("luminal_lab.passes.")
    }
    assert sorted(listed) == sorted(ours)


def with_steps(page: str) -> str:
    """Return a page whose list of steps is that of their classes."""
    start, end = "<!-- steps: written by a test from the classes in kernels/steps -->\n", "<!-- end"
    before, found, rest = page.partition(start)
    if not found:
        return page
    listed = "".join(_described(step) for step in sorted(STEPS.values(), key=lambda s: s.form))
    return f"{before}{start}\n{listed}{end}{rest.partition(end)[2]}"


def _described(step: type[Step]) -> str:
    """Return a step's form, what it does, its before and after, and what there is to know."""
    what, *parts = inspect.cleandoc(step.__doc__ or "").partition("\n\nWritten `")[0].split("\n\n")
    lines = [f"### `{step.form}`", what]
    lines += [
        f"```\n{part.rstrip()}\n```" if "→" in part else " ".join(part.split()) for part in parts
    ]
    return "\n\n".join(lines) + "\n\n"


def test_every_step_shows_a_nest_before_and_after_it() -> None:
    ours = [step for step in STEPS.values() if step.__module__.startswith("luminal_lab.")]
    assert len(ours) > 20
    assert [step.form for step in ours if "→" not in (step.__doc__ or "")] == []
    assert [
        step.form for step in ours if f"Written `{step.form}`." not in (step.__doc__ or "")
    ] == []


def replayed(page: str) -> str:
    """Return a page with what its examples show, up to the first that needs what is missing."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, block in enumerate(list(FENCE.finditer(page)), 1):
        if any(map(missing, needed(block[1]))):
            break
        page = page.replace(block[1], _cell(block[1], f"cell {number}", names), 1)
    return page


def _cell(block: str, cell: str, names: dict[str, Any]) -> str:
    first, *parts = SOURCE.split(block)
    prompts, outputs = parts[::2], parts[1::2]
    sources = [re.sub("^.{3} ?", "", prompt, flags=re.MULTILINE) for prompt in prompts]
    text = "".join(sources)
    linecache.cache[cell] = (len(text), None, text.splitlines(keepends=True), cell)
    line, result = 0, first
    for prompt, source, output in zip(prompts, sources, outputs, strict=True):
        shown = _run("\n" * line + source, cell, names)
        line += source.count("\n")
        written = output.rstrip("\n")
        space = output[len(written) + bool(written) :]  # the empty lines before the next prompt
        result += prompt + (output if _steady(shown + space) == _steady(output) else shown + space)
    return result


def _steady(text: str) -> str:
    """Return the text without the milliseconds of a table that has some."""
    return MILLISECONDS.sub("", text) if " ms\n" in text else text


def _run(source: str, cell: str, names: dict[str, Any]) -> str:
    """Return what running the source shows: what it prints, its value, its warnings, its error."""
    shown = io.StringIO()
    hook, last = sys.displayhook, vars(builtins).get("_")
    with contextlib.redirect_stdout(shown), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda *said, **_: shown.write(warnings.formatwarning(*said[:4]))
        sys.displayhook = sys.__displayhook__
        try:
            exec(compile(source, cell, "single"), names)
        except Exception as error:
            shown.write("Traceback (most recent call last):\n  ...\n")
            shown.write("".join(traceback.format_exception_only(error)))
        finally:
            sys.displayhook, builtins._ = hook, last  # pyright: ignore[reportAttributeAccessIssue]  # what the prompt showed last
    return shown.getvalue()


def test_what_an_example_shows_takes_the_place_of_what_is_written() -> None:
    page = "# Title\n\n```python\n{}```\n\n```\n>>> not run\n```\n"
    good = ">>> k = 1\n\n>>> for _ in range(2):\n...     print(k)\n1\n1\n\n>>> k\n1\n"
    assert replayed(page.format(good)) == page.format(good)
    assert replayed(page.format(good.replace("1\n", "2\n"))) != page.format(good)
    wrong = replayed(page.format(">>> 1 / 0\n0.0\n"))
    error = "Traceback (most recent call last):\n  ...\nZeroDivisionError: division by zero\n"
    assert wrong == page.format(f">>> 1 / 0\n{error}")
    warning = ">>> import warnings\n>>> warnings.warn('so')\ncell 1:2: UserWarning: so\n"
    assert replayed(page.format(warning)).startswith(page.format(warning).partition("```\n\n")[0])


def test_only_the_milliseconds_of_a_table_may_differ() -> None:
    table = "pass  ms\nfold {}\n"
    assert _steady(table.format(" 0.25")) == _steady(table.format("12.75"))
    assert _steady("x  0.25\n") != _steady("x  0.75\n")
