"""Effects that a graph may show when passes run on it: a rule fires, a search misses, an error.

Each is a question that a minimiser asks about graph after graph, and a test that can be pasted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast

from typing_extensions import override

from luminal_lab.core.ir import IR
from luminal_lab.errors import ArgumentError, GraphError, LabError, expect
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.generic import parse_pipeline
from luminal_lab.passes.pipeline import LICENCE, Pipeline

VARYING = re.compile(r"%[\w.]+|\d[\w.+-]*")
"""Names and numbers, which differ from graph to graph."""
MOST = 8
"""How many firings are compared for the smallest graph."""


def _same(text: str) -> str:
    """Return a sentence without what differs from graph to graph."""
    return VARYING.sub("…", text)


def is_given(value: object) -> bool:
    """Return whether an argument says something; arrays have no truth value.

    >>> is_given(None), is_given(""), is_given("softmax")
    (False, False, True)
    """
    return not (value is None or (isinstance(value, str) and not value))


@dataclass(frozen=True)
class Shown:
    """An effect of passes on a graph."""

    pipeline: Pipeline
    licence: tuple[str, ...] | None
    check: str | None

    @classmethod
    def of(
        cls,
        ir: IR,
        passes: object,
        fires: str,
        misses: str,
        at: object,
        raises: type[Exception] | None,
        check: str | None,
        licence: Iterable[str] | None,
    ) -> Shown:
        """Return the requested effect, as the graph shows it."""
        listed = isinstance(passes, (list, tuple))
        pipeline = Pipeline(cast("Any", passes if listed else [passes]))
        granted = None if licence is None else tuple(Pipeline(licence=licence).licence or ())
        given = pipeline, granted, check
        if raises is not None:
            return Raises(*given, *Raises.seen(ir, given, raises))
        name = misses if is_given(misses) else fires
        hint = 'give its name, as in "add-zero"'
        expect(name, str, "minimise: {} is neither a rule nor a search", hint)
        if fires:
            return Fires(*given, fires)
        if at is None:
            raise ArgumentError(
                f"minimise: {misses!r} misses at no node",
                hint="say where, as in at=y; a rule fires at a node",
            )
        compiled = Shown(*given).compiled(ir)
        node = compiled.find(compiled.node_of("minimise", cast("Any", at)))
        missed = Misses(*given, misses, node.id, "")
        why = missed.reason(compiled)
        if not why:
            raise GraphError(
                f"minimise: {misses} finds something at {node}, or does not begin there",
                hint=f"compilation.why_not({misses!r}, {str(node)!r}) tells which",
            )
        return Misses(*given, misses, node.id, why)

    def compiled(self, ir: IR) -> Compilation:
        """Run the passes on a graph."""
        licence = LICENCE if self.licence is None else self.licence
        return compile_ir(ir, self.pipeline, check=cast("Any", self.check), licence=licence)

    def __call__(self, ir: IR) -> bool:
        """Return whether a graph shows it."""
        raise NotImplementedError

    def ends(self, ir: IR) -> Iterable[int]:
        """Return the nodes of a graph that are likely to show it by themselves."""
        return ()

    def lines(self, ir: IR, compiling: str) -> tuple[str, list[str]]:
        """Return the name of a test, and the lines that assert the effect."""
        raise NotImplementedError

    def test(self, ir: IR, name: str) -> str:
        """Return a test of a graph, as a whole file."""
        own, asked = self._passes()
        more = f", check={_quoted(self.check)}" if self.check else ""
        if self.licence is not None and {*self.licence} != {*LICENCE}:
            more += f", licence=[{', '.join(map(_quoted, self.licence))}]"
        title, lines = self.lines(ir, f"ll.compile_ir(ir, {asked}{more})")
        imports = ["import pytest\n"] * any("pytest." in line for line in lines)
        body = "\n".join(f"    {line}" for line in lines)
        return (
            "\n".join([*imports, "import luminal_lab as ll", *own])
            + f'\n\n\ndef test_{name or title}():\n    ir = ll.parse("""{ir}""")\n{body}\n'
        )

    def _passes(self) -> tuple[list[str], str]:
        """Return the passes as Python: text that reads back, and names of the user's own."""
        own: list[str] = []
        asked: list[str] = []
        for is_text, group in groupby(_plain(self.pipeline), _reads_back):
            entries = [*group]
            if is_text:
                asked.append(_quoted(", ".join(map(str, entries))))
            for entry in () if is_text else entries:
                word = re.sub(r"\W", "_", str(entry).partition("{")[0])
                own.append(f"\n# {word} is a rule or a pass of yours: define or import it here.")
                own += [f"# {line}" for rule in entry.rules() for line in str(rule).splitlines()]
                asked.append(word)
        return own, ", ".join(asked)


