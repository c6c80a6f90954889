"""What depends on what is worked out once, and again when the graph has changed."""

import luminal_lab as ll
from luminal_lab.tensor.reach import Reach


def test_what_is_needed_stale_and_mentioned():
    cx = ll.Graph()
    x, z = cx.tensor(("n",), name="x"), cx.tensor(("m",), name="z")
    y = x * 2
    noise = cx.rand(("m",)) + z
    reach = Reach(cx.ir)
    assert reach.needed([y.id]) >= {x.id, y.id}
    assert z.id not in reach.needed([y.id])
    assert reach.needed([y.id]) is reach.needed([y.id])
    assert y.id in reach.stale([x.id, 10_000])
    assert noise.id not in reach.stale([x.id])
    assert [symbol.name for symbol, _ in reach.mentions(reach.needed([y.id]))] == ["n"]
    assert len(reach.random) == 1
    assert [node.id for node in reach.inputs] == [x.id, z.id]


def test_it_is_of_a_graph_until_that_changes():
    cx = ll.Graph()
    x = cx.tensor((2,))
    reach = Reach(cx.ir)
    x.retrieve()
    assert reach.is_of(cx.ir)
    (x * 2).retrieve()
    assert not reach.is_of(cx.ir)
