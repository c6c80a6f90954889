"""The verifier accepts what the API builds, and names the fault in what breaks a law."""

from collections.abc import Callable

import pytest

from luminal_lab.core import ops
from luminal_lab.core.dims import Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ir import IR, Derivation, Meta, Node, Table
from luminal_lab.core.op import Op, TensorType
from luminal_lab.core.ops import Add, Call, Input, Pick, Sin, SumReduce
from luminal_lab.core.origin import Origin
from luminal_lab.core.parse import parse
from luminal_lab.core.verify import verify
from luminal_lab.errors import VerifyError
from luminal_lab.session import Graph

TYPE = TensorType(DType.float32, (2,))
WIDE = TensorType(DType.float32, (3,))
LINE = Origin("cell 3", 7, "y = x.sin()")


def record(
    id: int,
    op: Op,
    *sources: int,
    type: TensorType = TYPE,
    extra: tuple[TensorType, ...] = (),
    meta: Meta = Meta(None, LINE),  # noqa: B008
) -> Node:
    return Node(id, op, sources, type, extra, meta)


X = record(0, Input(TYPE.dtype, TYPE.shape), meta=Meta("x", LINE))
Y = record(1, Sin(), 0, meta=Meta("y", LINE, "block", Derivation("to-sin", (4,))))
BODY = parse("graph body(%a: f32[2]) -> (%b, %a) { %b = sin %a : f32[2] }")
BROKEN_BODY = IR(BODY.table, [0], [1, 5], name="body")
CONFLICT = IR(
    parse("graph b() -> (%c) { %c = constant{value = n} : i64[] }").table, [], [0], name="b"
)


def graph(
    *nodes: Node,
    inputs: tuple[int, ...] = (0,),
    outputs: tuple[int, ...] = (1,),
    carries: tuple[tuple[int, int], ...] = (),
    at: dict[int, Node] | None = None,
) -> IR:
    """Return a graph of records that nothing has checked."""
    table = Table()
    for node in nodes:
        table.set(node.id, node)
    for place, node in (at or {}).items():
        table.set(place, node)
    return IR(table, inputs, outputs, name="g", carries=carries)


