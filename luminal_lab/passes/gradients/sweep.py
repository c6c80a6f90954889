"""The sweep: backwards through the nodes, each by its rule, adding up the arriving gradients."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence, Set
from contextlib import contextmanager
from typing import TypeAlias

from luminal_lab.core.dtypes import DType
from luminal_lab.core.ir import Node, Spelling
from luminal_lab.core.op import Elementwise, Op, TensorType
from luminal_lab.core.ops import (
    Add,
    CustomGradient,
    HostCall,
    Pick,
    StopGradient,
    UserKernel,
)
from luminal_lab.core.ops.structure import Region
from luminal_lab.errors import DefinitionError, GraphError, LabError
from luminal_lab.passes.gradients.formulas import DERIVATIVES
from luminal_lab.passes.gradients.frames import Body, Frame
from luminal_lab.passes.gradients.rule import RULES, Forward, GradientRule, emit, narrowed, said
from luminal_lab.passes.gradients.slope import MOVING, Slope, shared
from luminal_lab.tensor import Tensor

ADD = Add()
Key: TypeAlias = tuple[int, int]
"""A node's id, and the index of its result."""
Arrived: TypeAlias = dict[Key, list[Slope]]


def active(nodes: Sequence[Node], starts: Collection[int]) -> set[int]:
    """Return the nodes on paths of gradients to the given ones."""
    reached = set(starts)
    for node in nodes:
        carries = (node.dtype.is_float or node.extra) and not isinstance(node.op, StopGradient)
        if carries and not reached.isdisjoint(node.sources):
            reached.add(node.id)
    return reached


def sweep(
    frame: Frame,
    nodes: Sequence[Node],
    arrived: Arrived,
    wanted: Set[int],
) -> dict[int, Tensor]:
    """Return the gradients of the wanted nodes that the loss depends on."""
    on_the_way = active(nodes, wanted)
    gradients: dict[int, Tensor] = {}
    graph = frame.graph
    for node in reversed(nodes):
        if node.id not in on_the_way:
            continue
        results = [arrived.pop((node.id, k), []) for k in range(1 + len(node.extra))]
        if not any(results):
            continue
        home = frame.home(node)
        totals = [summed(frame, home, slopes) for slopes in results]
        if node.id in wanted and totals[0] is not None:
            with graph.deriving("grad-sum", home):
                gradients[node.id] = totals[0].tame()
        whole = whole_at(frame, node, wanted)
        sources = node.sources if whole is None else whole.sources
        reached = [id in on_the_way for id in sources]
        if not any(reached):
            continue
        if isinstance(node.op, Pick):
            assert totals[0] is not None
            arrived.setdefault((node.sources[0], node.op.index), []).append(totals[0])
            continue
        name = node.op.name if whole is None else whole.function
        with graph.deriving(f"grad-{name}", home), told(node.op):
            if whole is None:
                parts = through(frame, node, totals, reached)
            else:
                assert totals[0] is not None
                parts = through_formula(frame, node, whole, totals[0], reached)
        for id, part in zip(sources, parts, strict=True):
            if part is not None:
                arrived.setdefault((id, 0), []).append(part)
    return gradients


def summed(frame: Frame, home: Node, slopes: Sequence[Slope]) -> Slope | None:
    """Return the sum of the gradients of one result, in one chain of additions."""
    if len(slopes) < 2:
        return slopes[0] if slopes else None
    mask = shared(list(slopes))
    whole = all(slope.mask is mask for slope in slopes)
    with frame.graph.deriving("grad-sum", home):
        values = [slope.value if whole else slope.tame() for slope in slopes]
        total = values[0]
        for value in values[1:]:
            total = emit(ADD, total, value)
    return Slope(total, mask, whole and any(slope.is_wild for slope in slopes))


def whole_at(frame: Frame, node: Node, wanted: Set[int]) -> Spelling | None:
    """Return the function whose formula ends at a node, if it has its own derivative."""
    whole = node.meta.spells
    # If an inner node is wanted, the formula is derived step by step.
    if whole is None or not wanted.isdisjoint(inside(frame, node, whole)):
        return None
    return whole


def inside(frame: Frame, node: Node, whole: Spelling) -> set[int]:
    """Return the nodes between a function's sources and the end of its formula."""
    reached: set[int] = set()
    todo = list(node.sources)
    while todo:
        id = todo.pop()
        if id not in reached and id not in whole.sources:
            reached.add(id)
            todo += frame.record(id).sources
    return reached


def through_formula(
    frame: Frame, node: Node, whole: Spelling, slope: Slope, reached: Sequence[bool]
) -> list[Slope | None]:
    """Return the gradients for the sources of a function written as a formula."""
    types = tuple([frame.record(id).type for id in whole.sources])
    if any(type.shape != node.shape for type in types):
        slope = Slope(slope.tame())
    frame.arrive(node, slope.value)
    forward = Forward(node.op, node._replace(sources=whole.sources), types, frame.values(node))
    rule = GradientRule(DERIVATIVES[whole.function], wide=False)
    slopes: list[Slope | None] = []
    for part, is_reached in zip(
        rule.parts(forward, slope.value, *whole.settings), reached, strict=True
    ):
        value = (part() if callable(part) else part) if is_reached else None
        wild = slope.mask is not None
        slopes.append(None if value is None else Slope(value, slope.mask, wild))
    return slopes


