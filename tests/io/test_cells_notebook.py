"""In a notebook a recording has the cells, and the rules that were typed in them."""

from tests.notebook import notebook

GRAPH = """\
# what is computed
x = cx.tensor((2, 3), name="x")
y = (x * 2 + 0).retrieve()"""
RULE = """\
v = ll.variables("v")
twice = ll.Rule(
    "twice", v * 2, v + v,
)"""


def test_cells_and_rules_are_kept_as_they_were_typed(tmp_path):
    with notebook(tmp_path) as kernel:
        for code in ("import luminal_lab as ll\ncx = ll.Graph()", RULE, GRAPH):
            assert kernel.run(code).status == "ok"
        assert kernel.run("%time c = cx.compile('simplify', twice)").status == "ok"
        assert kernel.run("cx.save('run.lab'); run = ll.open('run.lab')").status == "ok"
        (cell,) = kernel.value("[[one.title, one.text] for one in run.facts.cells]")
        rule = kernel.value("[run.facts.rules['twice'].file, run.facts.rules['twice'].source]")
        lines = kernel.value("[list(n.meta.origin[:2]) for n in run.written if n.meta.origin]")
        assert kernel.value("'IPython' in run.facts.environment")
    title, text = cell
    assert text == GRAPH
    assert [*map(tuple, lines)] == [(title, 2), (title, 3), (title, 3), (title, 3), (title, 3)]
    assert rule == [
        f"cell {int(title.split()[1]) - 1}",
        'twice = ll.Rule(\n    "twice", v * 2, v + v,\n)',
    ]
