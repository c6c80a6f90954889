"""`%%lab` in a real kernel: the cell runs as it is, and what it made is shown below."""

from collections.abc import Iterator

import pytest

from luminal_lab.errors import ArgumentError
from luminal_lab.magic import options_of
from tests.expect import error_of
from tests.needs import need
from tests.notebook import Notebook, Ran, notebook

WRITE = """\
cx = ll.Graph("g")
x = cx.tensor((2,), name="x")
y = (x * 1).retrieve()
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with notebook(tmp_path_factory.mktemp("magic")) as one:
        ran = one.run("%load_ext luminal_lab\nimport luminal_lab as ll")
        assert ran.status == "ok", ran.error
        yield one


def shown(ran: Ran) -> list[str]:
    """Return the first line of each output's text."""
    return [(one.get("text/plain") or one["stream"]).partition("\n")[0] for one in ran.outputs]


def test_the_cell_runs_as_it_is_and_the_workbench_is_below(kernel: Notebook):
    ran = kernel.run(
        f"%%lab --static --as t\n{WRITE}print('there')\ncx.compile('simplify, dce')\n7"
    )
    assert ran.status == "ok", ran.error
    assert shown(ran) == [
        "there",
        "7",
        '<Workbench of g: 2 passes; a notebook shows it, .export("page.html") writes it as a page>',
    ]
    html = ran.outputs[-1]["text/html"]
    assert '<img src="data:image/svg+xml;base64,' in html
    assert "<script" not in html
    assert kernel.value("[len(t.graphs), len(t.compilations), t.graphs[0] is cx]") == [1, 1, True]


def test_lines_are_those_that_the_notebook_shows(kernel: Notebook):
    kernel.run(f"%%lab --static\n\n{WRITE}")
    origins = kernel.value("[n.meta.origin[:2] for n in cx.ir.nodes]")
    assert [line for _, line in origins] == [4, 5, 5]
    assert len({file for file, _ in origins}) == 1
    assert origins[0][0].startswith("cell ")
    title, text = kernel.value(
        "(lambda c: [c.title, c.text])(cx.workbench().subjects[0].facts.cells[0])"
    )
    assert title == origins[0][0]
    assert text.splitlines()[4] == "y = (x * 1).retrieve()"


def test_an_error_shows_as_usual_below_what_was_recorded_until_then(kernel: Notebook):
    ran = kernel.run(f"%%lab --static\n{WRITE}cx.compile('dce')\n1 / 0\ncx.compile('simplify')")
    assert ran.status == "error"
    assert [line for line in shown(ran) if "Workbench" in line] == [
        '<Workbench of g: 1 pass; a notebook shows it, .export("page.html") writes it as a page>'
    ]
    lines = ran.error.splitlines()
    assert lines[1].startswith("ZeroDivisionError")
    assert "line 6" in lines[2]  # of the cell, and no frame of ours
    assert "----> 6 1 / 0" in ran.error
    assert "luminal_lab" not in ran.error
    assert "run_cell_magic" not in ran.error
    plain = kernel.run(f"\n{WRITE}cx.compile('dce')\n1 / 0")
    assert plain.error.splitlines()[1] == lines[1]
    assert plain.error.splitlines()[-1] == lines[-1]


def test_an_error_of_ours_names_the_line(kernel: Notebook):
    ran = kernel.run(f"%%lab --static\n{WRITE}x.reshape(7)")
    assert ran.status == "error"
    assert ran.error.startswith("ShapeError: reshape: %x (2,) has 2 elements, and (7,) has 7\n")
    assert ", line 5:  x.reshape(7)\n" in ran.error
    assert len(ran.outputs) == 1


def test_a_compile_that_fails_shows_how_far_it_came(kernel: Notebook):
    ran = kernel.run(f"%%lab --static\n{WRITE}cx.compile('simplify', 'dce', 'nothing')")
    assert ran.status == "error"
    assert "there is no pass 'nothing'" in ran.error
    assert shown(ran)[0].startswith("<Workbench of g: not compiled yet")


def test_syntax_errors_name_the_line(kernel: Notebook):
    ran = kernel.run("%%lab\na = 1\na = = 2")
    assert ran.status == "error"
    assert ran.error.splitlines()[-1] == "SyntaxError: invalid syntax"
    assert "line 3" in ran.error
    assert ran.outputs == []


def test_magics_and_shell_syntax_work_inside(kernel: Notebook):
    ran = kernel.run(f"%%lab --static\n%time a = 3\n{WRITE}b = !echo there")
    assert ran.status == "ok", ran.error
    assert "Wall time" in ran.printed
    assert kernel.value("[a, b[0]]") == [3, "there"]


def test_a_cell_that_makes_nothing_says_so(kernel: Notebook):
    ran = kernel.run("%%lab\na = 4")
    assert ran.status == "ok"
    assert ran.printed == (
        "%%lab: the cell made no graph and no compile; put it on the one that does\n"
    )


def test_await_is_refused_with_a_hint(kernel: Notebook):
    ran = kernel.run("%%lab\nimport asyncio\nawait asyncio.sleep(0)")
    assert ran.status == "error"
    assert ran.error.startswith("LabError: %%lab: the cell waits for something with await\n  cell")
    assert ", line 3\nhint: record it in Python" in ran.error


def test_running_a_cell_again_supersedes_what_it_made(kernel: Notebook):
    kernel.run("again = ll.Graph('again')")
    cell = "%%lab --static\nx = again.tensor((2,), name='x')\ny = (x * 2).named('y').retrieve()"
    sizes = []
    for _ in range(3):
        assert kernel.run(cell, cell="one").status == "ok"
        sizes.append(kernel.value("len(again.ir)"))
    assert sizes == [3, 3, 3]


def test_what_a_cell_records_can_be_saved(kernel: Notebook):
    ran = kernel.run(f"%%lab --static --save 'my run.lab'\n{WRITE}cx.compile('dce')")
    assert ran.status == "ok", ran.error
    assert kernel.value("[one.title for one in ll.open('my run.lab').subjects]") == ["g"]


def test_the_widget_is_below_its_picture(kernel: Notebook):
    need("anywidget")
    ran = kernel.run(f"%%lab\n{WRITE}made = cx.compile('dce')")
    assert ran.status == "ok", ran.error
    assert ran.kinds() == [
        ["text/html", "text/plain"],
        ["application/vnd.jupyter.widget-view+json", "text/plain"],
    ]


def test_the_extension_can_be_loaded_again(kernel: Notebook):
    ran = kernel.run("%reload_ext luminal_lab\n%load_ext luminal_lab")
    assert ran.status == "ok", ran.error
    assert kernel.run(f"%%lab --static\n{WRITE}").status == "ok"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--what", "%%lab: it has no option '--what'"),
        ("--save", "%%lab: --save needs a name after it"),
        ("--as --static", "%%lab: --as needs a name after it"),
        ("--as class", "%%lab: 'class' cannot be the name of a variable"),
        ("x" * 10**5, f"%%lab: it has no option '{'x' * 60}…'"),
        ("--as 3", "%%lab: '3' cannot be the name of a variable"),
        ("--save 'run", '%%lab: "--save \'run" has no end: No closing quotation'),
    ],
)
def test_options_that_are_none(line: str, message: str):
    error = error_of(lambda: options_of(line), ArgumentError)
    assert error.message == message
    assert error.hint == "%%lab [--static] [--save run.lab] [--as name]"


def test_a_name_is_the_one_that_python_reads():
    assert options_of("--as \ufb01t").name == "fit"
