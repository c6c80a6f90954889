"""The site: README, the pages and the notebooks, as Sphinx makes it in `make docs`.

Nothing in it is fetched, neither when it is made nor when it is read.
"""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import reference  # noqa: E402  # which is beside this file
import running  # noqa: E402  # likewise

project = "luminal_lab"
copyright = "luminal_lab authors"
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/reference/*.md", "notebooks/*.ipynb"]
extensions = ["myst_nb"]
highlight_language = "text"

myst_heading_anchors = 4  # named as on GitHub
nb_execution_mode = "off"
nb_render_markdown_format = "myst"
# Pictures are in both; text/html has them as images, with their words.
nb_mime_priority_overrides = [("html", "text/html", 0)]

python_maximum_signature_line_length = 88
suppress_warnings = ["ref.python"]  # a type of two names is the same, whichever is linked
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "luminal_lab"
html_copy_source = False
html_show_sphinx = False
html_additional_pages = {"index": "first.html"}
templates_path = ["templates"]

PARTS = {
    "The course": ("notebooks/*.ipynb",),
    "Using it": ("docs/*.md",),
    "Reference": ("docs/reference/index.md",),
    "Working on it": ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"),
}


def listed(_: Sphinx, name: str, source: list[str]) -> None:
    """Put the list of all pages behind README.md, which shows none of it."""
    if name != root_doc:
        return
    for title, patterns in PARTS.items():
        files = [file for pattern in patterns for file in sorted(ROOT.glob(pattern))]
        names = "\n".join(
            re.sub(r"\.\w+$", "", f"/{file.relative_to(ROOT).as_posix()}") for file in files
        )
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{names}\n```\n"


def referenced(_: Sphinx, __: Config) -> None:
    """Write the pages of the reference."""
    reference.main()


def computing(app: Sphinx, error: Exception | None) -> None:
    """Write the pages that compute, where their models can be trained and compiled."""
    if error is None and find_spec("sklearn") and find_spec("ziglang"):
        running.main(Path(app.outdir))


def setup(app: Sphinx) -> None:
    """Join Sphinx."""
    app.connect("config-inited", referenced)
    app.connect("source-read", listed)
    app.connect("build-finished", computing)
