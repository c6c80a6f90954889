"""A memory plan as rows, and as a table to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from luminal_lab.core.dims import Dim
from luminal_lab.kernels.memory.layout import LifeSpan
from luminal_lab.tables import aligned

if TYPE_CHECKING:
    from luminal_lab.kernels.memory.plan import BoundPlan, MemoryPlan

Row: TypeAlias = dict[str, str | int | None]
"""What a plan says about one value."""
WIDEST = 60
"""The most steps that a table draws."""


def rows_of(plan: MemoryPlan, bound: BoundPlan | None = None) -> list[Row]:
    """Return one plain dict for each value: its name, its size, when it is needed and where.

    Sizes and offsets are numbers if they are known, else text; None if there is none.
    """
    program = plan.program
    rows: list[Row] = []
    for value in program.values:
        root, index = program.roots[value.id], plan.place_of.get(value.id)
        offset: Dim | None = None
        if index is not None and index < len(plan.arena):
            offset = plan.offsets[index] if bound is None else bound.starts[index]
        life = _life(plan, value.id)
        rows.append(
            {
                "value": str(value),
                "id": value.id,
                "kind": value.kind,
                "bytes": _plain(value.bytes if bound is None else bound.bytes[value.id]),
                "first": life and life.first,
                "last": life and life.last,
                "place": index,
                "lives_in": None if index is None else plan.places[index].kind,
                "offset": _plain(offset),
                "view_of": value.alias_of,
                "written_over": plan.written_over.get(value.id) if root == value.id else None,
            }
        )
    return rows


def table(plan: MemoryPlan, bound: BoundPlan | None = None) -> str:
    """Return a plan as text: its numbers, a line for each value, and what was not done and why."""
    program, rows = plan.program, rows_of(plan, bound)
    steps = len(program.steps)
    header = [("<", "value"), (">", "bytes"), ("<", "kind"), ("<", "steps")]
    header += [("<", "")] * (0 < steps <= WIDEST) + [("<", "place")]
    cells: list[Sequence[str]] = []
    for row in rows:
        life = None if row["first"] is None else LifeSpan(int(row["first"]), int(row["last"] or 0))
        drawn = "" if life is None else _bar(life, steps)
        size = row["bytes"]
        texts = [str(row["value"]), f"{size:,}" if isinstance(size, int) else str(size)]
        texts += [str(row["kind"]), "-" if life is None else f"{life.first}..{life.last}"]
        cells.append([*texts, *[drawn] * (0 < steps <= WIDEST), _where(plan, row)])
    many = f"{steps} step{'s' * (steps != 1)}, {len(rows)} values"
    lines = [f"memory plan: {many}", *_numbers(plan, bound), *aligned(header, cells)]
    return "\n".join([*lines, *_reasons(plan)])


def _numbers(plan: MemoryPlan, bound: BoundPlan | None) -> list[str]:
    program = plan.program
    if bound is None:
        *others, name = program.symbols
        which = f"{', '.join(others)} and {name} are" if others else f"{name} is"
        return [f"sizes are known when {which} bound"]
    lines = [
        f"temporaries: {bound.arena_bytes:,} bytes in multiples of {plan.alignment}; "
        f"{bound.unshared_bytes:,} if none were reused; {bound.least_bytes:,} are needed at once"
    ]
    own: dict[str, int] = {}
    for place in plan.places:
        if place.kind != "arena":
            own[place.kind] = own.get(place.kind, 0) + bound.bytes[place.values[0]]
    if own:
        lines.append("; ".join(f"{kind}s: {size:,} bytes" for kind, size in own.items()))
    return lines


def _reasons(plan: MemoryPlan) -> list[str]:
    names = plan.program.by_id
    lines = [
        f"{names[pair.value]} is not in place of {names[pair.source]}: {pair.why_not}"
        for pair in plan.in_place
        if pair.why_not
    ]
    for carry in plan.carries:
        new, old = names[carry.output], names[carry.input]
        how = f"by an exchange of their places: {carry.why_not}" if carry.why_not else "where it is"
        lines.append(f"{new} becomes {old} {how}")
    return lines


def _where(plan: MemoryPlan, row: Row) -> str:
    program, index = plan.program, row["place"]
    if not isinstance(index, int):
        return "none: no step writes it"
    place = plan.places[index]
    if place.kind != "arena":
        given = place.kind != "output"
        owner = place.values[0] if given else next(v for v in place.values if v in program.outputs)
        text = "its own" if owner == row["id"] else f"place of {program.by_id[owner]}"
    elif row["offset"] is None:
        under = ", ".join(program.names(plan.places[low].values[:1]) for low in place.below)
        text = f"arena, above {under}"
    else:
        offset = row["offset"]
        text = f"arena {offset:,}" if isinstance(offset, int) else f"arena {offset}"
    if isinstance(row["view_of"], int):
        text += f", view of {program.by_id[row['view_of']]}"
    if isinstance(row["written_over"], int):
        text += f", in place of {program.by_id[row['written_over']]}"
    return text


def _life(plan: MemoryPlan, id: int) -> LifeSpan | None:
    """Return when a value exists; for a view, when it is read."""
    program = plan.program
    if program.roots[id] == id:
        return program.lives.get(id)
    reads = [at for at, name in program.reads.get(program.roots[id], ()) if name == id]
    if program.by_id[id].kind == "output":
        reads.append(max(len(program.steps) - 1, 0))
    return LifeSpan(reads[0], reads[-1]) if reads else None


def _bar(life: LifeSpan, steps: int) -> str:
    return "".join("█" if life.first <= step <= life.last else "·" for step in range(steps))


def _plain(dim: Dim | None) -> str | int | None:
    return dim if dim is None or isinstance(dim, int) else str(dim)
