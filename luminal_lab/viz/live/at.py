"""Where one looks, as a text that can be passed on: a pass, how many firings, what is selected.

    recognise                       after the pass; the last run of it that changed something
    recognise/3                     after three of its firings
    recognise/3/%softmax            with the node selected
    dce@7/kernel softmax            pass number 7, which is dce
    1:fuse/cell 1, line 5           of the second run
    /rule add-zero                  only the selection: one stays, or begins where the run does

    at         = [run ":"] [pass] ["/" firings] ["/" selection]
    pass       = "written" | name ["@" number] | number
    selection  = "%" name ("," "%" name)* | "scope" path | "kernel" name | "rule" name
               | "launch" number | "buffer" number | "firing" number
               | "source" kernel dialect line | file "," "line" number

`frontend/src/data/at.ts` reads and writes the same for the fragments of pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from luminal_lab.errors import GraphError, expect, nearest
from luminal_lab.io.cells import short_files
from luminal_lab.passes.compilation import LINE
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.viz.live.backed import Backed
from luminal_lab.viz.live.held import Held
from luminal_lab.viz.live.meaning import Selection

Place: TypeAlias = "dict[str, Any]"
NOWHERE: Mapping[str, int] = {}
LONGEST = 400
FORM = 'as in "recognise/3/%softmax": a pass, how many firings are done, what is selected'
RUN = re.compile(r"([0-9]{1,4}):")
NUMBERED = re.compile(r"(.*)@([0-9]{1,6})")
SOURCE = re.compile(r"(.+) (c|cuda|metal|webgpu|stablehlo) ([0-9]{1,6})")
COUNTED = re.compile(r"[0-9]{1,7}")


# -- read ------------------------------------------------------------------------------------------


def read_at(text: object, held: Held, here: Mapping[str, int] = NOWHERE) -> tuple[Place, Selection]:
    """Return the place and the selection that a text names, or say what is not there.

    A text without a pass means the one where one is, or where its run begins.
    """
    expect(text, str, "at: the place is {}", FORM)
    assert isinstance(text, str)
    if len(text) > LONGEST or not text.isprintable():
        raise GraphError("at: the text names no place", hint=FORM)
    run_text = RUN.match(text)
    run = int(run_text[1]) if run_text else 0
    runs = held.subjects
    if run >= len(runs):
        hint = f"they go from 0 to {len(runs) - 1}" if runs[1:] else "there is one, 0"
        raise GraphError(f"at: there is no run {run}", hint=hint)
    rest = text[run_text.end() :] if run_text else text
    name, _, more = rest.partition("/")
    snapshots = held.all[run].snapshots
    stage = here["stage"] if here.get("run") == run else held.first(run)
    stage = _stage(name, snapshots) if name else stage
    count, _, selection = more.partition("/")
    firing = -1
    if COUNTED.fullmatch(count):
        firing, most = int(count), len(snapshots[stage].firings)
        if firing > most:
            has = f"{most} firings" if most != 1 else "1 firing"
            hint = f"give how many are done, 0 to {most}"
            raise GraphError(f"at: {snapshots[stage].title} has {has}, not {firing}", hint=hint)
    else:
        selection = more
    chosen = _selection(selection, held, run, stage) if selection else {}
    return {"run": run, "stage": stage, "firing": firing}, chosen


def _stage(name: str, snapshots: Sequence[Snapshot]) -> int:
    numbered = NUMBERED.fullmatch(name)
    names = [snapshot.name for snapshot in snapshots]
    if name == "written":
        return 0
    if numbered or COUNTED.fullmatch(name):
        number = int(numbered[2] if numbered else name)
        if number < len(snapshots) and (not numbered or numbered[1] in _names(snapshots[number])):
            return number
        known = f"pass {number} is {names[number]}" if number < len(names) else ""
        hint = known or f"passes go from 0 to {len(snapshots) - 1}"
        raise GraphError(f"at: there is no pass {name!r}", hint=hint)
    found = [n for n, snapshot in enumerate(snapshots) if n and name in _names(snapshot)]
    if not found:
        known = list(dict.fromkeys(names[1:]))
        hint = nearest(name, known) or f"choose from written, {', '.join(known)}"
        raise GraphError(f"at: there is no pass {name!r}", hint=hint)
    return next((n for n in reversed(found) if snapshots[n].firings), found[-1])


def _names(snapshot: Snapshot) -> tuple[str, str]:
    return snapshot.name, snapshot.title


def _selection(text: str, held: Held, run: int, stage: int) -> Selection:
    backed = held.all[run]
    if text.startswith("%"):
        return _nodes([part.strip() for part in text.split(",")], backed.snapshots, stage)
    line = LINE.match(text)
    if line is not None:
        lines = _lines(held, run)
        return {"kind": "line", "origin": _number_of("line", f"{line[1]}, line {line[2]}", lines)}
    kind, _, rest = text.partition(" ")
    if kind == "scope":
        return _scope(rest, backed.snapshots, stage)
    if kind in ("kernel", "source", "rule"):
        found = _program(kind, rest, backed)
    else:
        found = _counted(kind, rest, backed, stage)
    if found is None:
        raise GraphError(
            f"at: {text!r} selects nothing",
            hint='give "%y", "scope head", "kernel softmax", "rule add-zero" or "cell 1, line 5"',
        )
    return found


def _lines(held: Held, run: int) -> list[str]:
    """Return the user's lines as a bundle calls them."""
    origins = held.origins(run)
    files = short_files(origin.file for origin in origins)
    return [f"{files[origin.file]}, line {origin.line}" for origin in origins]


