"""Kernels, schedules and timings as HTML: all that they say, nothing that runs."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError
from luminal_lab.kernels.kernel import Kernel, Phase
from luminal_lab.kernels.steps.schedule import parse_schedule
from luminal_lab.viz.pages import MOST, kernel_page, schedule_page, timings_page
from tests.expect import error_of
from tests.timing.test_timings import TIMINGS
from tests.viz.graphs import HOSTILE, softmax


class Read(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text = set(), ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def kernel():
    cx = softmax()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    return cx.kernels[0]


def test_a_kernel_shows_its_definition_its_schedule_and_its_source(kernel):
    read = Read(kernel.display().html)
    for text in (str(kernel.definition), str(kernel.schedule), str(kernel.nest), kernel.source):
        assert text.strip() in read.text
    bundle = kernel._repr_mimebundle_()
    assert bundle == {"text/html": kernel.display().html, "text/plain": kernel.source}


def test_a_line_of_source_tells_its_ops(kernel):
    ops = next(ops for ops in kernel.ops_of_line if ops)
    assert f'title="{", ".join(ops)}"' in kernel.display().html


def test_a_schedule_is_a_list_from_zero():
    schedule = parse_schedule("split i by 6\nparallel i.block")
    page = schedule_page(schedule)
    assert '<ol start="0"' in page.html
    assert "split i by 6" in Read(page.html).text
    assert schedule._repr_mimebundle_() == {"text/html": page.html, "text/plain": str(schedule)}


def test_timings_have_a_row_and_a_bar_each_and_say_how_they_were_got():
    measured = timings_page(TIMINGS).html
    assert measured.count("<tr>") == len(TIMINGS) + 1
    assert "medians of what was measured" in measured
    assert "background:#0072B2" in measured
    recorded = timings_page(TIMINGS.recorded()).html
    assert "° recorded, not measured here" in recorded
    assert "repeating-linear-gradient" in recorded
    assert "background:#0072B2" not in recorded
    rows = tuple(replace(row, how="modelled") for row in TIMINGS)
    modelled = timings_page(replace(TIMINGS, how="modelled", rows=rows)).html
    assert "~ modelled" in modelled
    assert "1px dashed" in modelled


def test_of_many_rows_the_slowest_are_shown():
    rows = tuple(replace(TIMINGS[0], samples=(k * 1e-3,)) for k in range(1, MOST + 6))
    page = timings_page(replace(TIMINGS, rows=rows))
    assert page.html.count("<tr>") == MOST + 1
    assert "5 faster ones are not shown" in page.html


def test_hostile_names_are_shown_and_not_read():
    row = replace(TIMINGS[0], name=HOSTILE, node=HOSTILE, origins=(HOSTILE,))
    made = Kernel(HOSTILE, None, HOSTILE, (Phase("f"),), ops_of_line=((HOSTILE,),))
    for page in (
        timings_page(replace(TIMINGS, graph=HOSTILE, device=HOSTILE, rows=(row,))),
        kernel_page(made),
    ):
        read = Read(page.html)
        assert "script" not in read.tags
        assert "<script>alert(1)</script>" in read.text


@pytest.mark.parametrize(("theme", "colour"), [("light", "#fff"), ("dark", "#0d1117")])
def test_a_theme_has_a_ground_of_its_own(theme, colour):
    assert f"background:{colour}" in timings_page(TIMINGS, theme=theme).html
    assert f"background:{colour}" not in timings_page(TIMINGS).html


def test_a_page_is_written_as_html_alone(tmp_path):
    page = TIMINGS.display()
    page.save(tmp_path / "times.html")
    assert page.html in (tmp_path / "times.html").read_text()
    assert str(error_of(lambda: page.save("times.svg"), ArgumentError)) == (
        "display: 'times.svg' is not an HTML file, and nothing else can be written\n"
        "hint: give a name that ends in .html"
    )
    assert repr(page).startswith("<Page: main: 4 launches, measured on ")
