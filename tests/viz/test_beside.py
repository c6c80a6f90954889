"""Two sources side by side: what is the same is told apart from what is not."""

import re
from html import unescape

import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError
from tests.expect import error_of


def made(compiler):
    """Return a kernel of softmax."""
    cx = ll.Graph()
    cx.tensor((64, 256), name="x").softmax(-1).retrieve()
    cx.compile(ll.GenericCompiler(), compiler)
    return cx.kernels[0]


@pytest.fixture(scope="module")
def pair():
    return made(ll.CUDACompiler(arch="sm_90")), made(ll.MetalCompiler())


def test_every_line_of_both_is_there_in_order(pair):
    page = pair[0].beside(pair[1])
    cells = re.findall(r"<span style=[^>]*>(.*?)</span>", page.html)[1:]
    for side, kernel in enumerate(pair):
        shown = [cell for cell in cells[side::2] if cell]
        lines = [line.strip() for line in kernel.source.splitlines() if line[:2] != "//"]
        assert [unescape(cell) for cell in shown] == [line for line in lines if line]


def test_what_only_one_has_is_marked(pair):
    cuda, metal = pair
    page = cuda.beside(metal)
    own = next(line for line in page.text.splitlines() if "__global__" in line)
    assert own[0] == "!"
    both = next(line for line in page.text.splitlines() if "lab_block_max_f32(" in line)
    assert both[0] == " "


def test_a_kernel_beside_itself_is_all_the_same(pair):
    page = pair[0].beside(pair[0])
    assert "\n!" not in page.text
    assert "rgba(230,159,0" not in page.html
    many = re.search(r"(\d+) of (\d+) and (\d+)", page.text)
    assert many is not None
    assert len(set(many.groups())) == 1


def test_lines_keep_their_indents_where_nobody_trusts_the_notebook(pair):
    # JupyterLab's sanitizer keeps these units alone.
    html = pair[0].beside(pair[1]).html
    lengths = re.findall(r"(?:margin|padding)-left:[\d.]+([a-z]+)", html)
    assert set(lengths) == {"em"}
    assert "margin-left:2.4em" in html


def test_something_else_is_refused(pair):
    error = error_of(lambda: pair[0].beside("metal"), ArgumentError)
    assert str(error) == (
        "beside: 'metal' is not a kernel, and softmax needs one beside it\n"
        "hint: give a kernel, as in cuda.beside(metal)"
    )
