"""Jinja for templates of strangers: nothing but data is in reach, and little work may be done.

Each value and each step of a template costs a share of a budget, so that what would take long or
much memory is refused before it is done. What it may call is listed here: everything else is not
there. Only `ChatTemplate` imports this module, as it needs the package jinja2.
"""

# pyright: basic
# A template's values are of any type, and so are Jinja's nodes.

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import wraps
from types import BuiltinMethodType
from typing import Any, Final, NoReturn, cast

from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.compiler import CodeGenerator
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.lexer import TokenStream
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, TemplateReference, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace
from typing_extensions import override

MOST: Final = 1 << 20
"""The most letters of a value, where what is given to the template is small."""
TIMES: Final = 4
"""How many times as large as what is given a value may be."""
WORK: Final = 1 << 24
"""The budget: letters that are read or written, …"""
WORK_TIMES: Final = 256
"""… and so many more for each letter that is given."""
STEP, CALL, ITEM = 32, 128, 8
"""What a step of a loop, a call or an operation, and an item of a list cost."""
MOST_WORDS: Final = 1 << 14
"""The most words and signs of a template."""
MOST_BITS: Final = 1 << 12
"""The most bits of a whole number."""
MOST_WIDTH: Final = 1_000
"""The largest width, indent or precision."""
DEEPEST: Final = 32
"""The deepest nesting of lists and objects."""
FILTERS: Final = [
    "abs", "attr", "batch", "capitalize", "center", "count", "d", "default", "dictsort", "e",
    "escape", "first", "float", "forceescape", "format", "groupby", "indent", "int", "items",
    "join", "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr",
    "replace", "reverse", "round", "safe", "select", "selectattr", "slice", "sort", "string",
    "sum", "title", "trim", "truncate", "unique", "upper", "urlencode", "wordcount",
]  # fmt: skip
"""The filters of Jinja that a template may use, beside tojson."""
CHEAP: Final = frozenset(
    [
        "abs", "attr", "count", "d", "default", "first", "float", "int", "items", "last",
        "length", "map", "reject", "rejectattr", "round", "safe", "select", "selectattr",
        "boolean", "callable", "defined", "divisibleby", "even", "false", "filter", "float",
        "integer", "iterable", "mapping", "none", "number", "odd", "sameas", "sequence",
        "string", "test", "true", "undefined",
    ]
)  # fmt: skip
"""Filters and tests that look at few of the letters that they are given."""
METHODS: Final[Mapping[type, frozenset[str]]] = {
    str: frozenset(
        [
            "capitalize", "casefold", "center", "count", "endswith", "find", "format", "index",
            "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower",
            "isnumeric", "isprintable", "isspace", "istitle", "isupper", "join", "ljust",
            "lower", "lstrip", "partition", "removeprefix", "removesuffix", "replace", "rfind",
            "rindex", "rjust", "rpartition", "rsplit", "rstrip", "split", "splitlines",
            "startswith", "strip", "swapcase", "title", "upper", "zfill",
        ]
    ),
    dict: frozenset(["copy", "get", "items", "keys", "values"]),
    list: frozenset(["copy", "count", "index"]),
    tuple: frozenset(["count", "index"]),
    int: frozenset(["bit_length"]),
    float: frozenset(["is_integer"]),
}  # fmt: skip
"""The methods of data that a template may call."""
OURS: Final = (
    BlockReference, Cycler, Joiner, LoopContext, Macro, Namespace, TemplateReference, Undefined
)  # fmt: skip
"""Objects of Jinja's, whose public names are all safe."""
WIDTH: Final = re.compile(r"\d+")
FIELD: Final = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(\d*)(?:\.(\d+))?[hlL]?[a-zA-Z%]")
TIME: Final = re.compile(r"(?:[^%]|%-?[a-zA-Z%])*")


class TooMuchError(Exception):
    """A template does more than it may."""


class Budget:
    """What a template may still do in one rendering."""

    def __init__(self, *given: object) -> None:
        self.known: dict[int, tuple[object, int]] = {}
        """The sizes of lists and objects, which cannot change, by their ids."""
        self.most = self.left = 1 << 62
        size = sum(map(self.size, given))
        self.most = max(MOST, TIMES * size)
        self.left = WORK + WORK_TIMES * size

    def work(self, amount: int) -> None:
        """Take from what is left."""
        self.left -= amount
        if self.left < 0:
            raise TooMuchError("it does more work than a chat needs")

    def fits(self, size: int) -> None:
        """Refuse a value of such a size, and count it."""
        if size > self.most:
            raise TooMuchError(f"it makes a value of more than {self.most:,} letters")
        self.work(size)

    def size(self, value: object, deep: int = 0) -> int:
        """Return how many letters a value has as text, or about so many."""
        if isinstance(value, str):
            return len(value) + 1
        if isinstance(value, int):
            return 1 + (value.bit_length() >> 2)
        items = parts(value)
        if items is None:
            return 1
        if id(value) in self.known:
            return self.known[id(value)][1]
        if deep > DEEPEST:
            raise TooMuchError(f"it nests values more than {DEEPEST} deep")
        size = ITEM
        for item in items:
            if isinstance(item, Namespace):
                raise TooMuchError("it puts a namespace into another value")
            self.work(ITEM)
            size += ITEM + self.size(item, deep + 1)
            if size > self.most:
                raise TooMuchError(f"it makes a value of more than {self.most:,} letters")
        if not isinstance(value, Namespace):
            self.known[id(value)] = value, size
        return size


