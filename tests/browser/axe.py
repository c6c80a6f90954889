"""axe-core, which judges a page by the rules of accessibility, for tests."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.needs import need

ARGUED: Mapping[str, str] = {}
"""Rules that a page of ours breaks in the eyes of axe, and why it does not."""
RUN = """async (within) => {
  const {violations} = await axe.run(within ?? document, {resultTypes: ["violations"]});
  return violations.flatMap(({id, impact, help, nodes}) =>
    nodes.map(({target, failureSummary}) =>
      `${id} (${impact}), ${help}: ${target.join(" ")}: ${failureSummary.split("\\n")[1]}`));
}"""


def faults(page: Any, within: str | None = None) -> list[str]:
    """Return what axe finds wrong in a page or a part of it, of whatever impact."""
    source: Path = need("axe-core")
    if not page.evaluate("'axe' in window"):
        page.evaluate(source.read_text("utf-8") + "\n;0")
    found: list[str] = page.evaluate(RUN, within)
    return [one for one in found if one.split(" ")[0] not in ARGUED]
