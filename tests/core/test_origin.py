"""Where nodes come from: lines of files and cells, and cells that run again."""

import json
import subprocess
import sys
import textwrap
import time
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from luminal_lab.core import origin
from luminal_lab.core.origin import Origin, here
from luminal_lab.session import Graph
from tests.needs import need

ROOT = Path(__file__).resolve().parents[2]


def origin_of(tensor) -> Any:
    return tensor.node.meta.origin


def line_of(tensor):
    return origin_of(tensor).text


# -- files -----------------------------------------------------------------------------------------


def test_the_line_of_a_file():
    x = Graph().tensor((2,))  # here it is
    found = origin_of(x)
    assert found == Origin(__file__, found.line, "x = Graph().tensor((2,))  # here it is")
    assert str(found) == f'"{__file__}", line {found.line}:  x = Graph().tensor((2,))  # here it is'
    assert Path(__file__).read_text().splitlines()[found.line - 1].strip() == found.text


def helper(x):
    return x.sin()  # in the helper


def test_lambdas_comprehensions_and_functions_called_from_elsewhere():
    cx = Graph()
    x = cx.tensor((2,))
    double = lambda t: t * 2  # noqa: E731  # in the lambda
    assert line_of(double(x)).endswith("# in the lambda")
    assert line_of(helper(x)).endswith("# in the helper")
    many = [x + number for number in range(2)]  # in the comprehension
    assert {line_of(t) for t in many} == {line_of(many[0])}
    assert line_of(many[0]).endswith("# in the comprehension")
    total = reduce(lambda a, b: a + b, many)  # in the reduction
    assert line_of(total).endswith("# in the reduction")
    (mapped,) = map(helper, [x])
    assert line_of(mapped).endswith("# in the helper")


def test_expressions_of_several_lines():
    cx = Graph()
    x = cx.tensor((2, 2))
    _ = (
        x.sin()
        + x.exp2()
        * x.recip()
    )  # fmt: skip
    by_op = {node.op.name: line_of(cx[node.name]) for node in cx.ir}
    assert by_op["sin"] == "x.sin()"
    assert by_op["exp2"] == "+ x.exp2()"
    assert by_op["recip"] == "* x.recip()"
    z = x.matmul(
        x,
    )
    assert line_of(z) == "z = x.matmul("


def test_all_nodes_of_one_call_have_its_line_and_scope():
    cx = Graph()
    x = cx.tensor((2, 3))
    first = cx.next_id
    with cx.scope("head"):
        x.softmax(-1)  # one line
    metas = {node.meta for node in cx.ir if node.id >= first}
    assert len(metas) == 1
    (meta,) = metas
    assert meta.origin is not None
    assert meta.origin.text == "x.softmax(-1)  # one line"
    assert meta.scope == "head"


def test_code_without_a_file():
    names = {"Graph": Graph}
    exec(compile("x = Graph().tensor((2,))", "<typed>", "exec"), names)
    assert str(names["x"].node.meta.origin) == '"<typed>", line 1'
    assert eval("Graph().tensor((2,))", names).node.meta.origin.file == "<string>"


def test_origins_of_this_package_are_not_the_users():
    assert here() is not None
    assert origin.is_ours(origin.__file__)
    assert not origin.is_ours(__file__)
    assert not origin.is_ours(str(Path(origin.__file__).parents[2] / "luminal_lab_notes.py"))


def test_callers_that_are_known_are_skipped():
    def ask(skip):
        return here(skip)  # asked

    found = [ask(0), ask(1)]  # asking
    texts = [origin and origin.text for origin in found]
    assert texts == ["return here(skip)  # asked", "found = [ask(0), ask(1)]  # asking"]
    assert here(10**6) is None


def test_many_lines_are_forgotten_again(monkeypatch):
    monkeypatch.setattr(origin, "_LIMIT", 10)
    for number in range(30):
        exec(
            compile(f"x = Graph().tensor((2,), name='x{number}')", "<typed>", "exec"),
            {"Graph": Graph},
        )
    assert len(origin._KNOWN) <= 11


def test_asking_costs_little_however_deep_the_stack():
    def deep(depth, call):
        return call() if depth == 0 else deep(depth - 1, call)

    def ask():
        start = time.process_time()
        for _ in range(2000):
            here()
        return time.process_time() - start

    shallow = min(ask() for _ in range(5))
    deepest = min(deep(500, ask) for _ in range(5))
    assert deepest < 20e-6 * 2000
    assert deepest < 10 * shallow


# -- notebooks -------------------------------------------------------------------------------------

SHELL = """
import json, sys
from traitlets.config import Config
from IPython.core.interactiveshell import InteractiveShell
config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config)
shell.showtraceback = lambda *args, **kwargs: None

def run(code, cell=None):
    result = shell.run_cell(code, store_history=True, cell_id=cell)
    error = result.error_before_exec or result.error_in_exec
    return None if error is None else str(error)

def value(expression):
    return eval(expression, shell.user_ns)

report = {}
"""


