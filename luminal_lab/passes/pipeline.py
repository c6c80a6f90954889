"""Pipelines: passes in order, nested, repeated to a fixpoint; and the text that spells them."""

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
from luminal_lab.core.interpret import Environment, Step
from luminal_lab.core.ir import IR
from luminal_lab.errors import LabError, ParseError, PassError, nearest, whole_number
from luminal_lab.passes.base import Option, Pass, fault, option_types, options_of, spec_text
from luminal_lab.passes.rewrite import Rewrite
from luminal_lab.passes.rule import FACTS, Rule, RuleSet
from luminal_lab.reading import REAL, WHOLE
from luminal_lab.tensor.arguments import told

LICENCE = ("contract", "no_signed_zero")
"""What a pipeline may assume unless it says otherwise: that nobody asks for the sign of a zero."""
DEVICES = ("cpu", "cuda", "metal")
PassLike: TypeAlias = "Pass | Pipeline | Rule | RuleSet | str | Iterable[PassLike]"


class Runner(Protocol):
    """What runs a graph in place of the interpreter.

    One that has `looks = True` says itself where Ctrl-C may break it off; others always may be.
    """

    def run(
        self,
        environment: Environment,
        wanted: Iterable[int],
        known: Mapping[int, Array],
        trace: list[Step] | None = None,
    ) -> dict[int, Array]:
        """Return the values of the wanted nodes, by their ids."""
        ...


@dataclass(frozen=True)
class Pipeline:
    """Passes that run one after another, as often as `rounds` says or until nothing changes.

    >>> from luminal_lab.passes.simplify import Simplify
    >>> print(Pipeline([Simplify(), [Simplify(limit=3), "simplify"]]))
    simplify, (simplify{limit = 3}, simplify)
    """

    name: ClassVar[str] = ""
    is_early: ClassVar[bool] = False
    """Whether it works on what devices make kernels of: wherever it is put, it runs before one."""
    passes: tuple[Pass | Pipeline, ...] = ()
    rounds: int = 1
    """The most rounds; it ends earlier if a round has changed nothing."""
    licence: tuple[str, ...] | None = None
    """The facts about values that rules may assume; None: those of the pipeline around it."""

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
        object.__setattr__(self, "passes", tuple(as_pass(one) for one in passes))
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
        """Whether something is not as by default."""
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
        """Return what runs the graph that came out, if it is not the interpreter.

        With `specialise` it has code of its own for these sizes of dims, beside the general one.
        """
        inner = [one.runner(ir, specialise) for one in self.passes if isinstance(one, Pipeline)]
        return next((one for one in reversed(inner) if one is not None), None)

    def devices(self) -> tuple[Pipeline, ...]:
        """Return those that say what runs the graph: itself, or pipelines in it."""
        if type(self).runner is not Pipeline.runner:
            return (self,)
        inner = [one.devices() for one in self.passes if isinstance(one, Pipeline)]
        return tuple(device for devices in inner for device in devices)

    @property
    def is_device(self) -> bool:
        """Whether it, or a pipeline in it, says what runs the graph."""
        return bool(self.devices())

    def alone(self) -> Self:
        """Return it without its passes: a device that runs the graph as it comes.

        >>> from luminal_lab.devices.cpu.compiler import CPUCompiler
        >>> [*CPUCompiler(threads=1).alone()]
        []
        """
        made = copy(self)
        object.__setattr__(made, "passes", ())
        return made

    def staged(self) -> Pipeline:
        """Return the same passes, with those that must be early before the first device."""
        place = next(
            (k for k, one in enumerate(self.passes) if isinstance(one, Pipeline) and one.is_device),
            None,
        )
        if place is None:
            return self
        after = self.passes[place:]
        early = [one for one in after if one.is_early]
        rest = [one for one in after if not one.is_early]
        return Pipeline(
            [*self.passes[:place], *early, *rest], rounds=self.rounds, licence=self.licence
        )

    def flat(self) -> Iterator[Pass]:
        """Yield all passes, those of inner pipelines too, in order."""
        for one in self.passes:
            if isinstance(one, Pipeline):
                yield from one.flat()
            else:
                yield one


def _needs_brackets(one: Pass | Pipeline) -> bool:
    return isinstance(one, Pipeline) and not one.name and not str(one).startswith("(")


def as_pass(like: object) -> Pass | Pipeline:
    """Return the pass or pipeline that something stands for: text, a rule, a list of passes."""
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
        return Pipeline(cast("Iterable[PassLike]", like))
    raise PassError(
        f"pipeline: {like!r} is no pass",
        hint="give passes, rules, lists of them, or text such as 'simplify, cse, dce'",
    )


# -- text ------------------------------------------------------------------------------------------

MOST_LETTERS = 100_000
"""Of the text of a pipeline."""
DEEPEST = 50
"""Pipelines within one another as text."""
MOST_PASSES = 1_000
"""Passes of a text, and pipelines: some of them are made of thirty."""
MARKS = frozenset("(){}[],=")
TOKEN = re.compile(r"\s*([A-Za-z][A-Za-z0-9_.-]*|-?[0-9][0-9.e+-]*|[(){}\[\],=]|\S)")


