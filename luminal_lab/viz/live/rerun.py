"""Rerunning passes from any snapshot on, some changed or off, beside the user's compile."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from luminal_lab.errors import ArgumentError, LabError, TrustError
from luminal_lab.passes.base import Pass
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.pipeline import (
    LICENCE,
    PassLike,
    Pipeline,
    as_pass,
    known_passes,
    parse_pipeline,
)
from luminal_lab.passes.rewrite import Rewrite
from luminal_lab.passes.rule import Rule, RuleSet
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.viz.live.backed import Backed, backed_compile


def run_again(backed: Backed, passes: Iterable[object], start: int) -> Backed:
    """Return the result of other passes on the graph after a stage; the user's compile stays.

    A pass is its text, and whether it is on. The device stays the same. Earlier stages are those of
    the original run, so that the story begins at the user's lines.
    """
    if not 0 <= start < len(backed.snapshots):
        raise ArgumentError(
            f"rerun: there is no stage {start}", hint=f"0 to {len(backed.snapshots) - 1} are there"
        )
    old = backed.compilation
    wanted = [_wanted(given_pass) for given_pass in passes]
    texts = [text for text, is_on in wanted if is_on]
    base = LICENCE if old is None else old.licence
    # A user's rule has no text that parses, so its pass is reused, with its licence.
    known = {} if old is None else dict(_granted(old.pipeline, frozenset(base)))
    # What a cell has defined again since then counts, as it would in a further compile.
    newer = {text: fresh for text, one in known.items() if (fresh := newest(text, one)) is not one}
    known |= newer
    chosen: list[PassLike] = [known.get(text) or parse_pipeline(text) for text in texts]
    compilation = compile_ir(
        backed.snapshots[start].ir,
        *chosen,
        licence=base,
        given=None if backed.session is None else backed.session.given(),
    )
    note, runner, passes_of = "", compilation.runner, [*compilation.pipeline.passes]
    if old is not None and runner is None:
        passes_of += [device.alone() for device in old.pipeline.devices()]
        try:
            runner = old.pipeline.runner(compilation.ir)
        except TrustError:
            raise
        except LabError as error:
            note = f", which no device runs: {error.message}"
    kept = backed.snapshots[: start + 1]
    for snapshot in compilation.snapshots[1:]:
        snapshot.index += start
    compilation = Compilation(
        [*kept, *compilation.snapshots[1:]],
        Pipeline([*_known(kept, known), *passes_of], licence=compilation.pipeline.licence),
        compilation.verify_seconds,
        runner,
        compilation.licence,
    )
    off = dict.fromkeys(text for text, is_on in wanted if not is_on)
    title = backed.subject.title.partition(" again")[0] + " again"
    title += f" from {backed.snapshots[start].title}" if start else ""
    title += f", without {', '.join(off)}" if off else ""
    anew = [text for text in newer if text in texts]
    title += f", {', '.join(anew)} as defined now" if anew else ""
    return backed_compile(compilation, backed.session, dialects=backed.dialects, title=title + note)


def newest(text: str, known: Pass | Pipeline) -> Pass | Pipeline:
    """Return a pass as it is defined now: its class, or the user's rule of that name."""
    leaf = known.passes[0] if isinstance(known, Pipeline) and len(known.passes) == 1 else known
    fresh: Pass | Pipeline = leaf
    if isinstance(leaf, Rewrite):
        named = vars(sys.modules["__main__"]).values()
        rules = [one for one in named if isinstance(one, (Rule, RuleSet))]
        found = [as_pass(rule) for rule in rules if rule.name == leaf.of.name]
        known_as = [[*map(id, one.rules())] for one in (leaf, *found) if isinstance(one, Pass)]
        fresh = leaf if known_as[0] in known_as[1:] else [leaf, *found][-1]
    elif isinstance(leaf, Pass) and known_passes().get(leaf.name) not in (type(leaf), None):
        with suppress(LabError):  # its options may be others now
            fresh = parse_pipeline(text).passes[0]
    if fresh is leaf:
        return known
    return fresh if leaf is known else Pipeline([fresh], licence=cast("Pipeline", known).licence)


def _known(
    snapshots: Sequence[Snapshot], known: Mapping[str, Pass | Pipeline]
) -> Iterator[Pass | Pipeline]:
    """Yield the passes that ran, except a recording's passes that are not defined here."""
    for snapshot in snapshots[1:]:
        with suppress(LabError):
            yield known.get(snapshot.title) or parse_pipeline(snapshot.title)


def _wanted(like: object) -> tuple[str, bool]:
    if not isinstance(like, Mapping):
        raise ArgumentError(
            f"rerun: {like!r} is not a pass", hint='give {"text": "cse", "on": true}'
        )
    given_pass = cast("Mapping[str, Any]", like)
    text = given_pass.get("text")
    if not isinstance(text, str) or not text.strip():
        raise ArgumentError("rerun: a pass has no text", hint="write its name, as in cse")
    return text.strip(), bool(given_pass.get("on", True))


def _granted(pipeline: Pipeline, facts: frozenset[str]) -> Iterator[tuple[str, Pass | Pipeline]]:
    """Yield all passes by their texts, each with its licence in the pipeline."""
    base, own = facts, pipeline.licence
    facts = facts if own is None else frozenset(own)
    for member in pipeline.passes:
        if isinstance(member, Pipeline):
            for text, inner in _granted(member, facts):
                is_bare = isinstance(inner, Pass) and facts != base
                yield text, Pipeline([inner], licence=facts) if is_bare else inner
        else:
            yield str(member), member if facts == base else Pipeline([member], licence=facts)


def difference(before: Backed, after: Backed) -> str:
    """Return the differences of another run in words.

    >>> from luminal_lab.session import Graph
    >>> cx = Graph()
    >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
    >>> one, other = (backed_compile(cx.compile(passes)) for passes in ("dce", "simplify, dce"))
    >>> difference(one, other)
    '1 node instead of 3'
    """
    nodes = [len(side.newest.ir) for side in (before, after)]
    launches = [len(side.subject.facts.launches) for side in (before, after)]
    changes = [_instead(nodes, "node", "nodes")]
    changes += [_instead(launches, "launch", "launches")] if any(launches) else []
    return ", ".join(changes)


def _instead(counts: list[int], single: str, many: str) -> str:
    before, after = counts
    return f"{after:,} {single if after == 1 else many} instead of {before:,}"
