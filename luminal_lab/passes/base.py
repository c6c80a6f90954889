"""The base of passes: frozen dataclasses with a name, options as fields, and `run(ir, edit)`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias, cast, get_type_hints

from typing_extensions import override

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.errors import DefinitionError

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
"""The names of passes, rules and facts that the text form can write."""
Option: TypeAlias = int | float | bool | str | tuple[str, ...]
OPTIONS = (int, float, bool, str, tuple[str, ...], int | None)
"""The types of options that the text form can write."""


class Pass:
    """A change of the graph; a subclass is a frozen dataclass, and its fields are its options.

    `run` reads the graph and changes it through the editor. It knows nothing about snapshots,
    verification or statistics: those are derived from the editor's log.

    >>> from luminal_lab.core.ops import Sin
    >>> @dataclass(frozen=True)
    ... class NoSines(Pass):
    ...     '''Replace each sine by its source.'''
    ...
    ...     name: ClassVar[str] = "no-sines"
    ...
    ...     def run(self, ir, edit):
    ...         for node in ir:
    ...             if isinstance(node.op, Sin):
    ...                 edit.replace(node, node.sources[0], rule="sin")
    >>> str(NoSines())
    'no-sines'
    """

    name: ClassVar[str]
    is_early: ClassVar[bool] = False
    """Whether it must run before any device pass, wherever the pipeline lists it."""
    rounds: ClassVar[bool] = False
    """Whether it rounds values on purpose; a check of values then begins anew."""
    rounds_otherwise: ClassVar[bool] = False
    """Whether it replaces ops by a device's own functions, whose last place may differ."""

    def run(self, ir: IR, edit: Edit) -> None:
        """Change the graph that `edit` holds; `ir` is the graph as it was."""
        raise fault(type(self), "has no run", "define run(self, ir, edit)")

    def rules(self) -> tuple[object, ...]:
        """Return the rules that this pass tries, so that `why_not` can find them.

        >>> from luminal_lab.passes.simplify import Simplify
        >>> [rule.name for rule in Simplify().rules()][:4]
        ['add-zero', 'add-negative-zero', 'sub-self', 'add-bool-self']
        """
        return ()

    def searches(self) -> tuple[str, ...]:
        """Return the names of its searches written as code, which `why_not` can explain.

        >>> from luminal_lab.passes.recognition.recognise import Recognise
        >>> "softmax" in Recognise().searches()
        True
        """
        return ()

    def why_not(self, ir: IR, search: str, node: Node) -> str:
        """Say how far a search gets at a node of a graph that the pass has not changed yet.

        >>> from luminal_lab.passes.recognition.recognise import Recognise
        >>> y = cx.tensor((2, 4), name="x").exp().retrieve()
        >>> print(Recognise().why_not(cx.ir, "softmax", y.node))
        %13 is %14 by then. softmax does not begin: %14 is a call of exp, and it ends in mul.
        """
        raise fault(type(self), f"has no search {search!r}", "searches() has their names")

    @override
    def __str__(self) -> str:
        return spec_text(self.name, options_of(self))

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            if not NAME.fullmatch(cls.name):
                raise fault(cls, f"has an invalid name: {cls.name!r}", "as in 'no-sines'")
            if not vars(cls).get("__doc__"):
                raise fault(cls, "has no docstring", "say in one sentence what it does")


def fault(cls: type, what: str, hint: str) -> DefinitionError:
    """Return the error for an invalid pass class."""
    return DefinitionError(f"pass {getattr(cls, 'name', cls.__name__)!r}: it {what}", hint=hint)


def options_of(of: object) -> dict[str, Option]:
    """Return the options that differ from their defaults, by name."""
    options: dict[str, Option] = {}
    for field in fields(cast("Any", of)):
        value = getattr(of, field.name)
        if value != field.default:
            options[field.name] = value
    return options


def option_types(cls: type) -> dict[str, object]:
    """Return the types of the options of a pass, by name."""
    if not getattr(vars(cls).get("__dataclass_params__"), "frozen", False):
        hint = "write @dataclass(frozen=True) above the class"
        raise fault(cls, "is not a frozen dataclass", hint)
    return {**_hints(cls)}


@lru_cache(1000)
def _hints(cls: type) -> dict[str, object]:
    # Cached: evaluating annotations is slow, and a text may name a pass a thousand times.
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cast("Any", cls))}


def spec_text(name: str, options: dict[str, Option]) -> str:
    """Return a pass as pipeline text: its name and the options that differ from the defaults."""
    written = ", ".join(f"{key} = {_option_text(value)}" for key, value in options.items())
    return f"{name}{{{written}}}" if written else name


def _option_text(value: Option) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def graph_pass(run: Callable[[IR, Edit], None]) -> Pass:
    """Turn a function into a pass named after it, with `-` for `_`.

    >>> @graph_pass
    ... def erase_dead(ir, edit):
    ...     '''Erase what nothing reads.'''
    ...     for node in reversed(ir.nodes):
    ...         if not edit.users(node) and not edit.is_output(node):
    ...             edit.erase(node, rule="unused")
    >>> str(erase_dead)
    'erase-dead'
    """
    if not inspect.isfunction(run) or len(inspect.signature(run).parameters) != 2:
        form = f"{run.__name__}{inspect.signature(run)}" if inspect.isfunction(run) else repr(run)
        raise DefinitionError(
            f"graph_pass: {form} is not a function of a graph and an editor",
            hint="write @ll.graph_pass above def my_pass(ir, edit): ...",
        )

    def method(self: Pass, ir: IR, edit: Edit) -> None:
        return run(ir, edit)

    members = {
        "__doc__": run.__doc__,
        # A function made by `exec` belongs to no module, as its namespace has no name.
        "__module__": run.__module__ or "__main__",
        "name": run.__name__.replace("_", "-"),
        "run": method,
    }
    cls = type(run.__name__, (Pass,), members)
    return dataclass(frozen=True)(cls)()