def parts(value: object) -> Iterable[object] | None:
    """Return what a value holds, or None if it holds nothing."""
    if isinstance(value, (list, tuple)):
        return cast("Iterable[object]", value)
    if isinstance(value, Namespace):
        value = cast("dict[str, object]", getattr(value, "_Namespace__attrs"))  # noqa: B009
    if isinstance(value, dict):
        return (part for pair in cast("dict[object, object]", value).items() for part in pair)
    return cast("Iterable[object]", value) if isinstance(value, VIEWS) else None


VIEWS: Final = (type({}.keys()), type({}.values()), type({}.items()))


__all__ = ["Budget", "RefusalError", "Sandbox", "TemplateSyntaxError", "TooMuchError", "budget"]
_budget: ContextVar[Budget] = ContextVar("budget")


@contextmanager
def budget(given: Budget) -> Generator[None]:
    """Count what templates do within."""
    token = _budget.set(given)
    try:
        yield
    finally:
        _budget.reset(token)


def steps(values: Any) -> Any:
    """Yield values, each of which counts."""
    count = _budget.get().work
    for value in values:
        count(STEP)
        yield value


def read(value: Any) -> Any:
    """Return a value, all of which is read."""
    if isinstance(value, Iterator):
        return steps(value)
    now = _budget.get()
    now.work(now.size(value) + ITEM)
    return value


def searched(value: Any) -> Any:
    """Return a value in which another one is looked for."""
    return value if isinstance(value, dict) else read(value)


def sliced(value: Any) -> Any:
    """Return a value of which a part is copied."""
    _budget.get().work(STEP + (len(value) if isinstance(value, (str, list, tuple)) else 0))
    return value


def kept(value: Any) -> Any:
    """Return a value that was made, if it is not too large."""
    now = _budget.get()
    now.fits(now.size(value) if isinstance(value, (str, int)) else now.size(value) and ITEM)
    return value


class Guarded(CodeGenerator):
    """Code in which whatever costs is counted, and nothing is worked out in advance."""

    @override
    def visit_Call(self, node: nodes.Call, frame: Any, forward_caller: bool = False) -> None:
        if isinstance(node.node, nodes.EnvironmentAttribute):
            self.write(f"environment.{node.node.name}(")
            self.visit(node.args[0], frame)
            self.write(")")
        else:
            super().visit_Call(node, frame, forward_caller=forward_caller)

    @override
    def visit_For(self, node: nodes.For, frame: Any) -> None:
        node.iter = _call("steps", node.iter)
        super().visit_For(node, frame)

    @override
    def signature(self, node: Any, frame: Any, extra_kwargs: Any = None) -> None:
        for name in ("dyn_args", "dyn_kwargs"):
            if (given := getattr(node, name)) is not None:
                setattr(node, name, _call("read", given))
        super().signature(node, frame, extra_kwargs)

    @override
    def visit_Compare(self, node: nodes.Compare, frame: Any) -> None:
        node.expr = _call("read", node.expr)
        super().visit_Compare(node, frame)

    @override
    def visit_Operand(self, node: nodes.Operand, frame: Any) -> None:
        node.expr = _call("searched" if node.op in ("in", "notin") else "read", node.expr)
        super().visit_Operand(node, frame)

    @override
    def visit_Getitem(self, node: nodes.Getitem, frame: Any) -> None:
        if isinstance(node.arg, nodes.Slice):
            node.node = _call("sliced", node.node)
        super().visit_Getitem(node, frame)

    @override
    def visit_Concat(self, node: nodes.Concat, frame: Any) -> None:
        node.nodes = [_call("read", child) for child in node.nodes]
        self._kept(super().visit_Concat, node, frame)

    @override
    def visit_List(self, node: nodes.List, frame: Any) -> None:
        self._kept(super().visit_List, node, frame)

    @override
    def visit_Dict(self, node: nodes.Dict, frame: Any) -> None:
        self._kept(super().visit_Dict, node, frame)

    @override
    def visit_Tuple(self, node: nodes.Tuple, frame: Any) -> None:
        if node.ctx == "load":
            self._kept(super().visit_Tuple, node, frame)
        else:
            super().visit_Tuple(node, frame)

    def _kept(self, visit: Callable[[Any, Any], None], node: nodes.Node, frame: Any) -> None:
        self.write("environment.kept(")
        visit(node, frame)
        self.write(")")

    @override
    def visit_Output(self, node: nodes.Output, frame: Any) -> None:
        node.nodes = [_call("read", child) for child in node.nodes]
        super().visit_Output(node, frame)

    @override
    def _output_child_to_const(self, node: nodes.Expr, frame: Any, finalize: Any) -> str:
        raise nodes.Impossible