def _scope(path: str, snapshots: Sequence[Snapshot], stage: int) -> Selection:
    every: set[str] = set()
    for number in _order(stage, len(snapshots)):
        scopes = {node.meta.scope for node in snapshots[number].ir}
        if any(scope == path or scope.startswith(f"{path}.") for scope in scopes):
            return {"kind": "scope", "stage": number, "path": path}
        every |= scopes
    raise GraphError(f"at: there is no scope {path!r}", hint=nearest(path, every))


def _program(kind: str, name: str, backed: Backed) -> Selection | None:
    facts = backed.subject.facts
    kernels = [kernel.name for kernel in facts.kernels]
    if kind == "kernel":
        return {"kind": kind, "kernel": _number_of(kind, name, kernels)}
    if kind == "rule":
        fired = {firing.rule for snapshot in backed.snapshots for firing in snapshot.firings}
        _number_of(kind, name, sorted(fired | set(facts.rules)))
        return {"kind": kind, "rule": name}
    source = SOURCE.fullmatch(name)
    if source is None:
        return None
    kernel = _number_of("kernel", source[1], kernels)
    return {"kind": kind, "kernel": kernel, "dialect": source[2], "line": int(source[3])}


def _counted(kind: str, number: str, backed: Backed, stage: int) -> Selection | None:
    facts = backed.subject.facts
    counts = {
        "launch": len(facts.launches),
        "buffer": len(facts.buffers),
        "firing": len(backed.snapshots[stage].firings),
    }
    if kind not in counts or not COUNTED.fullmatch(number):
        return None
    if int(number) >= counts[kind]:
        hint = f"there are {counts[kind]}, counted from 0"
        raise GraphError(f"at: there is no {kind} {number}", hint=hint)
    where = {"stage": stage} if kind == "firing" else {}
    return {"kind": kind, **where, kind: int(number)}


def _order(stage: int, count: int) -> list[int]:
    """Return all stages: this one, the one before it, then the others from the last."""
    return list(dict.fromkeys([stage, max(0, stage - 1), *reversed(range(count))]))


def _nodes(names: Sequence[str], snapshots: Sequence[Snapshot], stage: int) -> Selection:
    for number in _order(stage, len(snapshots)):
        known = snapshots[number].ir.names
        ids = [known.get(name.removeprefix("%")) for name in names]
        if None not in ids:
            return {"kind": "node", "stage": number, "ids": ids}
    every = {name for snapshot in snapshots for name in snapshot.ir.names}
    missing = next((n for n in names if n.removeprefix("%") not in every), names[0])
    hint = nearest(missing.removeprefix("%"), every)
    raise GraphError(f"at: there is no node {missing!r}", hint=hint and hint.replace("'", "'%", 1))


def _number_of(kind: str, name: str, known: Sequence[str]) -> int:
    if name not in known:
        hint = nearest(name, known) or (f"choose from {', '.join(known[:20])}" if known else None)
        raise GraphError(f"at: there is no {kind} {name!r}", hint=hint)
    return known.index(name)


# -- written ---------------------------------------------------------------------------------------


def written_at(place: Mapping[str, Any], selection: Mapping[str, Any], held: Held) -> str:
    """Return the text of a place and a selection, which `read_at` reads."""
    run, stage, firing = place["run"], place["stage"], place["firing"]
    snapshots = held.all[run].snapshots
    text = f"{run}:" if run else ""
    text += _stage_text(stage, snapshots)
    text += f"/{firing}" if firing >= 0 else ""
    said = _selection_text(selection, held, run, stage)
    return f"{text}/{said}" if said else text


def _stage_text(stage: int, snapshots: Sequence[Snapshot]) -> str:
    if stage == 0:
        return "written"
    name = snapshots[stage].name
    if re.search("[/@:]", name):
        return str(stage)
    return name if _stage(name, snapshots) == stage else f"{name}@{stage}"


def _selection_text(given: Mapping[str, Any], held: Held, run: int, stage: int) -> str:
    backed = held.all[run]
    facts = backed.subject.facts
    match given.get("kind"):
        case "node":
            ids = given["ids"]
            shown = backed.snapshots[given["stage"]]
            nodes = [shown.ir.table.get(id) or shown.before.table.get(id) for id in ids]
            return ",".join(f"%{node.name}" for node in nodes if node is not None)
        case "scope":
            return f"scope {given['path']}"
        case "line":
            return _lines(held, run)[given["origin"]]
        case "firing":
            return f"firing {given['firing']}" if given["stage"] == stage else ""
        case "rule":
            return f"rule {given['rule']}"
        case "kernel":
            return f"kernel {facts.kernels[given['kernel']].name}"
        case "source":
            name = facts.kernels[given["kernel"]].name
            return f"source {name} {given['dialect']} {given['line']}"
        case "launch" | "buffer" as kind:
            return f"{kind} {given[kind]}"
        case _:
            return ""