def known_passes() -> dict[str, type[Pass] | type[Pipeline]]:
    """Return all classes of passes and pipelines that are defined now, by name."""
    found: dict[str, type[Pass] | type[Pipeline]] = {}
    todo: list[type[Pass] | type[Pipeline]] = [Pass, Pipeline]
    for cls in todo:
        todo += cls.__subclasses__()
        name = vars(cls).get("name")
        if name and cls is not Rewrite:  # whose rules text cannot spell
            found[name] = cls  # of two with one name the later is meant: a cell run twice
    return found


@partial(told, whole=True)
def parse_pipeline(text: str) -> Pipeline:
    """Return the pipeline that text spells, as `str` of it does.

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

    Whoever adds a file to `passes/` need not name it anywhere: all of them are loaded.
    """
    folder = luminal_lab.passes.__path__
    for module in pkgutil.iter_modules(folder, "luminal_lab.passes."):
        import_module(module.name)
    for device in DEVICES:
        import_module(f"luminal_lab.devices.{device}.compiler")
    return known_passes()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        # Spaces that no token follows would be read once from each of them.
        bare = text.rstrip()
        self.tokens = [(m.group(1), m.start(1)) for m in TOKEN.finditer(bare)]
        self.tokens.append(("", len(bare)))
        self.place = 0
        self.depth = 0
        self.count = 0

    def token(self) -> str:
        return self.tokens[self.place][0]

    def take(self) -> str:
        """Take a token, of which the last, the end, stays."""
        word = self.token()
        self.place += bool(word)
        return word

    def expect(self, wanted: str) -> None:
        if self.token() != wanted:
            found = repr(self.token()) if self.token() else "the end"
            self.fail(f"expected {wanted!r}, but found {found}")
        self.place += 1

    def fail(self, what: str, hint: str | None = None, place: int | None = None) -> NoReturn:
        column = self.tokens[self.place if place is None else place][1]
        # A long line is cut to a window around the place.
        start = max(self.text.rfind("\n", 0, column) + 1, column - 80)
        line = self.text[start : column + 60].split("\n", 1)[0]
        where = f"{line}\n{' ' * (column - start)}^"
        raise ParseError(f"pipeline, column {column + 1}: {what}", where=where, hint=hint)

    def items(self, end: str | None) -> list[Pass | Pipeline]:
        found: list[Pass | Pipeline] = []
        while self.token() != (end or ""):
            found.append(self.item())
            if self.token() == ",":
                self.place += 1
            elif self.token() != (end or ""):
                self.fail(f"expected ',' or {end!r}" if end else "expected ',' or the end")
        return found

    def item(self) -> Pass | Pipeline:
        self.count += 1
        if self.count > MOST_PASSES:
            self.fail(f"it has more than {MOST_PASSES:,} passes")
        if self.token() == "(":
            self.place += 1
            self.depth += 1
            if self.depth > DEEPEST:
                self.fail(f"pipelines are nested more than {DEEPEST} deep")
            inner = self.items(")")
            self.expect(")")
            self.depth -= 1
            return self.made(Pipeline, {"passes": inner})
        place, name = self.place, self.take()
        cls = known_passes().get(name) or all_passes().get(name)
        if cls is None:
            self.fail(
                f"there is no pass {name!r}" if name else "a pass is missing",
                nearest(name, known_passes()) or "import the module that defines it first",
                place,
            )
        return self.made(cls, {})

    def made(self, cls: type[Pass] | type[Pipeline], given: dict[str, Any]) -> Pass | Pipeline:
        taken = inspect.signature(cls).parameters
        types = {name: of for name, of in option_types(cls).items() if name in taken}
        types.pop("passes", None)
        place = self.place
        if self.token() == "{":
            self.place += 1
            while self.token() != "}":
                name = self.token()
                if name not in types:
                    what = f"{cls.name or 'a pipeline'} has no option {name!r}"
                    known = f"its options: {', '.join(types)}" if types else "it has no options"
                    self.fail(what, nearest(name, types) or known)
                if name in given:
                    self.fail(f"{name} is given twice")
                self.place += 1
                self.expect("=")
                given[name] = self.value(name, types[name])
                if self.token() != "}":
                    self.expect(",")
            self.expect("}")
        try:
            return cls(**given)
        except LabError as error:
            self.fail(error.message, error.hint, place)

    def word(self, name: str) -> str:
        """Take one value, which no mark is."""
        if not self.token() or self.token() in MARKS:
            found = repr(self.token()) if self.token() else "the end"
            self.fail(f"the value of {name} is missing: there is {found}")
        return self.take()

    def value(self, name: str, wanted: object) -> Option:
        place = self.place
        choices = [one for one in get_args(wanted) or (wanted,) if one is not type(None)]
        if self.token() == "[":
            self.place += 1
            words: list[str] = []
            while self.token() != "]":
                words.append(self.word(name))
                if self.token() != "]":
                    self.expect(",")
            self.expect("]")
            if wanted == tuple[str, ...] or any(get_origin(one) is tuple for one in choices):
                return tuple(words)
            return self.fail(f"{name} takes no list", place=place)
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
            if get_origin(one) is tuple or wanted == tuple[str, ...]
            else getattr(one, "__name__", str(one))
            for one in choices
        )
        return self.fail(f"{name} is {expected}, and not {word!r}", place=place)