def _call(wrapper: str, node: Any) -> nodes.Call:
    """Return what passes a value through one of the wrappers."""
    return nodes.Call(
        nodes.EnvironmentAttribute(wrapper), [node], [], None, None, lineno=node.lineno
    )


class Names(Namespace):
    """What a template keeps between steps of a loop: data under public names."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # `self` may be a name, too
        Namespace.__init__(*args, **kwargs)
        for name, value in getattr(args[0], "_Namespace__attrs").items():  # noqa: B009
            _allowed(name, value)

    @override
    def __setitem__(self, name: str, value: Any) -> None:
        _allowed(name, value)
        super().__setitem__(name, value)


def _allowed(name: object, value: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace has no private name {name[:40]!r}")
    if isinstance(value, Namespace):
        raise TooMuchError("it puts a namespace into another one")


class Generation(Extension):
    """`{% generation %}` marks what a model writes, for training; here it changes nothing."""

    tags: Final = {"generation"}  # pyright: ignore[reportIncompatibleVariableOverride]

    @override
    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja as chat templates know it, in which a budget limits what they do."""

    code_generator_class = Guarded
    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "%", "**"])
    steps = staticmethod(steps)
    read = staticmethod(read)
    searched = staticmethod(searched)
    sliced = staticmethod(sliced)
    kept = staticmethod(kept)

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            extensions=[loopcontrols, Generation],
        )
        self.globals = {
            "range": self.globals["range"],
            "dict": _dict,
            "namespace": Names,
            "cycler": Cycler,
            "joiner": Joiner,
            "raise_exception": _raise,
            "strftime_now": _now,
        }
        self.filters = {name: _counted(name, self.filters[name]) for name in FILTERS}
        self.filters["tojson"] = _counted("tojson", _json)
        self.tests = {name: _counted(name, test) for name, test in self.tests.items()}

    @override
    def _tokenize(self, *source: Any) -> TokenStream:
        return TokenStream(_few(super()._tokenize(*source)), source[1], source[2])

    @override
    def getattr(self, obj: Any, attribute: str) -> Any:
        _budget.get().work(CALL)
        return super().getattr(obj, attribute)

    @override
    def getitem(self, obj: Any, argument: Any) -> Any:
        _budget.get().work(CALL)
        return super().getitem(obj, argument)

    @override
    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if not super().is_safe_attribute(obj, attr, value):
            return False
        known = (attr in names for kind, names in METHODS.items() if isinstance(obj, kind))
        return isinstance(obj, OURS) or any(known)

    @override
    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        if value.__name__ != "format":
            return self.unsafe_undefined(value.__self__, value.__name__)

        @wraps(wrapped)
        def formatted(*args: Any, **kwargs: Any) -> str:
            _fits_fields(value.__self__, [*args, *kwargs.values()])
            return wrapped(*args, **kwargs)

        return formatted

    @override
    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        now = _budget.get()
        now.work(CALL)
        given = [_taken(value) for value in args]
        owner = __obj.__self__ if isinstance(__obj, BuiltinMethodType) else None
        if isinstance(owner, str):
            now.work(len(owner) + sum(map(now.size, given)))
            _check(__obj.__name__, owner, given)
        elif isinstance(owner, (list, tuple)):
            now.work(now.size(owner))
        return kept(super().call(__context, __obj, *given, **kwargs))

    @override
    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        now = _budget.get()
        now.work(CALL)
        if operator == "*":
            for times, value in ((left, right), (right, left)):
                if isinstance(times, int) and isinstance(value, (str, list, tuple)):
                    now.fits(
                        max(times, 0) * (len(value) if isinstance(value, str) else now.size(value))
                    )
        if operator in "**" and isinstance(left, int) and isinstance(right, int):
            bits = (
                left.bit_length() * right
                if operator == "**"
                else (left.bit_length() + right.bit_length())
            )
            if bits > MOST_BITS:
                raise TooMuchError("it makes a number of too many digits")
        if operator == "%" and isinstance(left, str):
            _fits_format(left, right)
        if operator == "+":
            now.work(_length(left) + _length(right))
        return kept(super().call_binop(context, operator, left, right))