def in_shell(script):
    """Run a script that has `run`, `value` and `report` of an IPython shell; return its report."""
    need("IPython")
    program = SHELL + textwrap.dedent(script) + "\nprint(json.dumps(report))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout.splitlines()[-1])


SETUP = """
run("from luminal_lab.session import Graph\\nimport numpy as np\\ncx = Graph()")
"""


def test_cells_are_named_and_errors_show_their_line():
    report = in_shell(
        SETUP
        + r"""
run("def double(t):\n    return t * 2\n")
run("x = cx.tensor((2,), name='x').set([1, 2])\ny = double(x)\n\nz = y.sin()")
report["origins"] = [str(node.meta.origin) for node in value("cx.ir")]
report["error"] = run("# a comment\nx.reshape(5)")
report["again"] = run("# a comment\nx.reshape(5)")
report["run"] = run("w = cx.function(lambda: 1 // 0, shape=2).retrieve()\n"
    "try:\n    cx.execute()\nexcept ZeroDivisionError as e:\n    note = e.__notes__[0]")
report["note"] = value("note")
run("for k in range(2):\n    x = x + k")
report["loop"] = [str(node.meta.origin) for node in value("cx.ir")][-2:]
"""
    )
    assert report["origins"] == [
        "cell 3, line 1:  x = cx.tensor((2,), name='x').set([1, 2])",
        "cell 2, line 2:  return t * 2",
        "cell 2, line 2:  return t * 2",
        "cell 3, line 4:  z = y.sin()",
    ]
    assert report["error"].splitlines()[1] == "  cell 4, line 2:  x.reshape(5)"
    assert report["again"].splitlines()[1] == "  cell 5, line 2:  x.reshape(5)"
    assert report["note"].splitlines()[2] == (
        "  cell 6, line 1:  w = cx.function(lambda: 1 // 0, shape=2).retrieve()"
    )
    assert report["loop"] == ["cell 7, line 2:  x = x + k"] * 2


@pytest.mark.parametrize("ids", [True, False], ids=["cell-ids", "by-text"])
def test_a_cell_run_again_supersedes_what_it_made(ids):
    report = in_shell(
        f"ids = {ids}"
        + SETUP
        + r"""
cell = "x = cx.tensor((3,), name='x').set([1, 2, 3])\ny = (x * 2).named('y').retrieve()"
cell += "\ncx.execute()\ns = y.tolist()"
sizes, values = [], []
for _ in range(20):
    assert run(cell, "A" if ids else None) is None
    sizes.append(len(value("cx.ir")))
    values.append(value("s"))
report["sizes"], report["values"] = sorted(set(sizes)), values[::19]
report["text"] = value("str(cx)")
report["data"] = len(value("cx._data"))
"""
    )
    assert report["sizes"] == [3]
    assert report["values"] == [[2, 4, 6], [2, 4, 6]]
    assert "graph main(%x: f32[3]) -> (%y) {" in report["text"]
    assert report["data"] <= 2  # what was superseded last could still come back


def test_cells_that_use_each_other_do_not_grow_the_graph():
    report = in_shell(
        SETUP
        + r"""
a = "x = cx.tensor((3,), name='x').set([1, 2, 3])\nw = (x + 1).named('w')"
b = "y = (w * 2).named('y').retrieve()\ny.print()\ncx.carry((x * 2).named('twice'), x)"
c = "cx.execute()\ns = y.tolist()"
sizes, names, values = [], [], []
import io, contextlib
for _ in range(20):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for code, cell in ((a, "A"), (b, "B"), (c, "C")):
            assert run(code, cell) is None, (code, cell)
    sizes.append(len(value("cx.ir")))
    names.append(value("[t.name for t in (x, w, y)]"))
    values.append((value("s"), out.getvalue().count("%y: ")))
report.update(sizes=sizes, names=names, values=values[::19], stale=len(value("cx").stale))
for _ in range(20):
    with contextlib.redirect_stdout(io.StringIO()):
        assert run(b, "B") is None
report["again"] = len(value("cx.ir"))
report["probes"] = sum(map(len, value("cx._probes").values()))
report["text"] = value("str(cx)")
"""
    )
    assert len(set(report["sizes"])) == 1
    assert report["names"] == [["x", "w", "y"]] * 20
    assert report["values"] == [[[4, 6, 8], 1]] * 2
    assert report["stale"] == 0
    assert report["again"] == report["sizes"][0]
    assert report["probes"] == 1
    assert "%y, %twice => %x" in report["text"]


