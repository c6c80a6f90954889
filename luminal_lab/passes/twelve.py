"""`to-twelve`, `from-twelve`: write choice and indexing in the twelve primitive ops, and back.

    graph g(%c: bool[4], %x: f32[4], %y: f32[4]) -> (%r) {
      %r = where %c, %x, %y : f32[4]
    }
    →
    graph g(%c: bool[4], %x: f32[4], %y: f32[4]) -> (%r) {
      %k = cast{dtype = f32} %c : f32[4]
      %a = mul %k, %x : f32[4]
      %m = constant{value = -1.0} : f32[4]
      %n = mul %k, %m : f32[4]
      %o = constant{value = 1.0} : f32[4]
      %l = add %o, %n : f32[4]
      %b = mul %l, %y : f32[4]
      %r = add %a, %b : f32[4]
    }

So twelve ops are enough, and each step states its price. A gather multiplies all rows by a table of
zeros and ones, with a one where neither the index nor the row's number is less than the other,
and adds them up. A scatter does the same along the table's other axis; for several values at one
position it picks the last. An update pads its rows with zeros, and multiplies the kept rows by ones
and zeros from another pad.

All this holds for finite values alone, since 0 · inf is NaN. An index out of range is an error
in a gather or scatter, but selects no row in a table. The twelve cannot express a change of
dtype: `cast` stays, except where it tests a number for not being 0. Ops on bits stay, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from typing_extensions import override

from luminal_lab.core.dims import Dim
from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node, Table
from luminal_lab.core.op import Op, View, size_of
from luminal_lab.core.ops import (
    Cast,
    Constant,
    Expand,
    Gather,
    Input,
    MaxReduce,
    Pad,
    Reshape,
    Scatter,
    SumReduce,
    Update,
    Where,
)
from luminal_lab.errors import LabError
from luminal_lab.passes.base import Pass
from luminal_lab.passes.pattern import (
    Match,
    Pattern,
    build,
    cast,
    constants,
    fields,
    find,
    op,
    variables,
    where,
)
from luminal_lab.passes.rule import OF_FLOATS, Rule, RuleSet, names_in
from luminal_lab.passes.spelling import (
    as_choice,
    as_gather,
    as_scatter,
    as_update,
    buffer,
    c,
    index,
    rows,
    values,
    x,
    y,
)

FINITE = ("no_nan", "no_inf", "no_signed_zero")
"""The facts for 0 · x = 0 and 0 + x = x."""
ANY_ORDER = (*FINITE, "reassociate")
some, other, number, chosen = variables("some other number chosen")
one, minus = constants("one minus")
axis, at, before = fields("axis at before")


def products(match: Match) -> Pattern:
    """Return a choice as a sum of products."""
    return as_choice(match.dtype)


def rows_in_table(match: Match) -> Pattern:
    """Return a gather as the sum of the rows that a table picks."""
    return as_gather(match.type("x"), match.type("index"), match.bindings["axis"])


def last_values_in_table(match: Match) -> Pattern:
    """Return a scatter as the last value that a table puts at each position, or the old one."""
    return as_scatter(match.type("x"), match.type("index"), match.bindings["axis"], "set")


def values_in_table(match: Match) -> Pattern:
    """Return a scatter as the old values plus all values that a table puts at each position."""
    return as_scatter(match.type("x"), match.type("index"), match.bindings["axis"], "add")


def padding(match: Match) -> Pattern:
    """Return an update as padded rows plus the rest of the buffer."""
    of, by = match.type("buffer"), match.type("rows")
    return as_update(of, by, match.bindings["axis"], match.bindings["at"])


def _is_number(match: Match) -> bool:
    return match.type("x").dtype is not DType.bool_


SET, ADD = (op(Scatter, x, index, values, axis=axis, mode=mode) for mode in ("set", "add"))
TO_TWELVE = RuleSet(
    "to-twelve",
    Rule("where-to-products", where(c, x, y), products, assumes=FINITE),
    Rule("gather-to-table", op(Gather, x, index, axis=axis), rows_in_table, assumes=FINITE),
    Rule("scatter-to-table", SET, last_values_in_table, assumes=FINITE),
    Rule("scatter-add-to-table", ADD, values_in_table, assumes=ANY_ORDER),
    Rule("update-to-padding", op(Update, buffer, rows, axis=axis, at=at), padding, assumes=FINITE),
    Rule(
        "cast-to-comparisons",
        op(Cast, x, dtype=DType.bool_),
        (x < 0) + (x > 0),
        assumes={"no_nan"},
        condition=_is_number,
    ),
)


# -- and back --------------------------------------------------------------------------------------

Guess: TypeAlias = Callable[[Match], tuple[Op, Pattern]]


def _back(
    name: str, looks: Pattern, sources: Sequence[Pattern], guess: Guess, assumes: Iterable[str]
) -> Rule:
    """Return the rule for a spelling that is guessed from its form, and then compared in full."""

    def restored(match: Match) -> Pattern | None:
        ids = {str(source): match.bindings[str(source)].id for source in sources}
        try:
            meant, spelled = guess(match)
            meant.infer(*[match.type(name) for name in ids])
        except (LabError, IndexError):  # only the form is similar
            return None
        for way in find(spelled, match.root, match.graph):
            if all(way[name].id == id for name, id in ids.items()):
                return op(meant, *sources)
        return None

    return Rule(name, looks, restored, assumes=assumes)


def _guess_where(match: Match) -> tuple[Op, Pattern]:
    return Where(), as_choice(match.dtype)


def _guess_gather(match: Match) -> tuple[Op, Pattern]:
    along = match.bindings["axis"] - 1
    return Gather(along), as_gather(match.type("x"), match.type("index"), along)


def _guess_scatter(mode: Literal["set", "add"]) -> Guess:
    def guess(match: Match) -> tuple[Op, Pattern]:
        along = match.bindings["axis"]
        of, by = match.type("x"), match.type("index")
        return Scatter(along, mode), as_scatter(of, by, along, mode)

    return guess


def _guess_update(match: Match) -> tuple[Op, Pattern]:
    of, by = match.type("buffer"), match.type("rows")
    pairs = zip(of.shape, by.shape, strict=True)
    along = next((k for k, (old, new) in enumerate(pairs) if old != new), 0)
    start = match.bindings["before"][along]
    return Update(along, start), as_update(of, by, along, start)


def _tables_back(bools: bool, narrow: bool) -> Iterator[Rule]:
    """Yield the rules for tables of bools or numbers, with widened indices or not."""
    end = "-of-bools" * bools + "-by-few-bits" * narrow
    wide = cast(index, dtype=DType.int64) if narrow else index
    hot = ((op(Expand, op(Reshape, wide)) < some) + other) < True

    def weighted(condition: Pattern) -> Pattern:
        return condition if bools else cast(condition)

    def summed(parts: Pattern) -> Pattern:
        return op(Reshape, op(MaxReduce if bools else SumReduce, parts, axis=axis))

    picked = summed(weighted(hot) * op(Expand, op(Reshape, x)))
    yield _back(f"table-to-gather{end}", picked, (x, index), _guess_gather, FINITE)
    given, sources = op(Expand, op(Reshape, values)), (x, index, values)
    added = x + summed(weighted(hot) * given)
    yield _back(f"table-to-scatter-add{end}", added, sources, _guess_scatter("add"), ANY_ORDER)
    hit = weighted(op(Reshape, op(MaxReduce, cast(hot) * number) > 0))
    both = summed(chosen * given) + _looks_rest(hit, bools) * x
    yield _back(f"table-to-scatter{end}", both, sources, _guess_scatter("set"), FINITE)


def _others_back(bools: bool) -> Iterator[Rule]:
    """Yield the rules for ops without a table."""
    end = "-of-bools" * bools
    kept = _looks_rest(op(Pad, some), bools) * buffer
    padded = op(Pad, rows, before=before) + kept
    yield _back(f"padding-to-update{end}", padded, (buffer, rows), _guess_update, FINITE)
    chosen = c if bools else cast(c)
    choice = chosen * x + _looks_rest(chosen, bools) * y
    yield _back(f"products-to-where{end}", choice, (c, x, y), _guess_where, FINITE)


def _looks_rest(of: Pattern, bools: bool) -> Pattern:
    return of < one if bools else one + of * minus


KINDS = (False, True)
FROM_TWELVE = RuleSet(
    "from-twelve",
    *[_tables_back(bools, narrow) for bools in KINDS for narrow in (True, False)],
    *[_others_back(bools) for bools in KINDS],
    Rule("comparisons-to-cast", (x < 0) + (x > 0), cast(x, dtype=DType.bool_), assumes={"no_nan"}),
)


# -- the passes ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Respelling(Pass):
    """The base of both passes: rules that are tried once at each node, with their price."""

    rule_set: ClassVar[RuleSet]
    without: tuple[str, ...] = ()
    """The names of disabled rules."""

    @override
    def rules(self) -> tuple[Rule, ...]:
        return tuple(self.rule_set.without(*self.without))

    def spell(self, nodes: Iterable[Node], edit: Edit) -> None:
        """Try the rules at nodes, in an order."""
        by_op: dict[type[Op], list[Rule]] = {}
        for rule in self.rules():
            by_op.setdefault(rule.pattern.cls, []).append(rule)
        for old in nodes:
            node = edit.table.get(old.id)
            if node is not None and (edit.readers.get(node.id) or edit.is_output(node)):
                for rule in by_op.get(type(node.op), ()):
                    if _fires(rule, node, edit):
                        break


@dataclass(frozen=True)
class ToTwelve(Respelling):
    """Write choice and indexing in the twelve primitive ops, for finite values."""

    name: ClassVar[str] = "to-twelve"
    rule_set: ClassVar[RuleSet] = TO_TWELVE

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        self.spell(ir.nodes, edit)


@dataclass(frozen=True)
class FromTwelve(Respelling):
    """Recognise the results of `to-twelve`, and restore the ops."""

    name: ClassVar[str] = "from-twelve"
    rule_set: ClassVar[RuleSet] = FROM_TWELVE

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        # Users come first, so that a match never begins inside another spelling.
        self.spell(reversed(ir.nodes), edit)


def _fires(rule: Rule, node: Node, edit: Edit) -> bool:
    match, right = next(rule.matches(node, edit), (None, None))
    if match is None or right is None:
        return False
    bound = [value for value in match.bindings.values() if isinstance(value, Node)]
    floats = any(value.dtype.is_float for value in (node, *bound))
    missing = (rule.assumes if floats else rule.assumes - OF_FLOATS) - edit.licence
    if missing:
        edit.refuse(rule.name, node, missing)
        return False
    named = names_in(right)
    sources = {name: value for name, value in match.bindings.items() if name in named}
    region = _region(
        node, {value.id for value in sources.values() if isinstance(value, Node)}, edit
    )
    price = f"{_price(_drafted(right, node, sources))} instead of {_price(region)}"
    with edit.firing(rule.name, price):
        rule.apply(match, right, edit)
        for member in region:
            if not edit.readers.get(member.id) and not edit.is_output(member):
                edit.erase(member)
    return True


def _region(root: Node, ends: set[int], edit: Edit) -> list[Node]:
    """Return the nodes between a root and the ends of its region, users first."""
    members: dict[int, Node] = {}
    todo = [root.id]
    while todo:
        id = todo.pop()
        if id not in ends and id not in members and not isinstance(edit[id].op, Input):
            members[id] = edit[id]
            todo += edit[id].sources
    users = {id: sum(id in node.sources for node in members.values()) for id in members}
    order = [root.id]
    for id in order:
        for source in dict.fromkeys(members[id].sources):
            if source in members:
                users[source] -= 1
                if not users[source]:
                    order.append(source)
    return [members[id] for id in order]


def _drafted(right: Pattern, root: Node, sources: Mapping[str, object]) -> list[Node]:
    """Return the nodes of a pattern in a separate graph."""
    draft = Edit(IR(Table(), (), ()))
    given = {
        name: draft.insert(Input(source.dtype, source.shape))
        if isinstance(source, Node)
        else source
        for name, source in sources.items()
    }
    build(right, root.type, given, draft, [])
    return list(draft.table)


def _price(nodes: Iterable[Node]) -> str:
    """Return the number of ops and their bytes as text; views and constants are free."""
    priced = [node for node in nodes if not isinstance(node.op, (View, Constant, Input))]
    bytes_made: Dim = 0
    for node in priced:
        bytes_made = bytes_made + size_of(node.shape) * node.dtype.itemsize
    count = f"{bytes_made:,}" if isinstance(bytes_made, int) else str(bytes_made)
    return f"{len(priced)} op{'s' * (len(priced) != 1)} of {count} bytes"
