"""The graph as a value: its table, its order, what is equal and what is not."""

import tracemalloc

import pytest
from hypothesis import given, settings, strategies as st

from luminal_lab.core.dims import Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Meta, Node, Table
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Call, Constant, Input, Sin
from luminal_lab.core.parse import parse
from luminal_lab.errors import GraphError
from tests.core.graphs import graphs

TYPE = TensorType(DType.float32, (2,))


def node(id: int, *sources: int, name: str | None = None) -> Node:
    op = Sin() if sources else Input(TYPE.dtype, TYPE.shape)
    return Node(id, op, sources, TYPE, (), Meta(name))


def chain(count: int) -> Table:
    """Return the table of an input and sines of sines of it."""
    table = Table()
    for id in range(count):
        table.set(id, node(id, id - 1) if id else node(0))
    return table


# -- the table -------------------------------------------------------------------------------------


def test_a_copy_shares_all_until_one_of_the_two_changes():
    table = chain(200)
    copy = table.copy()
    changed = node(150, 149, name="new")
    copy.set(150, changed)
    table.set(200, node(200, 199))
    assert copy.get(150) is changed
    assert table.get(150) is not changed
    assert (table.size, copy.size) == (201, 200)
    assert copy.get(200) is None
    assert [copy.get(id) is table.get(id) for id in range(200)].count(False) == 1


@given(st.lists(st.tuples(st.sampled_from("sstc"), st.integers(0, 300)), max_size=60))
def test_copies_of_tables_are_independent(steps: list[tuple[str, int]]):
    tables: list[tuple[Table, dict[int, Node]]] = [(Table(), {})]
    for what, id in steps:
        table, known = tables[id % len(tables)]
        if what == "s":
            known[id] = node(id)
            table.set(id, known[id])
        elif what == "t":
            size = min(id, table.size)
            table.truncate(size)
            for gone in [k for k in known if k >= size]:
                del known[gone]
        else:
            tables.append((table.copy(), dict(known)))
        assert [record for record in table.flat if record is not None] == list(table)
    for table, known in tables:
        assert table.flat == [table.get(id) for id in range(len(table.flat))]
        assert list(table) == [known[id] for id in sorted(known)]
        assert table.get(-1) is None
        assert table.get(1_000) is None


def test_the_state_of_a_table_is_never_met_again_after_a_change():
    table = chain(3)
    node = table.get(1)
    assert node is not None
    assert table.state is None  # its records are its own
    states = [table.copy() and table.state]
    assert table.state == states[0]
    changes = (
        lambda: table.set(1, None),
        lambda: table.set(1, node),
        lambda: table.append(node._replace(id=3)),
        lambda: table.truncate(3),
        lambda: table.truncate(0),
    )
    for change in changes:
        change()
        assert table.state not in states
        table.copy()
        assert table.state not in states
        states.append(table.state)
    assert None not in states


def test_a_snapshot_after_an_edit_is_small_and_the_parts_of_a_table_are_shared():
    table = chain(50_000)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    copy = table.copy()
    copy.set(25_000, node(25_000, 24_999, name="x"))
    size = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert size < 12_000
    assert sum(1 for _ in copy) == 50_000


# -- finding nodes ---------------------------------------------------------------------------------

TEXT = """graph g(%x: f32[2], %unused: f32[2]) -> (%y, %2) {
  %2 = sin %x : f32[2]
  %y = add %2, %x : f32[2]
  %dead = sqrt %y : f32[2]
}
"""


