"""Pipelines: passes in order, nested, repeated to a fixpoint; and their text form."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import isfinite
from typing import (
    Any,
    ClassVar,
    NoReturn,
    Protocol,
    Self,
    TypeAlias,
    cast,
    get_args,
    get_origin,
)

from typing_extensions import override

import luminal_lab.passes
from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep
from luminal_lab.core.ir import IR
from luminal_lab.errors import (
    LabError,
    ParseError,
    PassError,
    TrustError,
    nearest,
    whole_number,
)
from luminal_lab.passes.base import Option, Pass, fault, option_types, options_of, spec_text
from luminal_lab.passes.rewrite import Rewrite
from luminal_lab.passes.rule import FACTS, Rule, RuleSet, variable_of
from luminal_lab.reading import REAL, WHOLE
from luminal_lab.tensor.arguments import told, told_class

LICENCE = ("contract", "no_signed_zero")
"""The default facts of a pipeline: the sign of a zero does not matter."""
DEVICES = ("cpu", "cuda", "metal", "webgpu", "xla")
ELSEWHERE = (*(f"devices.{name}.compiler" for name in DEVICES), "workers.pipelined")
"""The modules outside of this room that have passes which a text may name."""
PassLike: TypeAlias = "Pass | Pipeline | Rule | RuleSet | str | Iterable[PassLike]"


class Runner(Protocol):
    """A function that runs a graph in place of the interpreter.

    With `looks = True` it checks for Ctrl-C itself; others may be interrupted anywhere.
    """

    def run(
        self,
        environment: Environment,
        wanted: Iterable[int],
        known: Mapping[int, Array],
        trace: list[NodeStep] | None = None,
    ) -> dict[int, Array]:
        """Return the values of the wanted nodes, by their ids."""
        ...


@told_class
@dataclass(frozen=True)
class Pipeline:
    """Passes that run one after another, for up to `rounds` rounds or until nothing changes.

    >>> from luminal_lab.passes.simplify import Simplify
    >>> print(Pipeline([Simplify(), [Simplify(limit=3), "simplify"]]))
    simplify, (simplify{limit = 3}, simplify)
    """

    name: ClassVar[str] = ""
    is_early: ClassVar[bool] = False
    """Whether it must run before any device pass, wherever the pipeline lists it."""
    passes: tuple[Pass | Pipeline, ...] = ()
    rounds: int = 1
    """The most rounds; it ends earlier if a round changes nothing."""
    licence: tuple[str, ...] | None = None
    """The facts about values that rules may assume; None: those of the outer pipeline."""

    @partial(told, name="Pipeline", whole=True)
    def __init__(
        self,
        passes: Iterable[PassLike] = (),
        *,
        rounds: int = 1,
        licence: Iterable[str] | None = None,
    ) -> None:
        count = whole_number(rounds)
        if count is None or count < 1:
            raise PassError(f"pipeline: it cannot have {rounds!r} rounds", hint="give 1 or more")
        object.__setattr__(self, "passes", tuple(as_pass(entry) for entry in passes))
        object.__setattr__(self, "rounds", count)
        if licence is not None:
            licence = tuple(sorted({licence} if isinstance(licence, str) else set(licence)))
            for fact in licence:
                if fact not in FACTS:
                    raise PassError(
                        f"licence: there is no fact {fact!r}",
                        hint=nearest(fact, FACTS) or f"the facts: {', '.join(FACTS)}",
                    )
        object.__setattr__(self, "licence", licence)

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = told(cls.__init__, cls.__name__, whole=True)

    @property
    def has_options(self) -> bool:
        """Whether an option differs from its default."""
        return not self.name and bool(options_of(self).keys() - {"passes"})

    @override
    def __str__(self) -> str:
        inner = ", ".join(f"({p})" if _needs_brackets(p) else str(p) for p in self.passes)
        options = options_of(self)
        options.pop("passes", None)
        return spec_text(f"({inner})", options) if options else inner

    @override
    def __repr__(self) -> str:
        return f"<Pipeline {self}>"

    def __iter__(self) -> Iterator[Pass | Pipeline]:
        return iter(self.passes)

    def runner(self, ir: IR, specialise: Mapping[str, int] | None = None) -> Runner | None:
        """Return the runner of the resulting graph, unless the interpreter runs it.

        With `specialise` it has specialised code for these sizes of dims, besides the general code.

        >>> ll.GenericCompiler().runner(cx.ir) is None
        True
        """
        inner = [
            entry.runner(ir, specialise) for entry in self.passes if isinstance(entry, Pipeline)
        ]
        return next((runner for runner in reversed(inner) if runner is not None), None)

    def unless_here(self) -> None:
        """Raise a DeviceError if nothing on this machine runs what its devices compile.

        >>> ll.Pipeline(["generic", ll.CUDACompiler(emulate=True)]).unless_here()
        """
        for device in self.devices():
            if device is not self:
                device.unless_here()

    def devices(self) -> tuple[Pipeline, ...]:
        """Return the device pipelines that provide a runner: itself, or inner ones.

        >>> passes = ll.Pipeline([ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90")])
        >>> passes.devices()
        (<Pipeline cuda{arch = sm_90}>,)
        """
        if type(self).runner is not Pipeline.runner:
            return (self,)
        inner = [entry.devices() for entry in self.passes if isinstance(entry, Pipeline)]
        return tuple(device for devices in inner for device in devices)

    @property
    def is_device(self) -> bool:
        """Whether it, or an inner pipeline, provides a runner."""
        return bool(self.devices())

    def alone(self) -> Self:
        """Return this device without its passes, to run a graph unchanged.

        >>> from luminal_lab.devices.cpu.compiler import CPUCompiler
        >>> [*CPUCompiler(threads=1).alone()]
        []
        """
        empty = copy(self)
        object.__setattr__(empty, "passes", ())
        return empty

    def unawaited(self) -> Self:
        """Return the same passes, with devices that compile in the background if they can.

        >>> print(ll.Pipeline([ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90")]).unawaited())
        generic, cuda{arch = sm_90}
        """
        same = copy(self)
        inner = (p.unawaited() if isinstance(p, Pipeline) else p for p in self.passes)
        object.__setattr__(same, "passes", tuple(inner))
        return same

    def staged(self) -> Pipeline:
        """Return the same passes, with the early ones moved before the first device.

        >>> print(ll.Pipeline([ll.CUDACompiler(arch="sm_90"), ll.HalfPrecision()]).staged())
        half, cuda{arch = sm_90}
        """
        first = next(
            (
                k
                for k, entry in enumerate(self.passes)
                if isinstance(entry, Pipeline) and entry.is_device
            ),
            None,
        )
        if first is None:
            return self
        after = self.passes[first:]
        early = [entry for entry in after if entry.is_early]
        rest = [entry for entry in after if not entry.is_early]
        return Pipeline(
            [*self.passes[:first], *early, *rest], rounds=self.rounds, licence=self.licence
        )

    def flat(self) -> Iterator[Pass]:
        """Yield all passes in order, including those of inner pipelines.

        >>> [pass_.name for pass_ in ll.parse_pipeline("simplify, (cse, dce){rounds = 2}").flat()]
        ['simplify', 'cse', 'dce']
        """
        for entry in self.passes:
            if isinstance(entry, Pipeline):
                yield from entry.flat()
            else:
                yield entry


def _needs_brackets(entry: Pass | Pipeline) -> bool:
    return isinstance(entry, Pipeline) and not entry.name and not str(entry).startswith("(")


def as_pass(like: object) -> Pass | Pipeline:
    """Return the pass or pipeline for text, a rule, or a list of passes."""
    if isinstance(like, Pass):
        if not hasattr(like, "name"):
            raise fault(type(like), "has no name", 'write name: ClassVar[str] = "my-pass" in it')
        option_types(type(like))  # a class in a notebook may have forgotten to be a dataclass
        return like
    if isinstance(like, Pipeline):
        return like
    if isinstance(like, Rule):
        like = RuleSet(like.name, like)
    if isinstance(like, RuleSet):
        return Rewrite(like)
    if isinstance(like, str):
        parsed = parse_pipeline(like)
        return parsed.passes[0] if len(parsed.passes) == 1 else parsed
    if isinstance(like, type) and issubclass(like, (Pass, Pipeline)):
        raise PassError(
            f"pipeline: {like.__name__} is the class of a pass", hint=f"write {like.__name__}()"
        )
    if isinstance(like, Iterable) and not isinstance(like, Mapping):
        is_plain = isinstance(like, (list, tuple, Iterator))
        whole = cast("Iterable[PassLike]", like)
        parts = list(whole)
        # Steps of a recording are recordings themselves, and a new graph has no tensors yet.
        if is_plain or (parts and all(type(part) is not type(whole) for part in parts)):
            return Pipeline(parts)
    raise _no_pass(cast("object", like))


def _meant(name: str) -> str:
    """Return what a name that no pass has was probably meant to be."""
    if (rule := variable_of(name)) is not None:
        return f"it is a rule, which is given as it is: cx.compile({rule})"
    return nearest(name, known_passes()) or "import the module that defines it first"


def _no_pass(like: object) -> PassError:
    if inspect.isfunction(like):
        return PassError(
            f"pipeline: {like.__name__} is a function, and no pass yet",
            hint=f"write @ll.graph_pass above def {like.__name__}(ir, edit)",
        )
    return PassError(
        f"pipeline: {like!r} is not a pass",
        hint="give passes, rules, lists of them, or text such as 'simplify, cse, dce'",
    )


# -- text ------------------------------------------------------------------------------------------

MOST_LETTERS = 100_000
"""The most letters of a pipeline's text."""
DEEPEST = 50
"""The deepest nesting of pipelines in text."""
MOST_PASSES = 1_000
"""The most passes and pipelines in a text; some pipelines contain thirty."""
MARKS = frozenset("(){}[],=")
TOKEN = re.compile(r"\s*([A-Za-z][A-Za-z0-9_.-]*|-?[0-9][0-9.e+-]*|[(){}\[\],=]|\S)")


def known_passes() -> dict[str, type[Pass] | type[Pipeline]]:
    """Return all currently defined classes of passes and pipelines, by name."""
    classes: dict[str, type[Pass] | type[Pipeline]] = {}
    todo: list[type[Pass] | type[Pipeline]] = [Pass, Pipeline]
    for cls in todo:
        todo += cls.__subclasses__()
        name = vars(cls).get("name")
        if name and cls is not Rewrite:  # text cannot spell its rules
            classes[name] = cls  # the later of two equal names wins: a cell run twice
    return classes


@partial(told, whole=True)
def parse_pipeline(text: str) -> Pipeline:
    """Return the pipeline of a text, the inverse of `str`.

    >>> from luminal_lab.passes import simplify
    >>> print(parse_pipeline("(simplify{limit = 10}, simplify){rounds = 3}"))
    (simplify{limit = 10}, simplify){rounds = 3}
    """
    if len(text) > MOST_LETTERS:
        raise ParseError(f"pipeline: it has {len(text):,} letters, and may have {MOST_LETTERS:,}")
    parser = _Parser(text)
    passes = parser.items(None)
    if len(passes) == 1 and isinstance(passes[0], Pipeline) and passes[0].has_options:
        return passes[0]
    return Pipeline(passes)


def all_passes() -> dict[str, type[Pass] | type[Pipeline]]:
    """Return the passes and pipelines of the package, with those of users, by name.

    All files in `passes/` are loaded, so a new file needs no entry anywhere.
    """
    folder = luminal_lab.passes.__path__
    for module in pkgutil.iter_modules(folder, "luminal_lab.passes."):
        import_module(module.name)
    for name in ELSEWHERE:
        import_module(f"luminal_lab.{name}")
    return known_passes()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        # Trailing spaces are stripped, since matching from each of them would be quadratic.
        bare = text.rstrip()
        self.tokens = [(m.group(1), m.start(1)) for m in TOKEN.finditer(bare)]
        self.tokens.append(("", len(bare)))
        self.position = 0
        self.depth = 0
        self.count = 0

    def token(self) -> str:
        return self.tokens[self.position][0]

    def take(self) -> str:
        """Take a token; the last one, the end, stays."""
        word = self.token()
        self.position += bool(word)
        return word

    def expect(self, wanted: str) -> None:
        if self.token() != wanted:
            token = repr(self.token()) if self.token() else "the end"
            self.fail(f"expected {wanted!r}, but found {token}")
        self.position += 1

    def fail(self, what: str, hint: str | None = None, position: int | None = None) -> NoReturn:
        column = self.tokens[self.position if position is None else position][1]
        # A long line is cut to a window around the error.
        start = max(self.text.rfind("\n", 0, column) + 1, column - 80)
        line = self.text[start : column + 60].split("\n", 1)[0]
        where = f"{line}\n{' ' * (column - start)}^"
        raise ParseError(f"pipeline, column {column + 1}: {what}", where=where, hint=hint)

    def items(self, end: str | None) -> list[Pass | Pipeline]:
        items: list[Pass | Pipeline] = []
        while self.token() != (end or ""):
            items.append(self.item())
            if self.token() == ",":
                self.position += 1
            elif self.token() != (end or ""):
                self.fail(f"expected ',' or {end!r}" if end else "expected ',' or the end")
        return items

    def item(self) -> Pass | Pipeline:
        self.count += 1
        if self.count > MOST_PASSES:
            self.fail(f"it has more than {MOST_PASSES:,} passes")
        if self.token() == "(":
            self.position += 1
            self.depth += 1
            if self.depth > DEEPEST:
                self.fail(f"pipelines are nested more than {DEEPEST} deep")
            inner = self.items(")")
            self.expect(")")
            self.depth -= 1
            return self.built(Pipeline, {"passes": inner})
        start, name = self.position, self.take()
        cls = known_passes().get(name) or all_passes().get(name)
        if cls is None:
            self.fail(
                f"there is no pass {name!r}" if name else "a pass is missing",
                _meant(name),
                start,
            )
        return self.built(cls, {})

    def built(self, cls: type[Pass] | type[Pipeline], given: dict[str, Any]) -> Pass | Pipeline:
        taken = inspect.signature(cls).parameters
        types = {name: of for name, of in option_types(cls).items() if name in taken}
        types.pop("passes", None)
        start, of_text = self.position, getattr(cls, "of_text", cls)
        is_refused = of_text is not cls and not inspect.signature(of_text).parameters
        if self.token() == "{" and not is_refused:
            self.position += 1
            while self.token() != "}":
                name = self.token()
                if name not in types:
                    what = f"{cls.name or 'a pipeline'} has no option {name!r}"
                    known = f"its options: {', '.join(types)}" if types else "it has no options"
                    self.fail(what, nearest(name, types) or known)
                if name in given:
                    self.fail(f"{name} is given twice")
                self.position += 1
                self.expect("=")
                given[name] = self.value(name, types[name])
                if self.token() != "}":
                    self.expect(",")
            self.expect("}")
        try:
            # A class may check whether a text, which can come from a file, may say all that.
            return of_text(**given)
        except TrustError:
            raise
        except LabError as error:
            self.fail(error.message, error.hint, start)

    def word(self, name: str) -> str:
        """Take one value, which must not be a punctuation mark."""
        if not self.token() or self.token() in MARKS:
            token = repr(self.token()) if self.token() else "the end"
            self.fail(f"the value of {name} is missing: there is {token}")
        return self.take()

    def value(self, name: str, wanted: object) -> Option:
        start = self.position
        choices = [choice for choice in get_args(wanted) or (wanted,) if choice is not type(None)]
        if self.token() == "[":
            self.position += 1
            words: list[str] = []
            while self.token() != "]":
                words.append(self.word(name))
                if self.token() != "]":
                    self.expect(",")
            self.expect("]")
            if wanted == tuple[str, ...] or any(get_origin(choice) is tuple for choice in choices):
                return tuple(words)
            return self.fail(f"{name} takes no list", position=start)
        word = self.word(name)
        for kind in choices:
            if kind is bool and word in ("true", "false"):
                return word == "true"
            if kind is int and WHOLE.fullmatch(word):
                return int(word)
            if kind is float and REAL.fullmatch(word) and isfinite(float(word)):
                return float(word)
            if kind is str:
                return word
        expected = " or ".join(
            "a list, as in [a, b]"
            if get_origin(choice) is tuple or wanted == tuple[str, ...]
            else getattr(choice, "__name__", str(choice))
            for choice in choices
        )
        return self.fail(f"{name} is {expected}, and not {word!r}", position=start)
