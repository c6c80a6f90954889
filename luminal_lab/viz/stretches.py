"""Stretches: scopes for nodes that have none, by the user's lines that wrote them.

A frame with more things than a reader can take in is cut into stretches. Each is a scope, and opens
as scopes do. Neighbours that one line wrote are a stretch. Lines that come again and again are the
rounds of a loop, which are equal neighbours if they do the same. Where one line wrote everything,
ops that repeat make the rounds, and where nothing repeats, the order of the graph decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from luminal_lab.core.op import Source
from luminal_lab.io.cells import short_files
from luminal_lab.viz.entries import NodeEntry
from luminal_lab.viz.scopes import Scope, group_neighbours

BUDGET = 60
"""The most things shown by opening scopes, if no depth is given."""
LEAST = 8
"""The fewest things shown at first, if there are so many."""
FRAME = BUDGET - LEAST + 2
"""The most things in a box: one of them fits into the budget with fewer things than `LEAST`."""
STANDING = 8
"""At most so many inputs stand beside the stretches of a frame; more stand with their readers."""
PARTS, PART = 24, 8
"""The most parts of a sequence without any pattern, and the fewest things of one if it is short."""
FINE = 16
"""The most things in a stretch of a pair: its frames have the things of two graphs."""
TRIED = 17
"""How many of the next equal things may be where a round ends."""
TITLE = 40
"""The longest title of a line, in characters."""
SIGN = "@"
"""Between the path of a scope and what names a stretch of it."""
ROUND = " #"
"""Between what a round does and its number."""

Thing = int | Scope
"""A node by its key, or a scope."""


@dataclass
class Stretching:
    """What cuts scopes into stretches: the entries, what they read, and where each has its home."""

    known: Mapping[int, NodeEntry]
    reads: Mapping[int, Sequence[int]]
    homes: dict[int, Scope]
    scalars: Mapping[int, str]
    is_pair: bool
    is_there: Callable[[int], bool] = lambda _: True
    """Whether a node may be shown."""

    @cached_property
    def order(self) -> Mapping[int, int]:
        """The position of each node in the graph."""
        return {key: at for at, key in enumerate(self.known)}

    @cached_property
    def lines(self) -> AbstractSet[tuple[str, int]]:
        """The lines that wrote nodes: a call of a model is one, whatever the model does."""
        nodes = (entry.node for entry in self.known.values())
        made = {node.meta.origin for node in nodes if not isinstance(node.op, Source)}
        return {(origin.file, origin.line) for origin in made if origin is not None}

    @cached_property
    def files(self) -> Mapping[str, str]:
        """Short names of the files of lines."""
        return short_files(file for file, _ in self.lines)

    def cut(self, root: Scope) -> None:
        """Cut a scope and all that is in it, so that no frame has too many things."""
        todo = [root]
        for scope in todo:
            if self._size(scope) > self._most(scope):
                self._cut(scope)
            for child in list(scope.children.values()):
                if len(child.group) > FRAME and not child.index:
                    _split(scope, child.group)
            todo += scope.children.values()

    def _most(self, scope: Scope) -> int:
        """Return how many things may be right inside a scope."""
        if scope.parent is None:
            return BUDGET
        return FINE if self.is_pair and SIGN in scope.path else FRAME

    def _size(self, scope: Scope) -> int:
        return sum(map(self.is_there, scope.own)) + len(scope.shown)

    # -- one scope ---------------------------------------------------------------------------------

    def _cut(self, scope: Scope) -> None:
        things = self._things(scope)
        standing = [thing for thing in things if isinstance(thing, int) and self._is_input(thing)]
        if len(standing) <= STANDING:
            things = [thing for thing in things if thing not in standing]
        else:
            standing = []
            things = self._beside_readers(things)
        parts = self._parts(things, self._most(scope))
        titles = [self._titled(part) for part in parts]
        many = Counter(title for part, title in zip(parts, titles, strict=True) if len(part) > 1)
        met = Counter[tuple[str, str]]()
        scope.own = [key for key in scope.own if key in standing or not self.is_there(key)]
        scope.children = {}
        for part, (name, place) in zip(parts, titles, strict=True):
            if len(part) == 1:
                self._put(scope, part[0])
                continue
            met[name, place] += 1
            number = f"{ROUND}{met[name, place]}" if many[name, place] > 1 else ""
            path = f"{scope.path}{SIGN}{place}{number.strip()}"
            self._stretch(scope, name + number, path, part)
        scope.own.sort(key=self.order.__getitem__)
        group_neighbours(scope, self.known, self.reads, self.homes, self.scalars)

    def _things(self, scope: Scope) -> list[Thing]:
        own: list[tuple[int, Thing]] = [
            (self.order[key], key) for key in scope.own if self.is_there(key)
        ]
        own += [(child.first, child) for child in scope.shown]
        return [thing for _, thing in sorted(own, key=lambda placed: placed[0])]

    def _is_input(self, key: int) -> bool:
        return isinstance(self.known[key].node.op, Source)

    def _beside_readers(self, things: Sequence[Thing]) -> list[Thing]:
        """Return things with each input right before the first that reads it."""
        home = {key: thing for thing in things for key in _keys(thing)}
        first: dict[int, Thing] = {}
        for key in sorted(home, key=self.order.__getitem__):
            for source in self.reads[key]:
                if source in home:
                    first.setdefault(source, home[key])
        moved: dict[int, list[Thing]] = {}
        for thing in things:
            if isinstance(thing, int) and self._is_input(thing) and thing in first:
                moved.setdefault(id_of(first[thing]), []).append(thing)
        away = {key for keys in moved.values() for key in keys}
        found: list[Thing] = []
        for thing in things:
            if thing not in away:
                found += [*moved.get(id_of(thing), ()), thing]
        return found

    def _stretch(self, scope: Scope, name: str, path: str, part: Sequence[Thing]) -> None:
        """Make a scope of some things of another."""
        keys = [key for thing in part for key in _all_keys(thing)]
        # An input may have been made long before.
        begin = next((key for key in keys if not self._is_input(key)), keys[0])
        stretch = Scope(name, scope, path, first=self.order[begin])
        stretch.inside = sorted(keys, key=self.order.__getitem__)
        scope.children[path] = stretch
        for thing in part:
            self._put(stretch, thing)
        stretch.own.sort(key=self.order.__getitem__)

    def _put(self, scope: Scope, thing: Thing) -> None:
        if isinstance(thing, int):
            scope.own.append(thing)
            self.homes[thing] = scope
            return
        for member in thing.group or (thing,):
            member.parent = scope
            scope.children[member.path] = member

    # -- which things ------------------------------------------------------------------------------

    def _parts(self, things: Sequence[Thing], most: int) -> list[Sequence[Thing]]:
        """Return things in stretches, of which there are no more than so many."""
        lines = [self._line(thing) for thing in things]
        runs = _runs(lines)
        if len(runs) < 2:
            parts = _rounds([self._looks(thing) for thing in things])
        else:
            rounds = _rounds([lines[start] for start, _ in runs])
            parts = [(runs[first][0], runs[end - 1][1]) for first, end in rounds]
        if len(parts) > most:
            cuts = _evenly(len(parts), max(2, min(PARTS, len(parts) // PART)))
            parts = [(parts[first][0], parts[end - 1][1]) for first, end in cuts]
        return [things[start:end] for start, end in parts]

    def _line(self, thing: Thing) -> Hashable:
        """Return the line that wrote a node; a scope is a line of its own."""
        if isinstance(thing, Scope):
            return thing.path
        origin = self.known[thing].node.meta.origin
        return None if origin is None else (origin.file, origin.line)

    def _looks(self, thing: Thing) -> Hashable:
        """Return what a thing has in common with its like in another round."""
        if isinstance(thing, Scope):
            return len(thing.inside)
        node = self.known[thing].node
        return node.op.name, node.types, self.known[thing].status

    def _titled(self, part: Sequence[Thing]) -> tuple[str, str]:
        """Return the title of a stretch, and what names it in a path."""
        nodes = [self.known[key].node for thing in part for key in _keys(thing)]
        lines = [node.meta.origin for node in nodes if not isinstance(node.op, Source)]
        origins = [origin for origin in lines if origin is not None]
        if len(self.lines) > 1 and origins and len(origins) == len(lines):
            files = {origin.file for origin in origins}
            file = self.files[origins[0].file]
            first, last = (pick(origin.line for origin in origins) for pick in (min, max))
            where = f"{file}, " if len(self.files) > 1 else ""
            if len(files) == 1 and first == last:
                text = f"{where}{first}: {origins[0].text.strip()}"
                return text if len(text) <= TITLE else f"{text[: TITLE - 1]}…", f"{file}:{first}"
            if len(files) == 1:
                return f"{where}lines {first}–{last}", f"{file}:{first}-{last}"
        first, last = nodes[0].name, nodes[-1].name
        return f"%{first} … %{last}", f"{first}-{last}"


def id_of(thing: Thing) -> int:
    """Return what tells a thing from others."""
    return thing if isinstance(thing, int) else ~id(thing)


def _keys(thing: Thing) -> Sequence[int]:
    """Return the keys of a thing: of equal scopes those of the first."""
    return (thing,) if isinstance(thing, int) else thing.inside


def _all_keys(thing: Thing) -> Iterator[int]:
    """Yield all keys of a thing, those of equal scopes as well."""
    if isinstance(thing, int):
        yield thing
    else:
        for member in thing.group or (thing,):
            yield from member.inside


def _split(scope: Scope, group: Sequence[Scope]) -> None:
    """Put very many equal scopes into groups of as many each."""
    count = next(count for count in range(2, len(group)) if -(-len(group) // count) <= FRAME)
    while len(group) % count and -(-len(group) // (count + 1)) >= LEAST:
        count += 1
    children = list(scope.children.values())
    at = children.index(group[0])
    stretches: list[Scope] = []
    for start in range(0, len(group), count):
        members = tuple(group[start : start + count])
        name = f"{members[0].name} … {members[-1].name}"
        stretch = Scope(
            name, scope, f"{scope.path}{SIGN}{members[0].path}-{members[-1].path}",
            inside=[key for member in members for key in member.inside], first=members[0].first,
        )  # fmt: skip
        for index, member in enumerate(members):
            member.parent, member.group, member.index = stretch, members, index
            stretch.children[member.path] = member
        if len(members) == 1:
            members[0].group = ()
        stretches.append(stretch)
    whole = [stretch for stretch in stretches if len(stretch.children) == count]
    for index, stretch in enumerate(whole if len(whole) > 1 else ()):
        stretch.group, stretch.index = tuple(whole), index
    rest = [child for child in children if child not in group]
    ordered = [*rest[:at], *stretches, *rest[at:]]
    scope.children = {child.path: child for child in ordered}


def _runs(keys: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return where equal neighbours begin and end.

    >>> _runs("aab")
    [(0, 2), (2, 3)]
    """
    runs: list[tuple[int, int]] = []
    for at, key in enumerate(keys):
        if runs and key == keys[runs[-1][0]]:
            runs[-1] = runs[-1][0], at + 1
        else:
            runs.append((at, at + 1))
    return runs


def _rounds(keys: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return a sequence in parts: the rounds of what repeats, and single keys.

    >>> _rounds("xababaz")
    [(0, 1), (1, 3), (3, 5), (5, 6), (6, 7)]
    """
    places: dict[Hashable, list[int]] = {}
    for at, key in enumerate(keys):
        places.setdefault(key, []).append(at)
    number = {at: k for found in places.values() for k, at in enumerate(found)}
    parts: list[tuple[int, int]] = []
    at = 0
    while at < len(keys):
        times, period = 1, 1
        for other in places[keys[at]][number[at] + 1 : number[at] + TRIED]:
            length = other - at
            count = 1
            while keys[at + count * length : other + count * length] == keys[at:other]:
                count += 1
            if count > 1 and count * length > times * period:
                times, period = count, length
        parts += [(at + k * period, at + (k + 1) * period) for k in range(times)]
        at += times * period
    return parts


def _evenly(count: int, parts: int) -> list[tuple[int, int]]:
    """Return so many things in about equal parts.

    >>> _evenly(5, 2)
    [(0, 2), (2, 5)]
    """
    parts = min(parts, count)
    ends = [count * at // parts for at in range(parts + 1)]
    return list(pairwise(ends))
