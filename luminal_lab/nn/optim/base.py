"""The base of optimisers: gradients in, the next values of the weights out, state in between.

An optimiser belongs to no graph, like a module. In a graph it turns each weight's gradient into
the weight's next value, and carries this to the weight and its own state to itself:
the next run, of this graph or another, starts from both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, cast

from typing_extensions import override

from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType, tuple_text
from luminal_lab.core.ops import Input
from luminal_lab.core.printer import unique
from luminal_lab.errors import DefinitionError, DTypeError, GraphError, ShapeError
from luminal_lab.nn.arguments import at_user
from luminal_lab.nn.clip import clip_grad_norm, clip_grad_value
from luminal_lab.nn.limits import within
from luminal_lab.nn.module import Module, kind_of
from luminal_lab.nn.optim.state import Number, Session, State, said
from luminal_lab.nn.schedules import Schedule
from luminal_lab.passes.gradients import grad
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import is_function
from luminal_lab.tensor.derived import as_whole
from luminal_lab.tensor.functions import widened
from luminal_lab.tensor.lazy import Workspace
from luminal_lab.tensor.parameter import Parameter

Weight: TypeAlias = Parameter | Tensor
Weights: TypeAlias = "Module | Weight | Iterable[Weight] | Mapping[str, Weight]"
LearningRate: TypeAlias = "float | Schedule | Callable[[Tensor], Tensor | float] | Tensor"
WeightDecay: TypeAlias = float | Callable[[Weight], float]


ONCE = (
    "a run makes one step of a weight: drop() what an earlier minimise or step returned, or write "
    "this one into another graph"
)


class Optimiser(Module):
    """The base of optimisers; a subclass defines `update`, for one weight.

    Its state works like a module's: `state_dict`, `save` and `load` are those of a module, and
    `initialise` resets it to 0. It exists from the first `minimise` or `step` on.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> class Signs(nn.Optimiser):
    ...     def update(self, weight, gradient, state):
    ...         return weight - gradient.sign() * state.numbers["lr"]
    >>> cx = ll.Graph()
    >>> w = cx.tensor((2,), name="w").set([1.0, -1.0])
    >>> updates = Signs(lr=0.25).minimise((w * w).sum(), [w])
    >>> cx.execute()
    >>> w.tolist()
    [0.75, -0.75]
    """

    def __init__(self, lr: LearningRate = 1e-3, *, weight_decay: WeightDecay = 0.0) -> None:
        if not (is_function(lr) or isinstance(lr, Tensor)):
            within(self, "lr", lr)
            lr = float(lr)
        if not is_function(weight_decay):
            within(self, "weight_decay", weight_decay)
        self.lr = lr
        self.weight_decay = weight_decay
        self.shared: dict[str, Parameter] = {}
        """The state shared by all weights, by name."""
        self.state: dict[str, dict[str, Parameter]] = {}
        """The state of each weight, by its path and by name."""
        self._paths_of: dict[object, str] = {}

    # -- what a subclass says ----------------------------------------------------------------------

    def update(self, weight: Tensor, gradient: Tensor, state: State) -> Tensor:
        """Return the next value of a weight; halves are passed as float32 both ways."""
        raise at_user(
            DefinitionError(
                f"{type(self).__name__}: the class has no update",
                hint="define update(self, weight, gradient, state), which returns the next weight",
            )
        )

    def begin(self, shared: State, lr: Number) -> Mapping[str, Number]:
        """Return the values of `state.numbers` for `update`, computed once for all weights."""
        return {"lr": lr}

    # -- what a user calls -------------------------------------------------------------------------

    def minimise(
        self,
        loss: Tensor,
        weights: Weights | None = None,
        *,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        checkpoint: Sequence[str] = (),
    ) -> dict[str, Tensor]:
        """Make each run of the loss's graph a step that reduces it; return the next weights.

        The loss is retrieved: after a run it is the loss of the weights before the step.
        By default the weights are all trainable parameters that the loss depends
        on; what holds blocks of few bits stays as it is. Gradients are clipped first by value and
        then by their norm, on request. The values of the scopes named by `checkpoint` are not kept
        for the gradients, but computed once more, as in `ll.grad`.

        >>> weight = ll.Parameter((2,), value=[1, -1], name="w")
        >>> updates = ll.nn.SGD(lr=0.25).minimise((cx.parameter(weight) ** 2).sum())
        >>> cx.execute()
        >>> updates["w"].tolist()
        [0.5, -0.5]
        """
        if not isinstance(loss, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]  # notebooks run unchecked
            self._refuse(f"the loss is {loss!r} and not a tensor", "give what a loss returned")
        trained = self._behind(loss, weights)

        def write() -> dict[str, Tensor]:
            gradients = grad(loss, trained, checkpoint=checkpoint)
            if clip_value is not None:
                gradients = clip_grad_value(gradients, clip_value)
            if clip_norm is not None:
                gradients, _ = clip_grad_norm(gradients, clip_norm)
            updates = self.step(trained, gradients)
            loss.retrieve()
            return updates

        return as_whole(loss.graph, write)

    def step(self, weights: Weights, gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Make each run of the gradients' graph a step; return the next weights by name.

        The gradients are a dict with the names of the weights, as `ll.grad` makes it.

        >>> weight = ll.Parameter((2,), value=[1, -1], name="w")
        >>> updates = ll.nn.SGD(lr=0.25).step(weight, {"w": cx.ones((2,))})
        >>> cx.execute()
        >>> updates["w"].tolist()
        [0.75, -1.25]
        """
        named = self._weights(weights)
        graph = self._check_gradients(named, gradients)
        session, scope = cast("Session", graph), kind_of(self)
        updates: dict[str, Tensor] = {}

        def write() -> dict[str, Tensor]:
            with graph.scope(scope):
                shared = State(session, self.shared, scope, TensorType(DType.float32, ()))
                numbers = self.begin(shared, self._rate(shared))
            for name, weight in named.items():
                old = weight if isinstance(weight, Tensor) else session.parameter(weight)
                state = self._state_of(session, weight, name)
                state.decay, state.numbers = self._decay_of(weight), numbers
                with graph.scope(f"{scope}.{old.name}"):
                    new = self.update(widened(old), widened(gradients[name]), state)
                    self._check_update(name, old, new)
                    updates[name] = session.carry(new.cast(old.dtype), old)
            return updates

        return as_whole(graph, write)

    # -- the parts of a step -----------------------------------------------------------------------

    def _check_update(self, name: str, old: Tensor, new: object) -> None:
        if not isinstance(new, Tensor) or new.shape != old.shape:
            raise at_user(
                DefinitionError(
                    f"{type(self).__name__}: update returned {said(new)} for {name}, which is "
                    f"{tuple_text(old.shape)}",
                    hint="return the next weight, a tensor of its shape",
                )
            )

    def _rate(self, shared: State) -> Number:
        if isinstance(self.lr, Tensor):
            self._check_rate(self.lr)
        if isinstance(self.lr, Tensor) or not is_function(self.lr):
            return self.lr
        step = shared["step"]
        shared["step"] = step + 1
        rate: object = self.lr(step)
        if isinstance(rate, Tensor):
            self._check_rate(rate)
        else:
            within(self, "what lr returned", rate)
            rate = float(cast("float", rate))
        return rate.named(f"{kind_of(self)}.lr") if isinstance(rate, Tensor) else rate

    def _check_rate(self, rate: Tensor) -> None:
        if rate.ndim or not rate.dtype.is_float:
            raise at_user(
                ShapeError(
                    f"{type(self).__name__}: lr is {rate.label} of {rate.dtype}, and must be one "
                    "float",
                    hint="make it a tensor of the shape ()",
                )
            )

    def _decay_of(self, weight: Weight) -> float:
        if not is_function(self.weight_decay):
            return self.weight_decay
        decay = self.weight_decay(weight)
        within(self, "weight_decay", decay)
        return decay

    def _state_of(self, session: Session, weight: Weight, name: str) -> State:
        key = weight if isinstance(weight, Parameter) else (weight.graph, weight.id)
        if key not in self._paths_of:
            path = self._paths_of[key] = unique(name, self.state)
            self.state[path] = {}
        path = self._paths_of[key]
        wide = DType.float32 if weight.dtype.is_half else weight.dtype
        # In a graph's text a name must not begin with a digit.
        shown = f"{kind_of(self)}.{path}" if path[0].isdigit() else path
        return State(session, self.state[path], shown, TensorType(wide, weight.shape))

    def _behind(self, loss: Tensor, weights: Weights | None) -> dict[str, Weight]:
        """Return those of the weights that the loss depends on."""
        session = cast("Session", loss.graph)
        behind = session.ir.ancestors([loss.id])
        known = session.parameters
        ids = {p: session.parameter(p).id for p in known.values()}
        candidates: dict[str, Weight] = (
            {name: p for name, p in known.items() if p.trainable and p.blocks is None}
            if weights is None
            else self._weights(weights)
        )
        reached = {
            name: weight
            for name, weight in candidates.items()
            if (weight.id if isinstance(weight, Tensor) else ids.get(weight)) in behind
        }
        if not reached:
            what = "no trained parameter" if weights is None else f"none of {', '.join(candidates)}"
            self._refuse(
                f"the loss {loss.label} is computed from {what}",
                "make the loss of what the model returns in this graph",
            )
        return reached

    def _weights(self, weights: Weights) -> dict[str, Weight]:
        """Return weights by name, from any accepted form."""
        if isinstance(weights, Module):
            parameters = weights.parameters().items()
            named: dict[str, Any] = {name: p for name, p in parameters if p.blocks is None}
        elif isinstance(weights, (Parameter, Tensor)):
            named = {weights.name or "0": weights}
        elif isinstance(weights, Mapping):
            named = dict(cast("Mapping[str, Any]", weights))
        elif isinstance(weights, str) or not hasattr(weights, "__iter__"):
            self._refuse(f"{weights!r} is not a weight", "give a module, or its parameters()")
        else:
            named = {}
            for k, weight in enumerate(weights):
                name = getattr(weight, "name", None) or str(k)
                named[name if name not in named else f"{name}_{k}"] = weight
        for name, weight in named.items():
            self._check_weight(name, weight)
        if not named:
            self._refuse(
                "there are no weights to train", "give a module with parameters that are trained"
            )
        return named

    def _check_weight(self, name: str, weight: object) -> None:
        if not isinstance(weight, (Parameter, Tensor)):
            hint = "give a module, or its parameters()"
            if isinstance(weight, Module):
                hint = "give one module, or a dict of the parameters of several"
            said = kind_of(weight) if isinstance(weight, Module) else repr(weight)
            self._refuse(f"{said} is not a weight", hint)
        what = f"{type(self).__name__}: {name}"
        if not weight.dtype.is_float:
            raise at_user(
                DTypeError(
                    f"{what} is {weight.dtype}, and only floats can be trained",
                    hint='make it with dtype="float32", or with trainable=False',
                )
            )
        if isinstance(weight, Parameter) and weight.blocks is not None:
            raise at_user(
                DTypeError(
                    f"{what} holds blocks of {weight.form}, and only float32 values can be trained",
                    hint="ll.quantise(weight, None) makes it float32",
                )
            )
        if isinstance(weight, Tensor) and not isinstance(weight.node.op, Input):
            self._refuse(
                f"{weight.label} is the result of {weight.node.op.name}, and not an input",
                "train the parameters, or the inputs, that it is computed from",
            )
        if isinstance(weight, Tensor) and weight.type.is_symbolic:
            raise at_user(
                ShapeError(
                    f"{what} is {tuple_text(weight.shape)}, whose size is not known",
                    hint="the dims of a weight are numbers",
                )
            )

    def _check_gradients(
        self, weights: Mapping[str, Weight], gradients: Mapping[str, Tensor]
    ) -> Workspace:
        """Return the graph of gradients that fit the weights, or raise if it has their step."""
        names = gradients.keys() if isinstance(gradients, Mapping) else None  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
        if names != weights.keys():
            given = repr(gradients) if names is None else ", ".join(names)
            self._refuse(
                f"the weights are {', '.join(weights)}, but the gradients {given}",
                "both are dicts with the same names: ll.grad(loss, model.parameters())",
            )
        for name, gradient in gradients.items():
            if not isinstance(gradient, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
                self._refuse(
                    f"the gradient of {name} is {gradient!r} and not a tensor",
                    "ll.grad(loss, model.parameters()) makes them",
                )
        graph = next(iter(gradients.values())).graph
        session = cast("Session", graph)
        carried = {old: new for new, old in session.ir.carries}
        ids = {p: session.parameter(p).id for p in session.parameters.values()}
        seen = set[Weight]()
        for name, weight in weights.items():
            gradient = gradients[name]
            if gradient.graph is not graph or getattr(weight, "graph", graph) is not graph:
                self._refuse(
                    f"{name} and the other weights and gradients are in several graphs",
                    "make inputs for the gradients in one graph, and move them with transfer",
                )
            if gradient.shape != weight.shape:
                raise at_user(
                    ShapeError(
                        f"{type(self).__name__}: {name} is {tuple_text(weight.shape)}, but its "
                        f"gradient is {gradient.label}",
                        hint="a gradient has the shape of its weight",
                    )
                )
            id = weight.id if isinstance(weight, Tensor) else ids.get(weight)
            if id in carried or weight in seen:
                by = f"by %{graph.node(carried[id]).name}" if id in carried else "under two names"
                self._refuse(f"{name} is updated in the graph {graph.name!r} already, {by}", ONCE)
            seen.add(weight)
        if any(ids.get(kept) in carried for kept in self.shared.values()):
            self._refuse(
                f"it makes a step in the graph {graph.name!r} already",
                "make another optimiser for the other weights, or one step of them all",
            )
        return graph

    def _refuse(self, problem: str, hint: str) -> NoReturn:
        raise at_user(GraphError(f"{type(self).__name__}: {problem}", hint=hint))

    # -- as a module -------------------------------------------------------------------------------

    @override
    def options(self) -> str:
        return f"lr={self.lr}"
