"""What there is to say of a compile as a whole, in a real browser: a row with links to lines."""

from pathlib import Path
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.core.origin import Origin
from luminal_lab.viz.live.alive import Live
from tests.browser.judge import judged
from tests.browser.pages import opened, softmax

ENDS = "it ends here, since dynamo does not trace print"
LINE = 'print("<b>half way</b>")'


@pytest.mark.parametrize("width", [420, 1344])
def test_a_part_of_a_function_says_why_it_ends(page: Any, tmp_path: Path, width: int):
    cx = softmax()
    cx.remarks = lambda: [
        ("part 1 of 2 of Net.forward, as dynamo has cut it", None),
        (ENDS, Origin("/home/me/net.py", 12, LINE)),
    ]
    cx.compile()
    page.set_viewport_size({"width": width, "height": 900})
    opened(page, cx.workbench(), tmp_path)
    row = page.locator(".ll-remarks")
    assert row.inner_text().splitlines() == [
        "part 1 of 2 of Net.forward, as dynamo has cut it",
        f"{ENDS}: net.py, line 12: {LINE}",
    ]
    assert not judged(page.locator(".ll-root"))
    row.get_by_role("button").click()
    assert LINE in page.locator(".ll-place").inner_text()
    # Without a script it is above the picture.
    static = Path(tmp_path / "page.html").read_text("utf-8")
    assert "it ends here, since dynamo does not trace print\n" in static


def test_a_recording_says_where_its_compile_stopped(page: Any, tmp_path: Path):
    cx = softmax()
    cx.compile(until="rule exp")
    cx.save(tmp_path / "run.lab")
    run = ll.open(tmp_path / "run.lab")
    live = run.workbench()
    assert isinstance(live, Live)
    opened(page, live, tmp_path)
    stop = run.compilation.stop
    assert stop is not None
    assert page.locator(".ll-remarks").inner_text() == stop.reason
