"""A picture as a value: an image that even an untrusted notebook shows, and files.

JupyterLab strips SVG from a notebook that came from elsewhere, but shows an image with a data URL.
So the HTML is such an image; the SVG itself and a text come with it.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.tensor.arguments import told_object
from luminal_lab.viz.markup import plain
from luminal_lab.writing import as_path, write_bytes

BROWSERS = "chromium", "chromium-browser", "google-chrome", "chrome", "msedge"
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-device-scale-factor=2",
]


@told_object("picture")
@dataclass(frozen=True, repr=False)
class Picture:
    """An SVG, with a description in words."""

    svg: str
    text: str
    width: float
    height: float

    @property
    def html(self) -> str:
        """An image that holds the SVG, with its text as alternative."""
        data = base64.b64encode(self.svg.encode()).decode()
        return (
            f'<img src="data:image/svg+xml;base64,{data}" alt="{plain(self.text)}" '
            f'width="{self.width:.0f}" height="{self.height:.0f}" style="max-width:none">'
        )

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.html, "image/svg+xml": self.svg, "text/plain": self.text}

    def save(self, path: str | Path) -> None:
        """Write it to a file whose name ends in .svg, .png or .html."""
        kind = as_path("display", path).suffix.lower()
        if kind == ".svg":
            write_bytes("display", path, self.svg.encode())
        elif kind == ".png":
            write_bytes("display", path, self.to_png())
        elif kind in (".html", ".htm"):
            write_bytes("display", path, page(self.html, self.text.partition(". ")[0]).encode())
        else:
            raise ArgumentError(
                f"display: {str(path)!r} does not say what kind of picture it is",
                hint="give a name that ends in .svg, .png or .html",
            )

    def to_svg(self, path: str | Path) -> None:
        """Write the SVG to a file."""
        write_bytes("display", path, self.svg.encode())

    def to_png(self, path: str | Path | None = None) -> bytes:
        """Return a PNG of twice the size, drawn by a browser on this machine."""
        browser = next(filter(None, map(shutil.which, BROWSERS)), None)
        if browser is None:
            raise DeviceError(
                f"display: a PNG needs a browser that draws it, and none of {', '.join(BROWSERS)} "
                "is there",
                hint="install chromium; to_svg(path) needs nothing",
            )
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "picture.html"), Path(folder, "picture.png")
            body = f"<body style='margin:0'>{self.svg}</body>"
            source.write_text(f"<!doctype html><meta charset=utf-8>{body}", encoding="utf-8")
            size = f"--window-size={int(self.width) + 1},{int(self.height) + 1}"
            done = subprocess.run(
                [browser, *QUIET, f"--user-data-dir={folder}/profile", size,
                 f"--screenshot={target}", source.as_uri()],
                capture_output=True,
                timeout=120,
                check=False,
            )  # fmt: skip
            if not target.exists():
                raise DeviceError(
                    f"display: {browser} made no PNG, and ended with {done.returncode}",
                    where=done.stderr.decode(errors="replace")[-400:] or None,
                    hint="to_svg(path) needs no browser",
                )
            data = target.read_bytes()
        if path is not None:
            write_bytes("display", path, data)
        return data

    @override
    def __str__(self) -> str:
        return self.text

    @override
    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.text}>"


@told_object("page")
@dataclass(frozen=True, repr=False)
class Page:
    """A table or a text as HTML without a script, and as plain text."""

    html: str
    text: str

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    def save(self, path: str | Path) -> None:
        """Write it to a file whose name ends in .html."""
        if as_path("display", path).suffix.lower() not in (".html", ".htm"):
            raise ArgumentError(
                f"display: {str(path)!r} is not an HTML file, and nothing else can be written",
                hint="give a name that ends in .html",
            )
        write_bytes("display", path, page(self.html, self.text.partition("\n")[0]).encode())

    @override
    def __str__(self) -> str:
        return self.text

    @override
    def __repr__(self) -> str:
        return f"<Page: {self.text.partition(chr(10))[0]}>"


def page(body: str, title: str) -> str:
    """Return a whole page of HTML, light or dark as its reader prefers."""
    words = plain(title)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="color-scheme" content="light dark"><title>{words}</title></head>'
        f'<body><main><h1 style="font:600 18px sans-serif">{words}</h1>{body}</main>'
        "</body></html>\n"
    )