def test_nodes_are_found_by_id_name_and_older_record():
    ir = parse(TEXT)
    y = ir["y"]
    assert ir["%y"] is ir[y.id] is ir[y] is y
    assert ir[y._replace(meta=Meta("old"))] is y
    assert ir["2"] is ir[2]
    assert ("y" in ir, "%y" in ir, y in ir, y.id in ir) == (True,) * 4
    assert ("z" in ir, 99 in ir, -1 in ir) == (False,) * 3
    assert [str(n) for n in (*ir.sources("y"), *ir.users("x"), *ir.users("dead"))] == [
        *["%2", "%x"],
        *["%2", "%y"],
    ]
    assert (ir.is_output("y"), ir.is_output("dead")) == (True, False)
    assert [str(n) for n in ir.inputs + ir.outputs] == ["%x", "%unused", "%y", "%2"]
    assert {str(ir[id]) for id in ir.ancestors(["2"])} == {"%x", "%2"}
    assert {str(ir[id]) for id in ir.descendants(["2"])} == {"%2", "%y", "%dead"}
    assert (len(ir), list(ir) == list(ir.nodes), ir.next_id) == (5, True, 5)
    assert repr(ir) == "<IR g: 5 nodes>"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("deed", "g: there is no node %deed\nhint: did you mean '%dead'?"),
        ("%qqq", "g: there is no node %qqq"),
        (77, "g: there is no node with the id 77"),
        (node(78, name="n"), "g: there is no node with the id of %n, which is 78"),
    ],
)
def test_what_is_not_there_is_said(key: str | int | Node, message: str):
    with pytest.raises(GraphError) as caught:
        parse(TEXT)[key]
    assert str(caught.value) == message


def test_a_record_is_equal_to_itself_alone():
    one, two = node(1, 0), node(1, 0)
    assert one == one
    assert one != two
    assert len({one, two}) == 2
    assert (str(one), repr(node(1, 0, name="a.b")), one.types) == ("%1", "%a.b", (TYPE,))


# -- order -----------------------------------------------------------------------------------------


def test_sources_come_before_users_whatever_the_ids():
    table = Table()
    for record in (node(0, 3), node(1, 0), node(2), node(3, 2), node(4, 2)):
        table.set(record.id, record)
    assert [n.id for n in IR(table, [2], [1])] == [2, 3, 0, 1, 4]
    assert [n.id for n in IR(table, [2], [1], schedule=(4, 99, 1))] == [2, 4, 3, 0, 1]


def test_order_is_found_in_deep_graphs_and_in_cycles():
    count = 20_000
    table = Table()
    for id in range(count):
        table.set(id, node(id, (id + 1) % count, (id + 2) % count))
    assert len(IR(table, [], [0])) == count
    table.set(count - 1, node(count - 1))
    table.set(count - 2, node(count - 2, count - 1))
    assert [n.id for n in IR(table, [], [0])] == list(range(count - 1, -1, -1))


@given(graphs())
def test_the_order_of_random_graphs(ir: IR):
    seen: set[int] = set()
    for record in ir:
        assert seen.issuperset(record.sources)
        seen.add(record.id)
    assert seen == {n.id for n in ir.table}
    for record in ir:
        assert {u.id for u in ir.users(record)} == {n.id for n in ir if record.id in n.sources}


# -- equality --------------------------------------------------------------------------------------


def test_ids_inner_names_origins_and_the_graphs_name_do_not_count():
    same = """graph other(%x: f32[2], %unused: f32[2]) -> (%9, %s) {
      %s = sin %x : f32[2] @ scope "file":3 "text"
      %9 = add %s, %x : f32[2]
      %4 = sqrt %9 : f32[2]
    }"""
    assert parse(same) == parse(TEXT)
    assert hash(parse(same)) == hash(parse(TEXT))
    assert parse(TEXT) != "graph"


def test_unnamed_inputs_are_told_apart_by_their_order_alone():
    one = "graph g(%0: f32[2], %1: f32[2]) -> (%2) { %2 = add %0, %1 : f32[2] }"
    other = "graph g(%7: f32[2], %3: f32[2]) -> (%y) { %y = add %7, %3 : f32[2] }"
    assert parse(one) == parse(other)
    assert parse(one) != parse(other.replace("add %7, %3", "add %3, %7"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%x", "%z"),  # the name of an input
        ("%x: f32[2], %unused: f32[2]", "%unused: f32[2], %x: f32[2]"),
        ("(%y, %2)", "(%2, %y)"),
        ("(%y, %2)", "(%y)"),
        ("(%y, %2)", "(%y => %x, %2)"),
        ("add %2, %x", "add %x, %2"),
        ("add %2, %x", "add %2, %2"),
        ("add", "mul"),
        ("  %dead = sqrt %y : f32[2]\n", ""),
        ("%dead = sqrt %y", "%dead = sqrt %x"),
        ("  %dead", "  %dead2 = sqrt %y : f32[2]\n  %dead"),  # a duplicate
        (", %unused: f32[2]", ""),
    ],
)
def test_what_counts_in_equality(old: str, new: str):
    changed = TEXT.replace(old, new)
    assert changed != TEXT
    assert parse(changed) != parse(TEXT)
    assert parse(TEXT) != parse(changed)