def _plain(pipeline: Pipeline) -> Iterator[Any]:
    """Yield the passes of a pipeline, opening pipelines that only list some."""
    for entry in pipeline.passes:
        if type(entry) is Pipeline and entry.rounds == 1 and entry.licence is None:
            yield from _plain(entry)
        else:
            yield entry


def _reads_back(entry: object) -> bool:
    """Return whether the text of a pass reads back as a pass."""
    try:
        parse_pipeline(str(entry))
    except LabError:
        return False
    return True


@dataclass(frozen=True)
class Fires(Shown):
    """A rule fires."""

    rule: str

    @override
    def __call__(self, ir: IR) -> bool:
        return any(self.rule in snapshot.counts for snapshot in self.compiled(ir).snapshots)

    @override
    def ends(self, ir: IR) -> Iterable[int]:
        shots = self.compiled(ir).snapshots
        fired = [firing for shot in shots for firing in shot.firings if firing.rule == self.rule]
        return [max(node.id for node in firing.before) for firing in fired[:MOST] if firing.before]

    @override
    def lines(self, ir: IR, compiling: str) -> tuple[str, list[str]]:
        asserted = (
            f"assert any({_quoted(self.rule)} in one.counts for one in compilation.snapshots)"
        )
        return f"{_word(self.rule)}_fires", [f"compilation = {compiling}", asserted]


@dataclass(frozen=True)
class Misses(Shown):
    """A search or a rule gets this far at a node, and stops there for the same reason."""

    search: str
    node: int
    why: str

    def reason(self, compiled: Compilation) -> str:
        """Return where it stops; empty if it fires, or does not begin."""
        told = str(compiled.why_not(self.search, self.node)).splitlines()
        last = told[-1]
        return "" if " did fire" in last or " does not begin" in last else _same(last)

    @override
    def __call__(self, ir: IR) -> bool:
        return self.node in ir and self.reason(self.compiled(ir)) == self.why

    @override
    def ends(self, ir: IR) -> Iterable[int]:
        return (self.node,)

    @override
    def lines(self, ir: IR, compiling: str) -> tuple[str, list[str]]:
        node, compiled = str(ir[self.node]), self.compiled(ir)
        last = str(compiled.why_not(self.search, self.node)).splitlines()[-1]
        lines = [
            f"compilation = {compiling}",
            f"told = str(compilation.why_not({_quoted(self.search)}, {_quoted(node)}))",
            f"assert told.endswith({_quoted(last)})",
        ]
        return f"{_word(self.search)}_misses", lines


@dataclass(frozen=True)
class Raises(Shown):
    """An error is raised, in the same words except for names and numbers."""

    kind: type[Exception]
    words: str

    @staticmethod
    def seen(
        ir: IR, given: tuple[Pipeline, tuple[str, ...] | None, str | None], kind: type[Exception]
    ) -> tuple[type[Exception], str]:
        """Return the class and the words of the error that a graph raises now."""
        if not isinstance(kind, type) or not issubclass(kind, Exception):  # pyright: ignore[reportUnnecessaryIsInstance]  # nobody checks notebooks
            raise ArgumentError(
                f"minimise: raises is {kind!r}", hint="give a class of errors: raises=ll.PassError"
            )
        try:
            Shown(*given).compiled(ir)
        except kind as error:
            return type(error), _begin(error)
        raise GraphError(
            f"minimise: compiling {ir.name} raises no {kind.__name__}",
            hint='give what raised it: passes="…", and check="values" if that found it',
        )

    @override
    def __call__(self, ir: IR) -> bool:
        try:
            self.compiled(ir)
        except self.kind as error:
            return _begin(error) == self.words
        return False

    @override
    def lines(self, ir: IR, compiling: str) -> tuple[str, list[str]]:
        name = self.kind.__name__
        kind = f"ll.errors.{name}" if issubclass(self.kind, LabError) else name
        words = max(self.words.split("…"), key=len).strip()
        lines = [
            f"with pytest.raises({kind}, match={_quoted(re.escape(words))}):",
            f"    {compiling}",
        ]
        return f"{_word(name)}_is_raised", lines


def _begin(error: Exception) -> str:
    """Return the words of an error up to its second colon: what follows are values."""
    return ":".join(_same(str(error)).split("\n")[0].split(":")[:2])


def _quoted(text: str) -> str:
    """Return a text as Python writes it, in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def _word(name: str) -> str:
    return re.sub(r"\W", "_", name).lower()
