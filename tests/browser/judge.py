"""What a machine can see wrong in a picture: letters that overlap, are cut or tiny; empty panes."""

from pathlib import Path
from typing import Any

JUDGE = Path(__file__).with_suffix(".js").read_text("utf-8")
IMAGE = "data:image/svg+xml;base64,"
DRAWN = f"""(one) => [...one.querySelectorAll('img[src^="{IMAGE}"]')]
  .filter((image) => image.checkVisibility())
  .map((image) => [atob(image.src.slice({len(IMAGE)})), image.getBoundingClientRect().width])
  .map(([text, width]) => [new TextDecoder().decode(Uint8Array.from(text, (c) => c.charCodeAt(0))),
    width])"""
"""The pictures that are images, which a script does not see into, each with its width."""


def judged(picture: Any) -> list[str]:
    """Return what is wrong with the element of a page, and with the images in it."""
    found: list[str] = picture.evaluate(JUDGE)
    for svg, width in picture.evaluate(DRAWN):
        blank = picture.page.context.new_page()
        blank.set_viewport_size({"width": max(100, round(width)), "height": 800})
        blank.set_content(f'<body style="margin:0">{svg}</body>')
        found += [f"{one} (in an image)" for one in blank.locator("svg").first.evaluate(JUDGE)]
        blank.close()
    return found
