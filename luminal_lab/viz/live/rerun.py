"""Running passes again from any snapshot on, some changed or off, beside what the user compiled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from luminal_lab.devices.build.toolchain import pipeline_of_file
from luminal_lab.errors import ArgumentError, LabError, TrustError
from luminal_lab.passes.base import Pass
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.pipeline import LICENCE, PassLike, Pipeline
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.viz.live.backed import Backed, backed_compile


def run_again(backed: Backed, passes: Iterable[object], start: int) -> Backed:
    """Return what other passes make of the graph after a stage; nothing of the user's changes.

    A pass is its text, and whether it is on. The device is the one that there was. The stages up to
    there are those of the run itself, so that it has the whole story from the user's lines on.
    """
    if not 0 <= start < len(backed.snapshots):
        raise ArgumentError(
            f"rerun: there is no stage {start}", hint=f"0 to {len(backed.snapshots) - 1} are there"
        )
    old = backed.compilation
    wanted = [_wanted(one) for one in passes]
    texts = [text for text, is_on in wanted if is_on]
    base = LICENCE if old is None else old.licence
    # A rule of the user's has no text that parses: the pass that had it is taken, with its licence.
    known = {} if old is None else dict(_granted(old.pipeline, frozenset(base)))
    chosen: list[PassLike] = [known.get(text) or pipeline_of_file(text) for text in texts]
    made = compile_ir(
        backed.snapshots[start].ir,
        *chosen,
        licence=base,
        given=None if backed.session is None else backed.session.given(),
    )
    note, runner, passes_of = "", made.runner, [*made.pipeline.passes]
    if old is not None and runner is None:
        passes_of += [device.alone() for device in old.pipeline.devices()]
        try:
            runner = old.pipeline.runner(made.ir)
        except TrustError:
            raise
        except LabError as error:
            note = f", which no device runs: {error.message}"
    kept = backed.snapshots[: start + 1]
    for one in made.snapshots[1:]:
        one.index += start
    made = Compilation(
        [*kept, *made.snapshots[1:]],
        Pipeline([*_known(kept, known), *passes_of], licence=made.pipeline.licence),
        made.verify_seconds,
        runner,
        made.licence,
    )
    off = dict.fromkeys(text for text, is_on in wanted if not is_on)
    title = backed.subject.title.partition(" again")[0] + " again"
    title += f" from {backed.snapshots[start].title}" if start else ""
    title += f", without {', '.join(off)}" if off else ""
    return backed_compile(made, backed.session, dialects=backed.dialects, title=title + note)


def _known(
    snapshots: Sequence[Snapshot], known: Mapping[str, Pass | Pipeline]
) -> Iterator[Pass | Pipeline]:
    """Yield the passes that have run, but those of a recording's that nobody defines here."""
    for one in snapshots[1:]:
        with suppress(LabError):
            yield known.get(one.title) or pipeline_of_file(one.title)


def _wanted(like: object) -> tuple[str, bool]:
    if not isinstance(like, Mapping):
        raise ArgumentError(f"rerun: {like!r} is no pass", hint='give {"text": "cse", "on": true}')
    one = cast("Mapping[str, Any]", like)
    text = one.get("text")
    if not isinstance(text, str) or not text.strip():
        raise ArgumentError("rerun: a pass has no text", hint="write its name, as in cse")
    return text.strip(), bool(one.get("on", True))


def _granted(pipeline: Pipeline, facts: frozenset[str]) -> Iterator[tuple[str, Pass | Pipeline]]:
    """Yield all passes by their texts, each with the licence that it has in a pipeline."""
    base, own = facts, pipeline.licence
    facts = facts if own is None else frozenset(own)
    for one in pipeline.passes:
        if isinstance(one, Pipeline):
            for text, inner in _granted(one, facts):
                is_bare = isinstance(inner, Pass) and facts != base
                yield text, Pipeline([inner], licence=facts) if is_bare else inner
        else:
            yield str(one), one if facts == base else Pipeline([one], licence=facts)


def difference(before: Backed, after: Backed) -> str:
    """Return in words what is different after another run.

    >>> from luminal_lab.session import Graph
    >>> cx = Graph()
    >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
    >>> one, other = (backed_compile(cx.compile(passes)) for passes in ("dce", "simplify, dce"))
    >>> difference(one, other)
    '1 node instead of 3'
    """
    nodes = [len(one.newest.ir) for one in (before, after)]
    launches = [len(one.subject.facts.launches) for one in (before, after)]
    told = [_instead(nodes, "node", "nodes")]
    told += [_instead(launches, "launch", "launches")] if any(launches) else []
    return ", ".join(told)


def _instead(counts: list[int], one: str, many: str) -> str:
    before, after = counts
    return f"{after:,} {one if after == 1 else many} instead of {before:,}"