def through(
    frame: Frame, node: Node, totals: Sequence[Slope | None], reached: Sequence[bool]
) -> list[Slope | None]:
    """Return the gradients for the sources of a node."""
    op = node.op
    if isinstance(op, Region):
        return through_call(frame, node, op, totals, reached)
    (slope,) = totals
    assert slope is not None
    rule = RULES.get(op.name)
    if rule is None:
        raise without_rule(frame, node)
    if not isinstance(op, (Elementwise, *MOVING)):
        slope = Slope(slope.tame())
    frame.arrive(node, slope.value)
    forward, g = forward_of(frame, node, rule), slope.value
    if rule.wide and g.dtype.is_half:
        g = g.cast(DType.float32)
    parts = rule.parts(forward, g)
    if len(parts) != len(reached):
        raise DefinitionError(
            f"grad: the gradient of {op.name} returned {len(parts)} values, and {op.name} has "
            f"{len(reached)} sources here",
            hint="return one for each source: a tensor, a function that makes one, or None",
        )
    slopes: list[Slope | None] = []
    for k, (part, wanted) in enumerate(zip(parts, reached, strict=True)):
        value = (part() if callable(part) else part) if wanted else None
        if value is None:
            slopes.append(None)
            continue
        check_part(frame, op, k, value)
        if rule.wide:
            value = narrowed(value, slope.value.dtype)
        check_type(op, k, value, forward.types[k])
        slopes.append(slope.onwards(value, forward, rule, k))
    return slopes


def forward_of(frame: Frame, node: Node, rule: GradientRule) -> Forward[Op]:
    """Return a node in the form that its rule takes."""
    values = frame.values(node)

    def widened(id: int) -> Tensor:
        return values(id).cast(DType.float32)

    is_wide = rule.wide and node.dtype.is_half
    types = tuple([frame.record(id).type for id in node.sources])
    return Forward(node.op, node, types, widened if is_wide else values)


def through_call(
    frame: Frame,
    node: Node,
    op: Region,
    totals: Sequence[Slope | None],
    reached: Sequence[bool],
) -> list[Slope | None]:
    """Return the gradients for the sources of a call, from its body."""
    body = op.body
    arrived: Arrived = {}
    for id, slope in zip(body.output_ids, totals, strict=True):
        if slope is not None:
            value = slope.tame()
            frame.arrive(node, value)
            arrived.setdefault((id, 0), []).append(Slope(value))
    behind = body.ancestors(id for id, _ in arrived)
    nodes = [inner for inner in body.nodes if inner.id in behind]
    wanted = {id for id, is_reached in zip(body.input_ids, reached, strict=True) if is_reached}
    slopes = sweep(Body(frame, node, body), nodes, arrived, wanted)
    values = [slopes.get(id) for id in body.input_ids]
    return [None if value is None else Slope(value) for value in values]


@contextmanager
def told(op: Op) -> Generator[None, None, None]:
    """Add the name of the gradient to an error from a user's function."""
    try:
        yield
    except LabError:
        raise
    except Exception as error:
        error.add_note(f"in the gradient of {named(op)}")
        raise


def named(op: Op) -> str:
    """Return the user's name for an op with a gradient of their own."""
    return f"custom_gradient {op.function!r}" if isinstance(op, CustomGradient) else op.name


def subject(op: Op, source: int) -> str:
    """Return an error's subject: the gradient for a source or a function's argument."""
    if isinstance(op, CustomGradient):  # its first source is the function's result
        return f"custom_gradient {op.function!r}: the gradient for its tensor {source - 1}"
    return f"grad: the gradient of {op.name} for its source {source}"


def check_part(frame: Frame, op: Op, source: int, value: Tensor) -> None:
    """Raise unless a rule returned a tensor of the graph."""
    if not isinstance(value, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]  # notebooks run unchecked
        raise DefinitionError(
            f"{subject(op, source)} is {said(value)}",
            hint="return a tensor, or None for a source that has no gradient",
        )
    if value.graph is not frame.graph:
        raise GraphError(
            f"{subject(op, source)} is {value.label} of the graph {value.graph.name!r}, and the "
            f"source is in {frame.graph.name!r}",
            hint="make it of g and of the values of the sources",
        )


def check_type(op: Op, source: int, value: Tensor, wanted: TensorType) -> None:
    """Raise unless a gradient has the type of its source."""
    if value.type != wanted:
        raise DefinitionError(
            f"{subject(op, source)} is {value.type}, and "
            f"{'that' if isinstance(op, CustomGradient) else 'the source'} is {wanted}",
            hint="a gradient has the type of what it is the gradient of",
        )


def without_rule(frame: Frame, node: Node) -> GraphError:
    """Return the error for a node whose op has no gradient."""
    home = frame.home(node)
    if isinstance(node.op, HostCall) and isinstance(home.op, UserKernel):
        what = f"the kernel {home.op.body.name}, which has no gradient"
        hint = (
            "give ll.kernel a meaning=, whose gradient is taken, or a gradient=; or cut it off "
            "with detach()"
        )
    elif isinstance(node.op, HostCall):
        what = f"the Python function {node.op.function!r}, which has no gradient"
        hint = "give it one with @ll.custom_gradient, or cut it off with detach()"
    else:
        name = type(node.op).__name__
        what = f"the op {node.op.name}, which has no gradient"
        hint = f"register one with @ll.gradient({name}), or cut it off with detach()"
    return GraphError(
        f"grad: {home} is made by {what}", where=str(home.meta.origin or "") or None, hint=hint
    )