def test_sharing_counts():
    shared = """graph g(%x: f32[2]) -> (%b) {
      %a = sin %x : f32[2]
      %c = sin %x : f32[2]
      %b = add %a, %a : f32[2]
    }"""
    assert parse(shared) != parse(shared.replace("add %a, %a", "add %a, %c"))
    assert parse(shared) == parse(shared.replace("add %a, %a", "add %c, %c"))


def test_sharing_counts_among_live_nodes():
    text = """graph g(%x: f32[2]) -> (%r) {
      %a = sin %x : f32[2]
      %b = sin %x : f32[2]
      %p = add %a, %b : f32[2]
      %q = add %a, %b : f32[2]
      %r = mul %p, %q : f32[2]
    }"""
    other = text.replace("%q = add %a, %b", "%q = add %b, %a")
    assert parse(text) != parse(other)
    both = other.replace("%p = add %a, %b", "%p = add %b, %a").replace("%q = add %b", "%q = add %b")
    assert parse(text) == parse(both)


def test_carries_count_but_not_their_order():
    text = """graph g(%a: f32[2], %b: f32[2]) -> (%p => %a, %q => %b) {
      %p = sin %b : f32[2]
      %q = sin %a : f32[2]
    }"""
    ir = parse(text)
    turned = IR(ir.table, ir.input_ids, ir.output_ids, carries=ir.carries[::-1])
    assert turned == ir
    assert parse(text.replace("=> %a", "=> %b", 1).replace("%q => %b", "%q => %a")) != ir
    assert parse(text.replace(" => %a", "")) != ir


def test_bodies_count():
    text = """graph g(%x: f32[2]) -> (%y) { %y = call{body = b} %x : f32[2] }
graph b(%z: f32[2]) -> (%y) { %y = sin %z : f32[2] }"""
    assert parse(text) == parse(text.replace("graph b", "graph c").replace("= b", "= c"))
    assert hash(parse(text)) == hash(parse(text))
    assert parse(text) != parse(text.replace("sin", "sqrt"))
    assert parse(text) != parse(text.replace("%z", "%w"))
    assert parse(text)["y"].op == parse(text)["y"].op
    assert isinstance(parse(text)["y"].op, Call)


def test_graphs_with_nan_are_equal_and_hash_alike():
    text = "graph g() -> (%1) { %1 = constant{value = nan} : f32[2] }"
    assert parse(text) == parse(text)
    assert len({parse(text), parse(text)}) == 1
    zero = parse(text.replace("nan", "0.0"))
    assert zero != parse(text.replace("nan", "-0.0"))
    assert zero != parse(text.replace("nan", "0"))


@settings(max_examples=15)
@given(graphs(max_nodes=2), graphs(max_nodes=2))
def test_equality_is_that_of_the_texts_with_ids_left_out(a: IR, b: IR):
    assert a == a
    if a == b:
        assert b == a
        assert hash(a) == hash(b)
        assert len(a) == len(b)


def test_symbols_are_those_of_shapes_fields_and_bodies():
    n, m = Symbol("n", 1, 8), Symbol("m")
    edit = Edit(IR(Table(), [], []))
    edit.insert(Constant(m * 2, DType.int64, (n,)))
    assert edit.ir().symbols == {"m": m, "n": n}
    outer = Edit(IR(Table(), [], []))
    constant = outer.insert(Constant(1, DType.int64, ()))
    body = IR(edit.ir().table, [], [0])
    outer.insert(Call(body))
    outer.erase(constant)
    assert dict(outer.ir().symbols) == {"m": m, "n": n}


def test_ids_of_erased_nodes_are_not_used_again():
    edit = Edit(parse(TEXT))
    edit.erase("dead")
    first = edit.insert(Sin(), "x")
    edit.erase(first)
    ir = edit.ir()
    assert (first.id, ir.next_id) == (5, 6)
    again = Edit(ir)
    assert again.insert(Sin(), "x").id == 6
