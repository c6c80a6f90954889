"""`luminal-lab passes`: the list of passes, with a description of each."""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeAlias, cast

from luminal_lab.cli.command import Command, OptionReader, indented
from luminal_lab.cli.saying import say
from luminal_lab.errors import UnknownNameError, nearest
from luminal_lab.passes.base import OPTIONS, Pass, option_types
from luminal_lab.passes.pipeline import Pipeline, all_passes
from luminal_lab.passes.recognition.reading import RecognisedRegion, Recogniser
from luminal_lab.passes.recognition.recognise import RECOGNISERS

ABOUT = """\
List the passes of luminal_lab, as luminal-lab run --passes and cx.compile take them. With the name
of a pass, describe it: what it does, a graph before and after it, its options. The name of a region
that the pass recognise finds, such as softmax, works too."""
EXAMPLES = """\
luminal-lab passes                  all of them, a line each
luminal-lab passes push-views       one, with a graph before and after it
luminal-lab passes --json           names, options and their defaults, for a program"""
FORMAT = 1
SPELLED = {*OPTIONS, str | None, float | None, tuple[str, ...] | None}
"""The types of options that the text of a pipeline can give."""
Kind: TypeAlias = type[Pass] | type[Pipeline]


def load_all() -> Mapping[str, Kind]:
    """Return all classes of passes and pipelines by name, including devices'."""
    return dict(sorted(all_passes().items()))


def options(reader: OptionReader) -> None:
    """Declare the options."""
    reader.add_argument("name", metavar="NAME", nargs="?", help="one pass, or all of them")
    reader.add_argument("--json", action="store_true", help="for a program")


def run(given: argparse.Namespace) -> int:
    """List the passes, or describe one."""
    known, regions = load_all(), {recogniser.name: recogniser for recogniser in RECOGNISERS}
    if given.name is not None and given.name not in known:
        if given.name in regions and not given.json:
            say(described_region(regions[given.name]))
            return 0
        raise UnknownNameError(
            f"passes: there is no pass {given.name!r}",
            hint=nearest(given.name, [*known, *regions]) or "luminal-lab passes lists them",
        )
    chosen = known if given.name is None else {given.name: known[given.name]}
    if given.json:
        descriptions = [as_json(name, kind) for name, kind in chosen.items()]
        say(json.dumps({"format": FORMAT, "passes": descriptions}, indent=1, ensure_ascii=False))
    elif given.name is not None:
        say(described(given.name, known[given.name]))
    else:
        wide = max(map(len, known)) + 2
        for title, are_passes in (("passes", True), ("pipelines of passes", False)):
            say(f"{title}:")
            for name, kind in known.items():
                if issubclass(kind, Pass) == are_passes:
                    say(f"  {name:{wide}}{sentence(kind)}")
    return 0


def sentence(kind: Kind) -> str:
    """Return a pass's description, in a sentence."""
    return inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


def described(name: str, kind: Kind) -> str:
    """Return the full description of a pass."""
    module = inspect.getdoc(sys.modules.get(kind.__module__)) or ""
    parts = [f"{name}: {sentence(kind)}"]
    is_about_it = module.startswith(f"`{name}`")  # and not about several
    rest = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[2].partition(">>>")[0].rstrip()
    parts += [text for text in (module if is_about_it else "", rest) if text]
    given = option_rows(kind)
    if given:
        rows = [f"{key}: {_type_text(of)} = {_text(default)}" for key, of, default in given]
        parts.append("options:\n" + indented("\n".join(rows)))
    else:
        parts.append("It has no options.")
    return "\n\n".join(parts)


def described_region(recogniser: Recogniser[RecognisedRegion]) -> str:
    """Return the description of a region that `recognise` turns into a call."""
    module = inspect.getdoc(sys.modules[recogniser.find.__module__]) or ""
    name = recogniser.name
    head = f"{name}: a region that the pass recognise turns into a call.\nTo find it alone: "
    return f"{head}recognise{{only = [{name}]}}\n\n{module}"


def as_json(name: str, kind: Kind) -> dict[str, object]:
    """Return a description of a pass for a program."""
    return {
        "name": name,
        "kind": "pass" if issubclass(kind, Pass) else "pipeline",
        "does": sentence(kind),
        "options": [
            {"name": key, "type": _type_text(of), "default": default}
            for key, of, default in option_rows(kind)
        ],
    }


def option_rows(kind: Kind) -> list[tuple[str, object, object]]:
    """Return the options that text can give: their names, types and defaults."""
    taken = inspect.signature(kind).parameters
    types = option_types(kind)
    rows: list[tuple[str, object, object]] = []
    for field in fields(cast("Any", kind)):
        if field.name not in taken or types[field.name] not in SPELLED:
            continue
        default = taken[field.name].default
        if default is inspect.Parameter.empty:
            default = None if field.default is MISSING else field.default
        rows.append((field.name, types[field.name], default))
    return rows


def _type_text(of: object) -> str:
    text = of.__name__ if isinstance(of, type) and not hasattr(of, "__args__") else str(of)
    return text.replace("tuple[str, ...]", "list of names").replace(" | None", "")


def _text(default: object) -> str:
    if isinstance(default, tuple):
        return f"[{', '.join(map(str, cast('tuple[object, ...]', default)))}]"
    return str(default).lower() if isinstance(default, bool) or default is None else str(default)


COMMAND = Command("passes", ABOUT, EXAMPLES, options, run)
