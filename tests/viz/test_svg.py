"""Pictures as SVG: the same bytes for the same graph, nothing that runs, colour never alone."""

import re
from typing import Any, cast
from xml.etree import ElementTree as ET

import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError
from luminal_lab.viz.graphs import graph_picture
from luminal_lab.viz.payload import Item
from luminal_lab.viz.shapes import WORDS, outline
from luminal_lab.viz.svg import tooltip
from luminal_lab.viz.theme import DARK, KINDS, LIGHT, STATUSES
from tests.expect import error_of
from tests.viz.graphs import gpt2, hostile, softmax

SOFTMAX = ll.parse(str(softmax().ir))
PAIR = softmax()
PAIR.compile("simplify, recognise, dce")
TAGS = {"svg", "title", "style", "g", "path", "text", "rect"}


@pytest.mark.parametrize(
    ("name", "graph", "how"),
    [
        ("softmax", SOFTMAX, {}),
        ("softmax_views_dark", SOFTMAX, {"show_views": True, "theme": "dark"}),
        ("softmax_small", SOFTMAX, {"show_shapes": False, "theme": "light", "highlight": "x"}),
        ("pair", ll.diff(SOFTMAX, ll.parse(str(PAIR.snapshots[-1].ir))), {"theme": "light"}),
    ],
)
def test_pictures_are_as_recorded(name, graph, how, golden):
    svg = graph_picture(graph, **how).svg
    golden(svg.replace("><", ">\n<") + "\n", f"golden/{name}.svg")


BOTH = """\
graph main(%x: f32[4]) -> (%z) {
  %both = call{body = both} %x : (f32[4], f32[4])
  %a = pick{index = 0} %both : f32[4]
  %b = pick{index = 1} %both : f32[4]
  %z = mul %a, %b : f32[4]
}

graph both(%a: f32[4]) -> (%b, %a) {
  %b = sin %a : f32[4]
}
"""


def test_labels_of_links_in_one_line_stand_beside_each_other():
    svg = graph_picture(ll.parse(BOTH)).svg
    found = re.findall(r'<text x="([^"]*)" y="([^"]*)"[^>]*class="v q h"[^>]*>([^<]*)<', svg)
    assert len({(x, y) for x, y, _ in found}) == len(found)
    assert [word for *_, label in found for word in label.split(", ")] == ["result 0", "result 1"]


def test_equal_graphs_have_equal_bytes():
    assert gpt2(2).display(depth=9).svg == gpt2(2).display(depth=9).svg
    assert graph_picture(SOFTMAX).svg == graph_picture(ll.parse(str(SOFTMAX))).svg


@pytest.mark.parametrize("how", [{}, {"show_views": True}, {"depth": 0}, {"overlay": {"x": 1.0}}])
def test_nothing_of_a_hostile_graph_is_read(how):
    picture = graph_picture(hostile(), **how)
    root = ET.fromstring(picture.svg)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= TAGS
    names = {name for element in root.iter() for name in element.attrib}
    assert not any(name.lower().startswith("on") or "href" in name for name in names)
    assert "<script" not in picture.html
    assert "\x07" not in picture.svg
    texts = "".join(root.itertext())
    assert "<script>alert(1)</script>" in texts  # it is shown


def test_there_is_no_script_style_sheet_or_font_from_elsewhere():
    svg = gpt2(2).display().svg
    assert not re.search(r"<script|@import|url\(|https?://(?!www\.w3\.org/2000/svg)", svg)


def test_a_theme_is_what_is_asked_for():
    auto, light, dark = (graph_picture(SOFTMAX, theme=t).svg for t in ("auto", "light", "dark"))
    assert "prefers-color-scheme:dark" in auto
    assert "prefers-color-scheme" not in light + dark
    assert LIGHT[0] in light
    assert LIGHT[0] not in dark
    assert DARK[0] in dark
    assert str(error_of(lambda: SOFTMAX.display(theme=cast(Any, "blue")), ArgumentError)) == (
        'display: the theme is \'blue\'\nhint: give "light", "dark" or "auto"'
    )