def test_a_cell_that_is_edited_and_nodes_that_other_cells_use():
    report = in_shell(
        SETUP
        + r"""
run("x = cx.tensor((3,), name='x').set([1, 2, 3])\nunused = (x * 7).named('unused')", "A")
run("y = (x * 2).named('y').retrieve()", "B")
old_x = value("x")
run("x = cx.tensor((3,), name='x').set([10, 20, 30])\nextra = x.sin()", "A")
report["text"] = value("str(cx)")
run("cx.execute()\ns = y.tolist()", "C")
report["old"] = value("s")
run("y = (x * 3).named('y').retrieve()\ncx.execute()\ns = y.tolist()", "B")
report["new"] = value("s")
report["names"] = [node.name for node in value("cx.ir")]
"""
    )
    lines = report["text"].splitlines()
    assert lines[0] == "graph main(%x_2: f32[3], %x: f32[3]) -> (%y) {"
    assert "unused" not in report["text"]
    assert any("= sin %x :" in line for line in lines)
    assert report["old"] == [2, 4, 6]
    assert report["new"] == [30, 60, 90]
    assert [name for name in report["names"] if not name.isdigit()] == ["x", "y"]


def test_handles_of_what_was_superseded_still_work():
    report = in_shell(
        SETUP
        + r"""
cell = "x = cx.tensor((3,), name='x').set([1, 2, 3])\ny = (x * 2).named('y')\nh = y.sin()"
run(cell, "A")
run("first = y\nhidden = h", "B")
run(cell, "A")
report["shown"] = str(value("first"))
report["size"] = len(value("cx.ir"))
assert run("r = (first + 1).retrieve()\ncx.execute()\ns = r.tolist()", "C") is None
report["revived"] = value("s")
report["text"] = value("str(cx)")
assert run("first.retrieve()\ncx.execute()\ns = first.tolist()", "D") is None
report["retrieved"] = value("s")
report["error"] = run("first + np.ones(7)", "E")
report["lowering"] = value("hidden.lowering()")
run(cell, "A")
run("first = y\nfirst.print()", "B")
run(cell, "A")
run("first.named('other')\nname = first.name", "H")
report["named"] = value("name")
report["error_hidden"] = run("hidden + np.ones(7)", "F")
report["after"] = value("str(cx)")
run("y = y * 2", "G")
run("y = y * 2\nt = y.retrieve()\ncx.execute()\ns = y.tolist()", "G")
report["twice"] = value("s")
"""
    )
    assert report["shown"].startswith("%y: f32[3], not computed yet: it was not retrieved")
    assert report["size"] == 4
    assert report["revived"] == [3, 5, 7]
    assert "graph main(%x: f32[3], %x_2: f32[3]) -> (%" in report["text"]
    assert report["retrieved"] == [2, 4, 6]
    for error in (report["error"], report["error_hidden"]):
        assert "the shapes cannot be broadcast together" in error
    assert report["lowering"].count(" = sin ") == 1
    assert report["named"] == "other"
    assert report["twice"] == [8, 16, 24]


def test_graphs_that_are_gone_are_not_told_of_cells():
    report = in_shell(
        SETUP
        + r"""
import gc
for _ in range(20):
    run("cx = Graph()\nx = cx.tensor((2,)).set([1, 2])\ny = (x * 2).retrieve()\ncx.execute()", "A")
gc.collect()
run("pass", "B")
report["hooks"] = len(shell.events.callbacks["pre_run_cell"])
report["value"] = value("y.tolist()")
"""
    )
    assert report["hooks"] <= 3
    assert report["value"] == [2, 4]


def test_a_dim_that_is_declared_otherwise_when_its_cell_runs_again():
    report = in_shell(
        SETUP
        + r"""
run("n = cx.dim('n', 1, 64)\nx = cx.tensor((n,), name='x')", "A")
report["error"] = run("n = cx.dim('n', 1, 128)\nx = cx.tensor((n,), name='x')", "A")
report["text"] = value("str(cx)")
"""
    )
    assert report["error"] is None
    assert report["text"].startswith("graph main[n: 1..128](%x: f32[n])")


def test_a_real_kernel():
    manager = need("jupyter_client.manager")
    need("ipykernel")
    kernel = manager.KernelManager(kernel_name="python3")
    kernel.kernel_spec.argv[0] = sys.executable
    kernel.start_kernel(cwd=str(ROOT))
    client = kernel.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)

        def run(code, cell):
            content = {"code": code, "silent": False, "store_history": True}
            message = client.session.msg("execute_request", content, metadata={"cellId": cell})
            client.shell_channel.send(message)
            texts = []
            while True:
                got = client.get_iopub_msg(timeout=30)
                if got["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                    continue
                if got["msg_type"] == "status" and got["content"]["execution_state"] == "idle":
                    return texts
                texts.append(got["content"].get("text") or got["content"].get("evalue"))

        run("from luminal_lab.session import Graph\ncx = Graph()", "a")
        for _ in range(3):
            run("x = cx.tensor((2,), name='x').set([1, 2])\ny = (x * 2).named('y').retrieve()", "b")
        assert run("cx.execute()\nprint(y.tolist(), len(cx.ir), x.name)", "c")[-1] == (
            "[2.0, 4.0] 3 x\n"
        )
        error = run("# a comment\nx.reshape(5)", "d")[-1]
        assert error.splitlines()[1] == "  cell 6, line 2:  x.reshape(5)"
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
