"""A module: a plain class whose attributes are parameters and other modules.

class MLP(nn.Module):
    def __init__(self, size):
        self.up = nn.Linear(size, 4 * size)
        self.down = nn.Linear(4 * size, size)

    def forward(self, x):
        return self.down(self.up(x).gelu())

A module belongs to no graph. Called on a tensor, it extends that tensor's graph, and every node
knows the path of its module, as in "mlp.down". A parameter is used directly, as in
`x @ self.weight`; each graph borrows its value.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar, cast

from typing_extensions import override

from luminal_lab.core.builder import frame_of
from luminal_lab.core.dtypes import Array, DTypeLike, as_dtype
from luminal_lab.core.origin import here, is_ours
from luminal_lab.errors import ArgumentError, DefinitionError, DTypeError, GraphError, LabError
from luminal_lab.interrupts import is_on_stack
from luminal_lab.nn.arguments import at_user, no_tensor
from luminal_lab.nn.gguf import is_gguf, load_gguf
from luminal_lab.nn.gguf_writing import save_gguf
from luminal_lab.nn.summary import summary
from luminal_lab.nn.weights import Loaded, load_file, load_values, path_of, save_file
from luminal_lab.tensor.arguments import told, told_methods
from luminal_lab.tensor.lazy import Lazy, Workspace
from luminal_lab.tensor.parameter import Parameter

T = TypeVar("T")
Part: TypeAlias = "Parameter | Module"


class ModuleCall(NamedTuple):
    """A running `forward`: its module, the graph that it extends, and the path there."""

    module: Module
    graph: Workspace
    scope: str
    paths: dict[int, tuple[str, Module]]
    """The paths of modules in this one, by identity, computed once per call."""
    frame: FrameType

    def path_of(self, module: Module) -> str | None:
        """Return the path of a module within the running one, if it has one."""
        if not self.paths:
            for name, child in reversed(_children(self.module).items()):
                self.paths[id(child)] = name, child
        if id(module) in self.paths:
            return self.paths[id(module)][0]
        path = Module.path_of(self.module, module)  # further within, or added since
        if path:
            self.paths[id(module)] = path, module
        return path


_CALLER: ContextVar[ModuleCall | None] = ContextVar("caller", default=None)


@partial(told_methods, on="module.")
class Module:
    """The base of layers and models; a subclass defines `forward`.

    Its parameters and modules are found in its attributes, and in lists, tuples and dicts there.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> class Double(nn.Module):
    ...     def __init__(self):
    ...         self.inner = nn.Linear(3, 3)
    ...     def forward(self, x):
    ...         return self.inner(x) * 2
    >>> model = Double()
    >>> sorted(model.parameters())
    ['inner.bias', 'inner.weight']
    >>> model(ll.Graph().tensor((2, 3))).shape
    (2, 3)
    """

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__init__ is Module.__init__:  # then its class is the one that is called
            cls.__init__ = told(_plain, cls.__name__)
        if is_ours(getattr(sys.modules.get(cls.__module__), "__file__", None) or ""):
            told_methods(cls, on="module.")

    def __init__(self) -> None:
        """Create a module without settings; a subclass need not call this."""

    training: bool = True
    """Whether dropout drops and batches are measured; `train()` and `eval()` set it."""

    @override
    def __setattr__(self, name: str, value: object) -> None:
        old = vars(self).get(name)
        if isinstance(old, Parameter) and not isinstance(value, (Parameter, Module, type(None))):
            raise at_user(
                ArgumentError(
                    f"{kind_of(self)}: {name} is {old}, and cannot become a {type(value).__name__}",
                    hint=f"{name}.set(array) changes its value; nn.Parameter(…) takes its place",
                )
            )
        super().__setattr__(name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # each has its own
        """Return the module's result for tensors."""
        name = type(self).__name__
        raise DefinitionError(
            f"{name}: the class has no forward",
            where=str(here() or "") or None,
            hint="define forward(self, x), which returns what the module makes of x",
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # the result of forward
        """Call `forward` in the graph and the scope that it belongs to."""
        caller = _CALLER.get()
        if caller is not None and not is_on_stack(caller.frame):
            caller = None  # Ctrl-C has broken it off
        graph = graph_in((args, kwargs)) or (caller and caller.graph)
        if graph is None:
            told = [no_tensor(value) for value in (*args, *kwargs.values())] or [no_tensor(None)]
            given = ", ".join(kind for kind, _ in told) if args or kwargs else "nothing"
            raise GraphError(
                f"{kind_of(self)}: needs a tensor of a graph, and is given {given}",
                where=str(here() or "") or None,
                hint=told[0][1],
            )
        path = caller.path_of(self) if caller and caller.graph is graph else None
        if not path:  # called by a user, or by a module that does not contain it
            self._values()
        scope = f"{caller.scope}.{path}" if caller and path else kind_of(self)
        token = _CALLER.set(ModuleCall(self, graph, scope, {}, frame_of()))
        try:
            with graph.scope(path or kind_of(self)):
                return self.forward(*args, **kwargs)
        except LabError as error:
            # The user's line may be in a loop over layers.
            if "." in scope and not getattr(error, "__notes__", None):
                error.add_note(f"in the module {scope}")
            at_user(error)
            raise
        except RecursionError:
            if caller:
                raise
            raise at_user(
                GraphError(
                    f"{kind_of(self)}: modules in it call modules deeper than Python goes, "
                    f"{sys.getrecursionlimit()} calls",
                    hint="one that calls itself must come to an end; sys.setrecursionlimit(...) "
                    "allows more",
                )
            ) from None
        finally:
            _CALLER.reset(token)

    # -- what it is made of ------------------------------------------------------------------------

    def members(self) -> Iterable[tuple[str, object]]:
        """Return the values that may hold parameters and modules, by name: its attributes.

        >>> [name for name, _ in ll.nn.Linear(3, 2).members()]
        ['in_features', 'out_features', 'layout', 'weight', 'bias']
        """
        return list(vars(self).items())

    def children(self) -> dict[str, Module]:
        """Return the modules that its attributes hold, by name, as in "blocks.3".

        >>> model = ll.nn.Sequential(ll.nn.Linear(3, 4), ll.nn.ReLU())
        >>> {name: type(child).__name__ for name, child in model.children().items()}
        {'0': 'Linear', '1': 'ReLU'}
        """
        return _children(self)

    def named_modules(self) -> dict[str, Module]:
        """Return all modules by path, this one as ""; each once, under its first path.

        >>> model = ll.nn.Sequential(ll.nn.Linear(3, 4), ll.nn.ReLU())
        >>> list(model.named_modules())
        ['', '0', '1']
        """
        return _once(_modules(self, "", ()))

    def parameters(self) -> dict[str, Parameter]:
        """Return the trained parameters by path, each once, under its first path.

        >>> model = ll.nn.Sequential(ll.nn.Linear(3, 4), ll.nn.LayerNorm(4))
        >>> [*model.parameters()]
        ['0.weight', '0.bias', '1.weight', '1.bias']
        """
        return {path: p for path, p in self._values().items() if p.trainable}

    def buffers(self) -> dict[str, Parameter]:
        """Return the parameters that are not trained, such as running means, by path.

        >>> [*ll.nn.BatchNorm2d(4).buffers()]
        ['running_mean', 'running_var', 'num_batches_tracked']
        """
        return {path: p for path, p in self._values().items() if not p.trainable}

    def own(self) -> dict[str, Parameter]:
        """Return its own parameters and buffers, without those of children, by name.

        >>> model = ll.nn.Sequential(ll.nn.Linear(3, 4))
        >>> [*model.own()], [*model.children()["0"].own()]
        ([], ['weight', 'bias'])
        """
        parts = _parts(type(self).members(self))
        return _by_name((name, part) for name, part in parts if isinstance(part, Parameter))

    def path_of(self, module: Module) -> str | None:
        """Return the path of a module within this one, if it has one.

        >>> model = ll.nn.TransformerEncoderLayer(8, 2)
        >>> model.path_of(model.self_attn.out_proj)
        'self_attn.out_proj'
        """
        level = list(_children(self).items())
        seen = {id(self)}
        while level:  # breadth first: callers mostly call their own children
            below: list[tuple[str, Module]] = []
            for path, child in level:
                if child is module:
                    return path
                if id(child) not in seen:
                    seen.add(id(child))
                    below += [(f"{path}.{name}", c) for name, c in _children(child).items()]
            level = below
        return None

    def _paths(self) -> Iterator[tuple[str, Parameter]]:
        """Yield all parameters and buffers by all their paths, each module's own ones first."""
        for path, module in _modules(self, "", ()):
            for name, parameter in Module.own(module).items():
                yield f"{path}.{name}" if path else name, parameter

    def _values(self) -> dict[str, Parameter]:
        """Return all parameters and buffers by path, and name each by its path.

        A name from a larger module stays.
        """
        values = _once(self._paths())
        for path, parameter in values.items():
            # In a graph's text a name must not begin with a digit.
            name = f"{kind_of(self)}.{path}" if path[:1].isdigit() else path or kind_of(self)
            if parameter.name is None or name.endswith(f".{parameter.name}"):
                parameter.name = name
        return values

    def matrices(self) -> Iterable[Parameter]:
        """Return the weights of its own that products and look-ups read; `ll.quantise` marks them.

        >>> [matrix.shape for matrix in ll.nn.Linear(3, 2).matrices()]
        [(2, 3)]
        """
        return ()

    # -- modes -------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Set whether this module and its parts are being trained, and return it.

        >>> model = ll.nn.Sequential(ll.nn.Dropout(0.5)).eval()
        >>> model.train().children()["0"].training
        True
        """
        for module in self.named_modules().values():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Switch this module and its parts from training to use, and return it.

        >>> dropout, x = ll.nn.Dropout(0.5), cx.tensor((2,))
        >>> "random" in dropout(x).op_counts(), "random" in dropout.eval()(x).op_counts()
        (True, False)
        """
        return self.train(False)

    # -- values ------------------------------------------------------------------------------------

    def initialise(self, seed: int = 0) -> Self:
        """Draw all parameters anew, each from the seed and its path, and return the module.

        Values are drawn on demand. The same module and seed give the same values again.

        >>> model = ll.nn.Linear(2, 1).initialise(seed=7)
        >>> model.weight.value.round(3)
        array([[-0.285, -0.22 ]], dtype=float32)
        """
        if not isinstance(seed, int) or seed < 0:  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
            raise ArgumentError(
                f"initialise: the seed is {seed!r}",
                where=str(here() or "") or None,
                hint="give a whole number that is not negative",
            )
        for path, parameter in self._values().items():
            parameter.initialise(seed, *path.encode())
        return self

    def to(self, dtype: DTypeLike) -> Self:
        """Convert all float parameters to another dtype, and return this module.

        The converted parameters are new: graphs that have borrowed the old ones keep those.

        >>> model = ll.nn.Linear(3, 2).to("float16")
        >>> model.weight.dtype
        <DType.float16: 'float16'>
        """
        converted = dict[int, Parameter]()
        try:
            wanted = as_dtype(dtype)
        except LabError as error:
            raise at_user(error) from None
        if not wanted.is_float:
            raise DTypeError(
                f"to: {wanted} is not a float dtype, so it cannot replace that of float parameters",
                where=str(here() or "") or None,
                hint="one of float64, float32, float16, bfloat16",
            )
        for parameter in self._values().values():
            if parameter.dtype.is_float and parameter.dtype is not wanted:
                converted[id(parameter)] = parameter.cast(wanted)
        for module in self.named_modules().values():
            for name, value in list(vars(module).items()):
                setattr(module, name, _replaced(value, converted, ()))
        return self

    def state_dict(self) -> dict[str, Array]:
        """Return the values of all parameters and buffers by path, each once.

        >>> from luminal_lab import nn
        >>> {path: value.shape for path, value in nn.Linear(3, 2).state_dict().items()}
        {'weight': (2, 3), 'bias': (2,)}
        """
        return {path: parameter.value for path, parameter in self._values().items()}

    def load_state_dict(self, state: Mapping[str, object], strict: bool = True) -> Loaded:
        """Give parameters and buffers the values of a `state_dict`, all or none of them.

        Without `strict`, missing and extra entries are left out, and returned.

        >>> from luminal_lab import nn
        >>> nn.Linear(3, 2).load_state_dict({"bias": [0.0, 1.0], "scale": 2.0}, strict=False)
        <Loaded; missing: weight; extra: scale>
        """
        return load_values("load_state_dict", list(self._paths()), state, strict=strict)

    def save(self, path: str | Path) -> None:
        """Write all values into a safetensors file, or into GGUF if the name ends in ".gguf".

        In GGUF, parameters that hold blocks of few bits stay blocks.

        >>> ll.nn.Linear(3, 2).save(folder / "model.safetensors")
        >>> [file.name for file in folder.iterdir()]
        ['model.safetensors']
        """
        if str(path).endswith(".gguf"):
            save_gguf(path_of("save", path), kind_of(self), self._values())
        else:
            save_file(path, self._values())

    def load(self, path: str | Path, strict: bool = True) -> Self:
        """Take the values from a safetensors or GGUF file, each when it is first needed.

        The file is mapped into memory, and must not change.

        >>> ll.nn.Linear(3, 2).save(folder / "model.safetensors")
        >>> model = ll.nn.Linear(3, 2).load(folder / "model.safetensors")
        >>> model.weight.is_loaded
        False
        """
        if is_gguf(file := path_of("load", path)):
            load_gguf(file, list(self._paths()), strict=strict)
        else:
            load_file(path, list(self._paths()), strict=strict)
        return self

    # -- shown -------------------------------------------------------------------------------------

    def options(self) -> str:
        """Return the settings in this module's text, such as "3, 4".

        >>> ll.nn.Linear(3, 2).options()
        '3, 2'
        """
        return ""

    def _heading(self) -> str:
        """Return what stands before the parameters in this module's text."""
        return f"{type(self).__name__}({type(self).options(self)})"

    @override
    def __repr__(self) -> str:
        return summary(self)


def kind_of(module: Module) -> str:
    """Return a module's name in scopes and error messages: its class, as in "layer_norm"."""
    return snake(type(module))


def snake(cls: type) -> str:
    """Return a class's name in the style of scopes.

    >>> class GPT2Block: ...
    >>> snake(GPT2Block)
    'gpt2_block'
    """
    name = re.sub(r"(?<=[a-z])LU", "lu", cls.__name__)  # ReLU, SiLU and their like
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return re.sub(r"\W", "_", words, flags=re.ASCII).lower()


def _parts(
    members: Iterable[tuple[str, object]], outer: tuple[object, ...] = ()
) -> Iterator[tuple[str, Part]]:
    """Yield the parameters and modules among values, and in lists, tuples and dicts there."""
    for name, value in members:
        if isinstance(value, (Parameter, Module)):
            yield name, value
        elif isinstance(value, (list, tuple, dict)):
            held = cast("Sequence[object] | dict[object, object]", value)
            if held and not any(held is container for container in outer):  # it may hold itself
                entries = held.items() if isinstance(held, dict) else enumerate(held)
                yield from _parts(
                    ((f"{name}.{key}", part) for key, part in entries), (*outer, held)
                )
        elif isinstance(value, (set, frozenset)):
            values = cast("Iterable[object]", value)
            if any(isinstance(value, (Parameter, Module)) for value in values):
                raise at_user(
                    DefinitionError(
                        f"{name}: a set holds modules or parameters, which have no order there",
                        hint="make it a list, or a dict with their names",
                    )
                )


def _by_name(parts: Iterable[tuple[str, T]]) -> dict[str, T]:
    """Return parts by name or path, or raise if two are equal."""
    named = dict[str, T]()
    for name, part in parts:
        if named.setdefault(name, part) is not part:
            raise at_user(
                DefinitionError(
                    f"{name}: two parts of a module have this path",
                    hint="rename the attribute, or the key of the dict, that has a dot",
                )
            )
    return named


def _plain(self: Module) -> None:
    """Create a module whose class has no settings."""


def _children(module: Module) -> dict[str, Module]:
    # Through the class, since a user's attribute may have the name of a method.
    members = type(module).members(module)
    return _by_name((name, part) for name, part in _parts(members) if isinstance(part, Module))


def _modules(module: Module, path: str, outer: tuple[Module, ...]) -> Iterator[tuple[str, Module]]:
    """Yield a module and its parts by all their paths; a module inside itself is not followed."""
    todo = [(path, module, outer)]
    while todo:
        path, module, outer = todo.pop()
        yield path, module
        within = (*outer, module)
        todo += [
            (f"{path}.{name}" if path else name, child, within)
            for name, child in reversed(_children(module).items())
            if not any(child is parent for parent in within)
        ]


def _once(parts: Iterable[tuple[str, T]]) -> dict[str, T]:
    """Return each part once, under its first path."""
    first = dict[int, tuple[str, T]]()
    for path, part in parts:
        first.setdefault(id(part), (path, part))
    return _by_name(first.values())


def graph_in(value: object) -> Workspace | None:
    """Return the first graph among arguments: a tensor's, or an argument itself."""
    if isinstance(value, Lazy):
        return value.graph
    if isinstance(value, Workspace):
        return value
    if isinstance(value, dict):
        value = list(cast("dict[object, object]", value).values())
    if isinstance(value, (list, tuple)):
        for entry in cast("Iterable[object]", value):
            graph = graph_in(entry)
            if graph is not None:
                return graph
    return None


def _replaced(
    value: object, converted: Mapping[int, Parameter], outer: tuple[object, ...]
) -> object:
    """Return an attribute's value with some parameters replaced."""
    if isinstance(value, Parameter):
        return converted.get(id(value), value)
    if any(value is container for container in outer):
        return value
    outer = (*outer, value)
    if isinstance(value, tuple):
        parts = cast("tuple[object, ...]", value)
        again: Callable[[list[object]], object] = getattr(parts, "_make", tuple)
        return again([_replaced(part, converted, outer) for part in parts])
    if isinstance(value, list):
        values = cast("list[object]", value)
        values[:] = [_replaced(part, converted, outer) for part in values]
        return values
    if isinstance(value, dict):
        entries = cast("dict[object, object]", value)
        entries.update({key: _replaced(part, converted, outer) for key, part in entries.items()})
        return entries
    return value