def _few(tokens: Iterable[Any]) -> Iterator[Any]:
    """Yield the words of a template, unless it has too many."""
    for count, token in enumerate(tokens):
        if count > MOST_WORDS:
            raise TooMuchError(f"it has more than {MOST_WORDS:,} words and signs")
        yield token


def _length(value: Any) -> int:
    return len(value) if isinstance(value, (str, list, tuple)) else 1


def _taken(value: Any) -> Any:
    """Return an argument; what comes one by one counts."""
    return steps(value) if isinstance(value, Iterator) else value


def _counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter or test that pays for what it reads and makes."""
    skipped = int(hasattr(function, "jinja_pass_arg"))

    @wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        now = _budget.get()
        now.work(CALL)
        given = [_taken(value) for value in args[skipped:]]
        if name not in CHEAP:
            now.work(sum(map(now.size, given)) + sum(map(now.size, kwargs.values())))
        if given:
            _check(name, given[0], [*given[1:], *kwargs.values()])
        if name == "sum":
            given[0] = [item for item in given[0] if not isinstance(item, (str, list, tuple))]
        return kept(function(*args[:skipped], *given, **kwargs))

    return counted


def _check(name: str, value: Any, given: list[Any]) -> None:
    """Refuse what would make much of little, before it does."""
    now = _budget.get()
    numbers = [item for item in given if isinstance(item, int)]
    if name in WIDE and any(abs(number) > MOST_WIDTH for number in numbers):
        raise TooMuchError(f"{name} with a number above {MOST_WIDTH:,}")
    text = [item for item in given if isinstance(item, str)]
    if name == "replace" and len(text) > 1:
        value = str(value)
        count = value.count(text[0]) if text[0] else len(value) + 1
        now.fits(len(value) + count * len(text[1]))
    elif (
        name == "join" and isinstance(value, str) and given and isinstance(given[0], (list, tuple))
    ):
        now.fits(now.size(given[0]) + len(given[0]) * len(value))
    elif name == "join" and text:
        now.fits(len(text[0]) * (_length(value) if not isinstance(value, Iterator) else 1))
    elif name == "indent":
        lines = str(value).count("\n") + 1
        width = sum(map(len, text)) + sum(numbers) + 4
        now.fits(len(str(value)) + lines * width)
    elif name == "format" and isinstance(value, str):
        _fits_format(value, given)


WIDE: Final = frozenset(
    ["batch", "center", "indent", "int", "ljust", "rjust", "round", "slice", "tojson", "truncate",
     "zfill"]
)  # fmt: skip
"""What makes as much as a number says."""


def _fits_format(text: str, given: Any) -> None:
    """Refuse a text with `%` that would become too large."""
    now = _budget.get()
    if "*" in text:
        raise TooMuchError("a width of a format that is given beside it")
    widths = [int(number) if len(number) < 5 else MOST_WIDTH + 1 for number in WIDTH.findall(text)]
    if any(width > MOST_WIDTH for width in widths):
        raise TooMuchError(f"a width of a format above {MOST_WIDTH:,}")
    now.fits(len(text) + sum(widths) + text.count("%") * now.size(given))


def _fits_fields(text: str, given: list[Any]) -> None:
    """Refuse a text with `{}` that would become too large."""
    now = _budget.get()
    if re.search(r"\{[^{}]*:[^{}]*\{", text):
        raise TooMuchError("a width of a format that is given beside it")
    widths = [int(number) if len(number) < 5 else MOST_WIDTH + 1 for number in WIDTH.findall(text)]
    if any(width > MOST_WIDTH for width in widths):
        raise TooMuchError(f"a width of a format above {MOST_WIDTH:,}")
    now.fits(len(text) + sum(widths) + text.count("{") * sum(map(now.size, given)))


def _json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    """Return a value as JSON, all letters as they are."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    """Return a dict; the class itself has more than that."""
    return dict(*args, **kwargs)


class RefusalError(TemplateError):
    """A template says that it is not for these messages."""


def _raise(message: object) -> NoReturn:
    raise RefusalError(str(message)[:MOST_WIDTH])


def _now(form: str) -> str:
    """Return the time of day, in some form."""
    if not isinstance(form, str) or len(form) > MOST_WIDTH or not TIME.fullmatch(form):  # pyright: ignore[reportUnnecessaryIsInstance]  # a template calls
        raise TemplateError("strftime_now has a form with a width, or none")
    return datetime.now().strftime(form)  # the reader's own time
