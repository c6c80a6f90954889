"""Links between README, the pages and the notebooks lead to files and headings that are there."""

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from luminal_lab.course.notebooks import read, source

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "notebooks").glob("*.ipynb")),
]
FENCE = re.compile(r"^(`{3,})[^`\n]*\n.*?^\1`*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+(?:\([^()\s]*\))?)(?:\s+\"[^\"]*\")?\)")
IMAGE = re.compile(r"<(?:img|a)\s[^>]*?(?:src|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)


def prose(path: Path) -> str:
    """Return what a page says outside of its examples."""
    if path.suffix == ".ipynb":
        cells = [source(one) for one in read(path).cells if one["cell_type"] == "markdown"]
        text = "\n\n".join(cells)
    else:
        text = path.read_text(encoding="utf-8")
    return FENCE.sub("", text)


def links(text: str) -> Iterator[str]:
    """Yield where a page leads to, pictures included."""
    words = CODE.sub("code", text)
    yield from LINK.findall(words)
    yield from IMAGE.findall(words)


@cache
def anchors(path: Path) -> frozenset[str]:
    """Return the names that GitHub gives the headings of a page."""
    found: list[str] = []
    for title in HEADING.findall(prose(path)):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "")
        name = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        earlier = sum(re.fullmatch(rf"{re.escape(name)}(-\d+)?", one) is not None for one in found)
        found.append(f"{name}-{earlier}" if earlier else name)
    return frozenset(found)


def broken(path: Path, text: str, root: Path = ROOT) -> list[str]:
    """Return the links of a page that lead nowhere, or out of the folder that all are in."""
    bad: list[str] = []
    for link in links(text):
        if re.match(r"(https?|mailto):", link):
            continue
        place, _, anchor = unquote(link).partition("#")
        target = (path.parent / place).resolve() if place else path
        if not target.exists() or not target.is_relative_to(root):
            bad.append(f"{link}: there is no such file")
        elif anchor and target.suffix in (".md", ".ipynb") and anchor not in anchors(target):
            bad.append(f"{link}: {target.name} has no such heading")
    return bad


@pytest.mark.parametrize("path", PAGES, ids=[path.name for path in PAGES])
def test_its_links_lead_somewhere(path: Path) -> None:
    assert broken(path, prose(path)) == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in seen:
            continue
        seen.add(page)
        targets = [page.parent / unquote(link).partition("#")[0] for link in links(prose(page))]
        ahead += [target.resolve() for target in targets if target.suffix in (".md", ".ipynb")]
    assert sorted(page.name for page in set(PAGES) - seen) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = ROOT / "docs" / "errors.md"
    text = (
        "[a](passes.md) [b](#shapeerror) [c](gone.md) [d](passes.md#gone) `[e](gone.md)`\n"
        "[f](../README.md#quickstart) ![g](images/gone.png) [h](https://a.org/x) [i](../../x)\n"
    )
    assert broken(page, text) == [
        "gone.md: there is no such file",
        "passes.md#gone: passes.md has no such heading",
        "images/gone.png: there is no such file",
        "../../x: there is no such file",
    ]


def test_links_lead_to_nothing_that_git_ignores() -> None:
    targets = {
        (path.parent / unquote(link).partition("#")[0]).resolve()
        for path in PAGES
        for link in links(prose(path))
        if not re.match(r"(https?|mailto):|#", link)
    }
    asked = "\n".join(sorted(str(target) for target in targets))
    done = subprocess.run(
        ["git", "check-ignore", "--stdin"], cwd=ROOT, input=asked, text=True, encoding="utf-8",
        capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode == 128:
        pytest.skip("this is no checkout: git says nothing of what it ignores")
    assert done.stdout == ""
