"""Programs: what kernels compute instead of what the graph says, by what the graph says.

programs = {str(written): str(computed)}        one kernel, by another definition
programs = {str(written): None}                 kernels that stay apart where they would be one
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias, cast

from luminal_lab.errors import ArgumentError, expect
from luminal_lab.kernels.definition.canonical import canonical
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.text import parse_definition

Programs: TypeAlias = Mapping[str, Definition | None]
"""What is computed, by the nameless text of what is written; None: by several kernels."""
Computed: TypeAlias = str | Definition | None
ProgramsLike: TypeAlias = Mapping[str, Computed] | Mapping[Definition, Computed]
HINT = "give a dict: {kernel.definition: another}, or {kernel.definition: None}"


@lru_cache(maxsize=256)
def nameless(definition: Definition) -> str:
    """Return the text of a definition without its name."""
    return str(definition.named("kernel"))


def read_programs(
    given: ProgramsLike | None, device: str
) -> tuple[tuple[str, Definition | None], ...]:
    """Return programs as pairs; an ArgumentError says what is wrong with one."""
    expect(given, Mapping | None, f"{device}: programs is {{}}, which has none", HINT)
    programs: dict[str, Definition | None] = {}
    for written, computed in (given or {}).items():
        before, after = (_read(each, device) for each in (written, computed))
        if before is None:
            raise ArgumentError(f"{device}: programs has one for None", hint=HINT)
        if after is not None and _arrays(before) != _arrays(after):
            raise ArgumentError(
                f"{device}: the program for {before.name} has other arrays\n"
                f"  {_header(before)}\n  {_header(after)}",
                hint="it reads and makes the same arrays, by the same names",
            )
        programs[nameless(canonical(before))] = after
    return tuple(programs.items())


def _read(given: object, device: str) -> Definition | None:
    expect(given, str | Definition | None, f"{device}: programs has {{}}, no definition", HINT)
    return parse_definition(given) if isinstance(given, str) else cast("Definition | None", given)


def _arrays(definition: Definition) -> object:
    return definition.inputs, [(line.name, line.type) for line in definition.outputs]


def _header(definition: Definition) -> str:
    return str(definition).partition("\n")[0]
