"""One page of HTML that holds everything: no server, no network, no kernel.

The contents are the user's data, so none of them is ever part of a script: the bundle is base64
in a block that no browser runs, and the static part is escaped. The page's own policy allows only
our script, by its hash, and no requests; WebAssembly only where the page is one that runs.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

from luminal_lab.display import Theme
from luminal_lab.errors import ArgumentError
from luminal_lab.viz.live.columns import ZLIB
from luminal_lab.viz.live.static import unpacked_script
from luminal_lab.viz.markup import plain
from luminal_lab.writing import as_path, write_bytes

CLOSING = re.compile(r"<(?=/script|!--)", re.IGNORECASE)
"""Text that would end a script element or confuse its parser."""
SERVED = "connect-src 'self'; "
WASM = " 'wasm-unsafe-eval'"
RUN = '<script type="text/plain" id="ll-run">{data}</script>\n'
POLICY = (
    "default-src 'none'; {served}script-src 'sha256-{hash}'{wasm}; style-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'"
)
PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
</head>
<body style="margin:0">
<main>
<h1 data-ll-static style="font:600 18px sans-serif;margin:8px">{title}</h1>
{static}
<noscript>
<p data-ll-static>This page is alive where scripts may run; this is its picture.</p>
</noscript>
<div id="ll-page" data-what="{what}" data-theme="{theme}" data-state="{state}"{served}></div>
</main>
<script type="text/plain" id="ll-data">{data}</script>
{run}<script type="module">{script}</script>
</body>
</html>
"""


@dataclass(frozen=True)
class Exported:
    """The contents of a page."""

    what: str
    """The kind of picture that it opens."""
    title: str
    data: bytes
    """The bundle."""
    static: str
    """The picture without a script, as HTML."""
    theme: Theme = "auto"
    state: str = "{}"
    """The initial state as JSON: place, selection, overlay."""
    computes: bytes = b""
    """What it needs to run by itself: WebAssembly, weights; empty if it does not."""
    is_served: bool = False
    """Whether this process answers its questions, at the page's own address."""


def check_name(path: str | Path) -> None:
    """Raise unless this is a name for a page."""
    if as_path("export", path).suffix.lower() not in (".html", ".htm"):
        raise ArgumentError(
            f"export: {str(path)!r} is not an HTML file, and nothing else can be written",
            hint="give a name that ends in .html; display().save(…) writes pictures",
        )


def write_page(path: str | Path, exported: Exported) -> Path:
    """Write a page, and return its path."""
    # A user's text may have lone surrogates, which no file can hold.
    write_bytes("export", path, page_of(exported).encode(errors="replace"))
    return as_path("export", path)


def page_of(exported: Exported) -> str:
    """Return the page."""
    # Equivalent inside a JavaScript string; it occurs nowhere else.
    code = CLOSING.sub(r"\\x3c", unpacked_script())
    data = exported.data
    packed = data if data[:1] == bytes([ZLIB]) else zlib.compress(data, 9)
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    return PAGE.format(
        policy=POLICY.format(
            hash=digest,
            served=SERVED if exported.is_served else "",
            wasm=WASM if exported.computes else "",
        ),
        run=RUN.format(data=base64.b64encode(exported.computes).decode())
        if exported.computes
        else "",
        served=" data-served" if exported.is_served else "",
        title=plain(exported.title),
        static=exported.static,
        what=plain(exported.what),
        theme=plain(exported.theme),
        state=plain(exported.state),
        data=base64.b64encode(packed).decode(),
        script=code,
    )