BROKEN: dict[str, tuple[IR, str]] = {
    "missing source": (
        graph(X, record(1, Add(), 0, 7)),
        """verify: g, %1: its source 7 is not in the graph
  %1 = add %x, %7? : f32[2]
  cell 3, line 7:  y = x.sin()""",
    ),
    "cycle": (
        graph(X, record(1, Add(), 0, 2), record(2, Sin(), 1)),
        """verify: g, %2: it depends on itself by way of %1
  %2 = sin %1 : f32[2]
  cell 3, line 7:  y = x.sin()""",
    ),
    "its own source": (
        graph(X, record(1, Sin(), 1)),
        """verify: g, %1: it depends on itself by way of %1
  %1 = sin %1 : f32[2]
  cell 3, line 7:  y = x.sin()""",
    ),
    "wrong type": (
        graph(X, Y._replace(type=WIDE)),
        """verify: g, %y: its type is f32[3], but its op makes f32[2]
  %y = sin %x : f32[3]
  cell 3, line 7:  y = x.sin()
  made by the rule 'to-sin'""",
    ),
    "dtypes that differ": (
        graph(
            X,
            record(2, ops.Cast(DType.int8), 0, type=TYPE.with_dtype(DType.int8)),
            record(1, Add(), 0, 2),
        ),
        """verify: g, %1: add: the dtypes differ: float32 and int8
  %1 = add %x, %2 : f32[2]
  cell 3, line 7:  y = x.sin()
hint: convert one of them with cast""",
    ),
    "a field that does not fit": (
        graph(X, record(1, SumReduce(1), 0)),
        """verify: g, %1: sum_reduce: there is no axis 1 in the shape (2,)
  %1 = sum_reduce{axis = 1} %x : f32[2]
  cell 3, line 7:  y = x.sin()
hint: axes count from 0 to 0""",
    ),
    "wrong number of sources": (
        graph(X, record(1, Sin(), 0, 0)),
        """verify: g, %1: sin: it takes the sources x; 2 were given
  %1 = sin %x, %x : f32[2]
  cell 3, line 7:  y = x.sin()""",
    ),
    "wrong id": (
        graph(X, Y, at={2: record(5, Sin(), 0)}),
        """verify: g, %5: its id is 5, which is not its place
  %5 = sin %x : f32[2]
  cell 3, line 7:  y = x.sin()""",
    ),
    "two of one name": (
        graph(X, Y, record(2, Sin(), 0, meta=Meta("y"))),
        """verify: g, %y: %y is the name of another node too
  %y = sin %x : f32[2]""",
    ),
    "name that is another's number": (
        graph(X, Y, record(2, Sin(), 0, meta=Meta("3")), record(3, Sin(), 0)),
        """verify: g, %3: '3' cannot be a name
  %3 = sin %x : f32[2]""",
    ),
    "name that text cannot write": (
        graph(X, Y._replace(meta=Meta("a b"))),
        """verify: g, %a b: 'a b' cannot be a name
  %a b = sin %x : f32[2]""",
    ),
    "input not listed": (
        graph(X, Y, inputs=()),
        """verify: g, %x: it is an input that the signature does not list
  %x = input : f32[2]
  cell 3, line 7:  y = x.sin()""",
    ),
    "listed but no input": (
        graph(X, Y, inputs=(0, 1)),
        """verify: g, %y: the signature lists it, but it is not an input
  %y: f32[2]
  cell 3, line 7:  y = x.sin()
  made by the rule 'to-sin'""",
    ),
    "listed twice": (
        graph(X, Y, inputs=(0, 0)),
        """verify: g, %x: the signature lists it twice
  %x: f32[2]
  cell 3, line 7:  y = x.sin()""",
    ),
    "listed but gone": (
        graph(X, Y, inputs=(0, 9)),
        "verify: g: the signature lists the input 9, which is not in the graph",
    ),
    "output gone": (graph(X, Y, outputs=(1, 9)), "verify: g: the output 9 is not in the graph"),
    "several results read without a pick": (
        graph(X, record(2, Call(BODY), 0, extra=(TYPE,)), record(1, Sin(), 2)),
        """verify: g, %1: %2 has 2 results, and only a pick can read them
  %1 = sin %2 : f32[2]
  cell 3, line 7:  y = x.sin()
hint: read one result with pick{index = 0}""",
    ),
    "several results as an output": (
        graph(X, record(1, Call(BODY), 0, extra=(TYPE,))),
        """verify: g, %1: it has several results and cannot be an output without a pick
  %1 = call{body = body} %x : (f32[2], f32[2])
  cell 3, line 7:  y = x.sin()""",
    ),
    "pick of one result": (
        graph(X, record(1, Pick(0), 0)),
        """verify: g, %1: pick: it takes a node with several results, not %x, which has one
  %1 = pick{index = 0} %x : f32[2]
  cell 3, line 7:  y = x.sin()""",
    ),
    "pick of a result that is not there": (
        graph(X, record(2, Call(BODY), 0, extra=(TYPE,)), record(1, Pick(2), 2)),
        """verify: g, %1: pick: there is no result 2: %2 has 2
  %1 = pick{index = 2} %2 : f32[2]
  cell 3, line 7:  y = x.sin()""",
    ),
    "results left out": (
        graph(X, record(1, Call(BODY), 0)),
        """verify: g, %1: its type is f32[2], but its op makes f32[2], f32[2]
  %1 = call{body = body} %x : f32[2]
  cell 3, line 7:  y = x.sin()""",
    ),
    "call with too few sources": (
        graph(X, record(1, Call(BODY), extra=(TYPE,))),
        """verify: g, %1: call: the inputs of body are %a, but the number of sources is 0
  %1 = call{body = body} : (f32[2], f32[2])
  cell 3, line 7:  y = x.sin()""",
    ),
    "call with a source of another type": (
        graph(
            X, record(2, ops.Pad((0,), (1,)), 0, type=WIDE), record(1, Call(BODY), 2, extra=(TYPE,))
        ),
        """verify: g, %1: call: input %a of body is f32[2], but its source is f32[3]
  %1 = call{body = body} %2 : (f32[2], f32[2])
  cell 3, line 7:  y = x.sin()""",
    ),
    "broken body": (
        graph(
            X, record(1, Call(IR(graph(X, Y._replace(type=WIDE)).table, [0], [0], name="body")), 0)
        ),
        """verify: body, %y: its type is f32[3], but its op makes f32[2]
  %y = sin %x : f32[3]
  cell 3, line 7:  y = x.sin()
  made by the rule 'to-sin'""",
    ),
    "body without outputs": (
        graph(X, record(1, Call(IR(graph(X).table, [0], [], name="body")), 0)),
        """verify: g, %1: call: body has no outputs
  %1 = call{body = body} %x : f32[2]
  cell 3, line 7:  y = x.sin()""",
    ),
    "body whose output is gone": (
        graph(X, record(1, Call(BROKEN_BODY), 0, extra=(TYPE,))),
        """verify: g, %1: body: there is no node with the id 5
  %1 = call{body = body} %x : (f32[2], f32[2])
  cell 3, line 7:  y = x.sin()""",
    ),
    "carried to what is no input": (
        graph(X, Y, carries=((1, 1),)),
        """verify: g, %y: %y is carried to %y, but they are not an output and an input
  %y = sin %x : f32[2]
  cell 3, line 7:  y = x.sin()
  made by the rule 'to-sin'""",
    ),
    "carried to what is gone": (
        graph(X, Y, carries=((1, 8),)),
        """verify: g, %y: %y is carried to 8, but they are not an output and an input
  %y = sin %x : f32[2]
  cell 3, line 7:  y = x.sin()
  made by the rule 'to-sin'""",
    ),
    "carried with another type": (
        graph(
            X,
            record(1, ops.Cast(DType.int8), 0, type=TYPE.with_dtype(DType.int8)),
            carries=((1, 0),),
        ),
        """verify: g, %1: it is carried to %x, whose type is f32[2], not i8[2]
  %1 = cast{dtype = i8} %x : i8[2]
  cell 3, line 7:  y = x.sin()""",
    ),
    "carried to one input twice": (
        graph(X, Y, outputs=(1, 0), carries=((1, 0), (0, 0))),
        """verify: g, %x: two outputs are carried to it
  %x: f32[2]
  cell 3, line 7:  y = x.sin()""",
    ),
    "carried more often than listed": (
        graph(X, Y, record(2, X.op, meta=Meta("z")), inputs=(0, 2), carries=((1, 0), (1, 2))),
        """verify: g, %y: it is carried more often than it is an output
  %y = sin %x : f32[2]
  cell 3, line 7:  y = x.sin()
  made by the rule 'to-sin'""",
    ),
    "dim with two bounds": (
        graph(
            X,
            Y,
            record(2, op := ops.Constant(1, DType.int8, (Symbol("n"),)), type=op.infer()),
            record(3, op := ops.Constant(1, DType.int8, (Symbol("n", 2),)), type=op.infer()),
        ),
        """verify: g, %3: it mentions the dim n: 2.., but elsewhere n: 1..
  %3 = constant{value = 1} : i8[n]
  cell 3, line 7:  y = x.sin()""",
    ),
    "dim with other bounds in a body": (
        graph(
            record(
                0,
                Input(DType.int8, (Symbol("n", 2),)),
                type=TensorType(DType.int8, (Symbol("n", 2),)),
            ),
            record(1, Call(CONFLICT), type=TensorType(DType.int64, ())),
        ),
        """verify: g, %1: it mentions the dim n: 1.., but elsewhere n: 2..
  %1 = call{body = b} : i64[]
  cell 3, line 7:  y = x.sin()""",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_the_fault_is_named(what: str):
    ir, message = BROKEN[what]
    with pytest.raises(VerifyError) as caught:
        verify(ir)
    assert str(caught.value) == message


@pytest.mark.parametrize("what", BROKEN)
def test_the_fault_is_named_where_another_graph_is_known_to_be_right(what: str):
    ir, message = BROKEN[what]
    known = graph(X, Y)
    verify(known)
    with pytest.raises(VerifyError) as caught:
        verify(ir, known)
    assert str(caught.value) == message


def test_a_change_is_verified_with_all_that_it_touches():
    kept = record(2, Sin(), 1, meta=Meta("z"))
    known = graph(X, Y, kept)
    verify(known)
    of_three = record(1, Input(TYPE.dtype, WIDE.shape), type=WIDE)
    named = record(3, Sin(), 0, meta=Meta("z"))
    wrong = graph(X, record(1, Sin(), 0, type=WIDE))
    for changed, message in (
        (graph(X, kept, outputs=()), "%z: its source 1 is not in the graph"),
        (graph(X, of_three, kept, inputs=(0, 1)), "g, %z: its type is f32"),
        (graph(X, Y, kept, named), "%z is the name of another node too"),
        (graph(X, record(1, Sin(), 2), kept), "it depends on itself"),
        (graph(X, Y, kept, record(3, Call(wrong), 0, type=WIDE)), "its op makes f32"),
    ):
        with pytest.raises(VerifyError, match=message):
            verify(changed, known)
    moved = record(1, Sin(), 0, meta=Meta("renamed"))
    verify(graph(X, moved, kept, record(3, Sin(), 2, meta=Meta("y"))), known)


def test_what_is_left_is_lawful():
    verify(graph(X, Y))
    verify(graph(X, Y, carries=((1, 0),)))
    verify(graph(X, Y, record(2, Sin(), 1), outputs=(1, 1, 2)))  # dead nodes, an output twice


def in_a_model(cx: Graph) -> None:
    with cx.scope("block0"):
        x = cx.tensor(("batch", 8), name="x")
        w = cx.tensor((8, 8), name="w")
        h = (x.matmul(w).softmax(-1) @ w).relu().layer_norm(-1)
        (h.sum(0) / 3).retrieve()


def with_state(cx: Graph) -> None:
    cache = cx.tensor((16, 4), name="cache")
    cx.carry(cache * 2, cache)
    cx.rand(3, 4).retrieve()


def with_a_function(cx: Graph) -> None:
    x = cx.tensor((2, 3), "int64", name="x")
    y = cx.function(lambda a: a, x, shape=(2, 3), dtype="int64")
    (y + cx.arange(3)).topk(2, 1)[1].graph_break().after(x).retrieve()


@pytest.mark.parametrize("write", [in_a_model, with_state, with_a_function])
def test_what_the_api_builds_is_accepted_and_written(write: Callable[[Graph], None]):
    cx = Graph()
    write(cx)
    verify(cx.ir)
    assert parse(str(cx.ir)) == cx.ir
    assert str(parse(str(cx.ir))) == str(cx.ir)
    assert parse(cx.ir.text(origins=True)).text(origins=True) == cx.ir.text(origins=True)


def test_a_body_that_many_calls_share_is_verified_once():
    depth = 40
    body = parse("graph b(%x: f32[2]) -> (%y) { %y = sin %x : f32[2] }")
    for _ in range(depth):  # without sharing these are 2**40 bodies
        nodes = [X, record(1, Call(body), 0), record(2, Call(body), 1)]
        body = graph(*nodes, outputs=(2,))
    verify(body)
    assert str(parse(str(body))) == str(body)
    assert str(body).count("graph ") == depth + 1
