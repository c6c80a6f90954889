"""`grad`: append the derivative of a loss to the graph, and return it as tensors.

graph main(%x: f32[2]) -> () {               graph main(%x: f32[2]) -> () {
  %y = mul %x, %x : f32[2]                     %y = mul %x, %x : f32[2]
  %2 = sum_reduce{axis = 0} %y : f32[1]        %2 = sum_reduce{axis = 0} %y : f32[1]
}                                              %3 = constant{value = 1.0} : f32[1]
                                               %4 = expand{shape = [2]} %3 : f32[2]
                                               %5 = mul %4, %x : f32[2]
                                               %6 = add %5, %5 : f32[2]
                                             }
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias, TypeVar, cast, overload

from luminal_lab.core.edit import LogEntry
from luminal_lab.core.ir import Node, Signature
from luminal_lab.core.op import size_of
from luminal_lab.core.ops import Input
from luminal_lab.core.origin import here
from luminal_lab.errors import ArgumentError, DTypeError, GraphError, ShapeError
from luminal_lab.passes.gradients.frames import Checkpointed, Frame
from luminal_lab.passes.gradients.rule import said
from luminal_lab.passes.gradients.sweep import Slope, sweep
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import told
from luminal_lab.tensor.derived import Derived
from luminal_lab.tensor.lazy import Workspace
from luminal_lab.tensor.parameter import Parameter

K = TypeVar("K")
Wanted: TypeAlias = Tensor | Parameter


@overload
def grad(loss: Tensor, wrt: Wanted, *, checkpoint: Sequence[str] = ()) -> Tensor: ...
@overload
def grad(
    loss: Tensor, wrt: Mapping[K, Wanted], *, checkpoint: Sequence[str] = ()
) -> dict[K, Tensor]: ...
@overload
def grad(
    loss: Tensor, wrt: Iterable[Wanted], *, checkpoint: Sequence[str] = ()
) -> list[Tensor]: ...
@told
def grad(
    loss: Tensor,
    wrt: Wanted | Mapping[Any, Wanted] | Iterable[Wanted],
    *,
    checkpoint: Sequence[str] = (),
) -> Tensor | dict[Any, Tensor] | list[Tensor]:
    """Return the derivatives of a loss, in the same structure as `wrt`.

    Tensors that do not reach the loss get zeros. The values of the scopes named by `checkpoint` are
    not kept for the backward pass, but recomputed.

    >>> from luminal_lab.session import Graph
    >>> cx = Graph()
    >>> x = cx.tensor((2,), name="x").set([1, 2])
    >>> slope = grad((x * x).sum(), x).retrieve()
    >>> cx.execute()
    >>> slope.numpy()
    array([2., 4.], dtype=float32)
    """
    if not isinstance(loss, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]  # notebooks run unchecked
        raise GraphError(
            f"grad: the loss {said(loss)} is not a tensor",
            where=str(here() or "") or None,
            hint="the loss comes first",
        )
    graph = loss.graph
    with graph.whole():
        graph.revive([loss.id])
        check_loss(loss)
        if isinstance(wrt, (Tensor, Parameter)):
            return derive(loss, [wrt], checkpoint)[0]
        if isinstance(wrt, Mapping):
            named = cast("Mapping[Any, Wanted]", wrt)
            return dict(zip(named, derive(loss, list(named.values()), checkpoint), strict=True))
        if not hasattr(wrt, "__iter__") or isinstance(wrt, str):
            raise not_a_tensor(wrt)
        return derive(loss, list(wrt), checkpoint)


def by_inputs(loss: object, checkpoint: Sequence[str]) -> dict[int, Tensor]:
    """Return the derivatives of a loss by all float inputs that it depends on."""
    if not isinstance(loss, Tensor):
        raise not_a_tensor(loss)
    check_loss(loss)
    nodes = behind(loss.graph, loss.id)
    inputs = [n for n in nodes if isinstance(n.op, Input) and n.dtype.is_float]
    if not inputs:
        raise GraphError(
            f"backward: the loss {loss.label} is computed from no input that holds floats",
            hint="what cx.tensor(...) and parameters give has gradients",
        )
    tensors = [Tensor(loss.graph, node.id, node.type) for node in inputs]
    slopes = derive(loss, tensors, checkpoint)
    return {node.id: slope for node, slope in zip(inputs, slopes, strict=True)}


def derive(loss: Tensor, wrt: Sequence[Wanted], checkpoint: Sequence[str]) -> list[Tensor]:
    """Append the derivatives by each of some tensors, and record them."""
    graph = loss.graph
    targets = [target(graph, tensor) for tensor in wrt]
    before, first = graph.ir, graph.next_id
    nodes = behind(graph, loss.id)
    scopes = named_scopes(checkpoint)
    frame = Checkpointed(graph, nodes, scopes) if scopes else Frame(graph)
    with graph.deriving("grad-loss", loss.node):
        seed = loss.full_like(1.0)
    slopes = sweep(frame, nodes, {(loss.id, 0): [Slope(seed)]}, {wanted.id for wanted in targets})
    for wanted in targets:
        if wanted.id not in slopes:
            with graph.deriving("grad-zero", wanted.node):
                slopes[wanted.id] = wanted.full_like(0.0)
    appended = [graph.node(id) for id in range(first, graph.next_id)]
    graph.derived.append(Derived("grad", before, graph.ir, log_of(appended, before.signature)))
    return [slopes[wanted.id] for wanted in targets]


def named_scopes(checkpoint: object) -> list[str]:
    """Return the names of the scopes to recompute, or raise."""
    given: object = [checkpoint] if isinstance(checkpoint, str) else checkpoint
    scopes = list(cast("Iterable[object]", given)) if isinstance(given, Iterable) else None
    if scopes is None or not all(isinstance(scope, str) for scope in scopes):
        raise ArgumentError(
            f"grad: checkpoint is {checkpoint!r}, and must be the names of scopes",
            hint='give a list of them, as in checkpoint=["block0", "block1"]',
        )
    return cast("list[str]", scopes)


def log_of(appended: Sequence[Node], signature: Signature) -> tuple[LogEntry, ...]:
    """Return the log of the appended nodes: a firing for each forward node and rule."""
    log: list[LogEntry] = []
    for firing, (_, nodes) in enumerate(groupby(appended, key=lambda node: node.meta.derivation)):
        for node in nodes:
            assert node.meta.derivation is not None
            both = signature, signature
            rule = node.meta.derivation.rule
            log.append(LogEntry("insert", rule, node.id, None, (), (node,), both, firing))
    return tuple(log)


def behind(graph: Workspace, id: int) -> list[Node]:
    """Return a node and all its ancestors, sources before users."""
    reached: dict[int, Node] = {}
    todo = [id]
    while todo:
        id = todo.pop()
        if id not in reached:
            reached[id] = graph.node(id)
            todo.extend(reached[id].sources)
    # In a graph that grows, ids are in the order in which nodes were written.
    return [reached[id] for id in sorted(reached)]


def check_loss(loss: Tensor) -> None:
    """Raise unless the loss is a single float."""
    if not loss.dtype.is_float:
        raise DTypeError(
            f"grad: the loss {loss.label} is {loss.dtype}, and only floats have gradients",
            hint='compute it in floats, as in x.cast("float32")',
        )
    if size_of(loss.shape) != 1:
        raise ShapeError(
            f"grad: the loss {loss.label} is not one number",
            hint="make it one with .sum() or .mean()",
        )


def target(graph: Workspace, wanted: object) -> Tensor:
    """Return the tensor for an entry of `wrt`, or raise."""
    first = graph.next_id
    if isinstance(wanted, Parameter):
        tensor = cast("Tensor", graph.parameter(wanted))
        if tensor.id >= first:  # the call fails, so parameters borrowed by it are given back
            raise GraphError(
                f"grad: the graph {graph.name!r} does not borrow {wanted}",
                hint="a parameter is borrowed when it is used, or by cx.parameter(p)",
            )
    elif isinstance(wanted, Tensor):
        tensor = wanted
    else:
        raise not_a_tensor(wanted)
    if tensor.graph is not graph:
        raise GraphError(
            f"grad: {tensor.label} belongs to the graph {tensor.graph.name!r}, and the loss to "
            f"{graph.name!r}",
            hint="differentiate by tensors of the graph that the loss is in",
        )
    if not tensor.dtype.is_float:
        raise DTypeError(
            f"grad: {tensor.label} is {tensor.dtype}, and only floats have gradients",
            hint="leave it out",
        )
    graph.revive([tensor.id])
    return tensor


def not_a_tensor(wanted: object) -> GraphError:
    """Return the error for an entry of `wrt` that is not a tensor or parameter."""
    hint = "give a tensor, a parameter, a list or a dict of them: ll.grad(loss, [w, b])"
    if callable(getattr(wanted, "parameters", None)):
        hint = "a module's are ll.grad(loss, module.parameters())"
    return GraphError(f"grad: {said(wanted)} is neither a tensor nor a parameter", hint=hint)