def test_the_style_has_the_rules_that_are_used_and_no_others():
    svg = graph_picture(SOFTMAX, theme="light").svg
    classes = {name for found in re.findall(r' class="([^"]*)"', svg) for name in found.split()}
    style = svg[svg.index("<style>") : svg.index("</style>")]
    named = {
        name for rule in re.findall(r"\.ll-light ([^{]*)\{", style) for name in rule.split(".")
    }
    assert named - {"", "text"} <= classes
    assert {"input", "reduce", "op", "b", "q"} <= named
    assert "launch" not in named


def test_every_kind_of_node_has_a_shape_of_its_own():
    shapes = {kind: outline(kind, 0, 0, 80, 40) for kind in KINDS if kind != "box"}
    same = {"constant": "outside", "op": "view"}  # the second of each is dashed
    for kind, other in same.items():
        assert shapes.pop(other) == shapes[kind]
    assert len(set(shapes.values())) == len(shapes)
    assert set(WORDS) == KINDS.keys() - {"box"}


def contrast(one, other):
    """Return the contrast of two colours, as WCAG defines it."""

    def light(colour):
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        r, g, b = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    a, b = sorted((light(one), light(other)))
    return (b + 0.05) / (a + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_text_and_outlines_can_be_told_from_their_ground(dark):
    ground, text, faint, edge, open_box, high, heat = DARK if dark else LIGHT
    fills = [of[2 * dark] for of in KINDS.values()] + [open_box, ground]
    fills += [of[2 * dark + 1] for of in STATUSES.values()]
    assert all(contrast(text, fill) >= 7 for fill in fills)
    assert all(contrast(faint, fill) >= 4.5 for fill in fills)
    assert all(contrast(of[2 * dark + 1], ground) >= 3 for of in KINDS.values())
    assert all(contrast(of[2 * dark], ground) >= 4.5 for of in STATUSES.values())
    assert min(contrast(edge, ground), contrast(edge, open_box), contrast(high, ground)) >= 3
    assert contrast(heat, ground) >= 1.5


def test_a_node_tells_all_that_is_known_of_it():
    item = Item(
        0,
        5,
        "y",
        "mul",
        "mul",
        "f32[2]",
        "op",
        ("retrieved",),
        None,
        "a.b",
        "cell 1, line 2",
        "fuse",
    )
    assert tooltip(item).splitlines() == [
        "%y = mul : f32[2]",
        "retrieved",
        "scope a.b",
        "cell 1, line 2",
        "made by fuse",
    ]


def test_the_words_say_what_is_shown_and_what_is_not():
    assert graph_picture(SOFTMAX).text == (
        "Graph softmax: 9 of 13 nodes (2 views in the edges, 2 scalars in the ops). Inputs: x. "
        "Results: %12. Shown: 3 mul, 1 add, 1 exp2, 1 input, 1 max_reduce, 1 recip, 1 sum_reduce."
    )
    svg = gpt2().display().svg
    assert "in repeated ones" in svg
    assert "×12" in svg


def test_a_retrieved_node_has_two_outlines_and_an_unused_one_a_sign():
    cx = ll.Graph()
    x = cx.tensor((2,), name="x")
    x.sin().retrieve()
    x.sqrt()
    svg = cx.display().svg
    nodes = re.findall(r"<g(?: class=\"f\")?><title>(%\d+) .*?</g>", svg, flags=re.DOTALL)
    assert nodes == ["%1", "%2"]
    sine, root = (svg.partition(f"<title>{name} ")[2].partition("</g>")[0] for name in nodes)
    assert (sine.count('class="s op"'), root.count('class="s op"')) == (2, 1)
    assert ("∅" in sine, "∅" in root) == (False, True)
