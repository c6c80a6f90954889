"""`push-views`: move views past elementwise ops, to where less is computed and where views meet.

    %b = expand{shape = [4, 8]} %a : f32[4, 8]         %c = sqrt %a : f32[4, 1]
    %c = sqrt %b                   : f32[4, 8]    →    %d = expand{shape = [4, 8]} %c : f32[4, 8]

    %b = exp2 %a                     : f32[4, 8]       %c = slice{start = [0, 2], …} %a : f32[4, 2]
    %c = slice{start = [0, 2], …} %b : f32[4, 2]  →    %d = exp2 %c : f32[4, 2]

Costs decide the direction in which a view moves, so no two of these steps undo each other:

- `expand` moves towards the outputs, past an op whose sources are all repeated along an axis:
  the op then works on one copy. A product whose factors are repeated along different axes (a
  matmul) stays as it is. It also moves past other views, so that it comes last.
- `slice` moves towards the sources, past an op that only the slice reads: less is computed.
- `permute`, `reshape` and `flip` cost nothing, and are worth moving where views meet and become
  one. They move towards the sources, past ops that nothing else reads, unless that makes more
  views than there were; and towards the outputs where all sources have the same one, which makes
  fewer.

Values keep their bits: an elementwise op does the same at every position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Op, View
from luminal_lab.core.ops import Constant, Expand, Flip, Permute, Reshape, Slice
from luminal_lab.passes.asking import is_not
from luminal_lab.passes.rewrite import until_nothing_changes
from luminal_lab.passes.view_composition import sure
from luminal_lab.passes.walking import Walk, Walking

FREE = (Permute, Reshape, Flip)
"""Views that keep all elements of their source, each once."""
MOVED = (Elementwise, View, Constant)
"""The ops that a move may leave behind."""


@dataclass(frozen=True)
class PushViews(Walking):
    """Move views past elementwise ops, to where less is computed or views meet."""

    name: ClassVar[str] = "push-views"

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        until_nothing_changes(edit, ir.nodes, self.walk(edit).move)

    @override
    def walk(self, edit: Edit) -> Pushing:
        return Pushing(edit)

    @override
    def searches(self) -> tuple[str, ...]:
        return tuple(STEPS)


class Pushing(Walk):
    """The pass at work: the steps that it takes at a node."""

    def move(self, node: Node) -> None:
        """Take one step at a node, if any applies."""
        if isinstance(node.op, Elementwise):
            if not self.expand_later(node):
                self.view_later(node)
        elif isinstance(node.op, View) and not (self.expand_last(node) or self.slice_earlier(node)):
            self.view_earlier(node)

    @override
    def search(self, name: str, node: Node) -> None:
        STEPS[name](self, node)

    # -- towards the outputs -----------------------------------------------------------------------

    def expand_later(self, node: Node) -> bool:
        """Compute once instead of for each of several equal values."""
        if not self.is_elementwise(node):
            return False
        sources = self.edit.sources(node)
        repeated = [source for source in sources if not isinstance(source.op, Constant)]
        if not self.holds(bool(repeated), node, "{} reads constants alone", node):
            return False
        if not all(self.is_a(source, Expand) for source in repeated):
            return False
        inner = {source.id: self.edit.sources(source)[0] for source in repeated}
        small = tuple(
            1 if dim != 0 and all(x.shape[axis] == 1 for x in inner.values()) else dim
            for axis, dim in enumerate(node.shape)
        )
        apart = "its sources are repeated along no axis that they have in common"
        if not self.holds(small != node.shape, node, apart):
            return False
        because = f"{node.op.name} works on {node.type.with_shape(small)} instead of {node.type}"
        with self.edit.firing("expand-later", because):
            given = [
                self.expanded(inner[source.id], small, source)
                if source.id in inner
                else self.filled(source, small)
                for source in sources
            ]
            pushed = self.edit.insert(node.op, *given, like=node)
            self.put(self.edit.insert(Expand(node.shape), pushed, like=[*repeated, node]), node)
            self.drop(*sources)
        return True

    def expand_last(self, node: Node) -> bool:
        """Move another view before an expand, so that it views the source."""
        expand = self.viewed_by(node)
        if expand is None or not self.is_a(expand, Expand):
            return False
        (x,) = self.edit.sources(expand)
        op = self.before_expand(node, expand, x)
        if op is None:
            return False
        because = f"so the {node.op.name} views {x.type}, and what follows may work on that"
        with self.edit.firing("expand-last", because):
            pushed = x if _changes_nothing(op, x.shape) else self.edit.insert(op, x, like=node)
            self.put(self.expanded(pushed, node.shape, expand), node)
            self.drop(expand)
        return True

    def view_later(self, node: Node) -> bool:
        """View the result once where all sources have the same view."""
        if not self.is_elementwise(node):
            return False
        sources = self.edit.sources(node)
        viewed = {s.id: s for s in sources if not isinstance(s.op, Constant)}
        views = list(viewed.values())
        if not self.holds(len(views) > 1, node, "{} reads one value, and no two views", node):
            return False
        if not all(self.is_free(view) and self.is_read_once(view) for view in views):
            return False
        inner = {view.id: self.edit.sources(view)[0] for view in views}
        first, *others = views
        op, shape = first.op, inner[first.id].shape
        for view in others:
            is_same = view.op == op and inner[view.id].shape == shape
            if not self.holds(is_same, view, "{} is another view than {}", view, first):
                return False
        because = f"its sources are the same {op.name} of other values"
        with self.edit.firing("view-later", because):
            given = [inner[s.id] if s.id in inner else self.filled(s, shape) for s in sources]
            pushed = self.edit.insert(node.op, *given, like=node)
            self.put(self.edit.insert(op, pushed, like=[*views, node]), node)
            self.drop(*sources)
        return True

    # -- towards the sources -----------------------------------------------------------------------

    def slice_earlier(self, node: Node) -> bool:
        """Compute only the elements that a slice takes."""
        source = self.viewed_by(node)
        if source is None or not self.is_a(node, Slice) or not self.is_passed(source):
            return False
        given = self.edit.sources(source)
        is_computed = not all(isinstance(x.op, Constant) for x in given)
        if not self.holds(is_computed, source, "{} reads constants alone", source):
            return False
        because = f"{source.op.name} works on {node.type} instead of {source.type}"
        with self.edit.firing("slice-earlier", because):
            viewed = {
                x.id: self.filled(x, node.shape)
                if isinstance(x.op, Constant)
                else self.edit.insert(node.op, x, like=node)
                for x in given
            }
            self.put(self.edit.insert(source.op, *[viewed[x.id] for x in given], like=source), node)
            self.drop(source, *given)
        return True

    def view_earlier(self, node: Node) -> bool:
        """View the sources instead, if the view meets another one and no views are added."""
        source = self.viewed_by(node)
        if source is None or not self.is_free(node) or not self.is_passed(source):
            return False
        given = self.edit.sources(source)
        others = {x.id: x for x in given if not isinstance(x.op, Constant)}.values()
        met = {x.id: path for x in others if (path := self.way_to_another(node.op, x))}
        if not met:
            return False
        added = len(others) - len(met)
        if not self.holds(added < 2, source, "{} more views would stand before {}", added, source):
            return False
        for x in others:
            if isinstance(x.op, Expand):
                (inner,) = self.edit.sources(x)
                if self.before_expand(node, x, inner) is None:
                    return False
        left = [source, *given, *(node for path in met.values() for node in path[1:])]
        left += [x for path in met.values() for node in path[:-1] for x in self.edit.sources(node)]
        because = f"the {node.op.name} meets another one before {source.op.name}"
        with self.edit.firing("view-earlier", because):
            viewed = {
                x.id: self.filled(x, node.shape)
                if isinstance(x.op, Constant)
                else self.viewed(node, x, met.get(x.id, []))
                for x in given
            }
            self.put(self.edit.insert(source.op, *[viewed[x.id] for x in given], like=source), node)
            self.drop(*left)
        return True

    # -- questions ---------------------------------------------------------------------------------

    def is_a(self, node: Node, op: type[Op]) -> bool:
        """Return whether a node has an op."""
        if isinstance(node.op, op):
            self.reached("{} is {}", node, op.name)
            return True
        return self.inquiry is not None and self.holds(False, node, is_not(node, op))

    def is_elementwise(self, node: Node) -> bool:
        """Return whether a node is elementwise."""
        fact = isinstance(node.op, Elementwise)
        return self.holds(fact, node, "{} is {}, not elementwise", node, node.op.name)

    def is_free(self, node: Node) -> bool:
        """Return whether a node is a view that keeps all elements, each once."""
        fact = isinstance(node.op, FREE)
        names = "permute, reshape or flip"
        return self.holds(fact, node, "{} is {}, not {}", node, node.op.name, names)

    def is_read_once(self, node: Node) -> bool:
        """Return whether a node has a single user."""
        if len(self.edit.readers.get(node.id, ())) == 1 and not self.edit.is_output(node):
            return True
        return self.holds(False, node, "{} has more than one reader", node)

    def is_passed(self, source: Node) -> bool:
        """Return whether a view may move past its source, to what that reads."""
        if self.is_elementwise(source) and self.is_read_once(source):
            self.reached("it may pass {}", source)
            return True
        return False

    def viewed_by(self, node: Node) -> Node | None:
        """Return the source of a view."""
        is_view = isinstance(node.op, View)
        if self.holds(is_view, node, "{} is {}, and no view", node, node.op.name):
            return self.edit.sources(node)[0]
        return None

    def before_expand(self, node: Node, expand: Node, x: Node) -> Op | None:
        """Return the view that has the same effect before an expand as this one after it."""
        op = _before_expand(node, expand.shape, x.shape)
        why = "{} does to axes that {} repeats what it cannot do before"
        self.holds(op is not None, node, why, node, expand)
        return op

    def way_to_another(self, view: Op, x: Node) -> list[Node]:
        """Return the ops on a path to another view of that kind, and that view; empty if none.

        A view moves the whole path in one step: half-way there would be more views than before, and
        `view-later` would take them back.
        """
        path = [x]
        while self.is_read_once(path[-1]):
            if type(path[-1].op) is type(view):
                self.reached("{} is {}", path[-1], view.name)
                return path
            if not self.is_elementwise(path[-1]):
                break
            given = self.edit.sources(path[-1])
            sources = [source for source in given if not isinstance(source.op, Constant)]
            why = "{} reads {} values on the way to another {}"
            if not self.holds(len(sources) == 1, path[-1], why, path[-1], len(sources), view.name):
                break
            self.reached("it may pass {}", path[-1])
            path.append(sources[0])
        return []

    # -- steps -------------------------------------------------------------------------------------

    def filled(self, constant: Node, shape: Shape) -> Node:
        """Return a constant in another shape."""
        assert isinstance(constant.op, Constant)
        op = Constant(constant.op.value, constant.dtype, shape)
        return self.edit.insert(op, like=constant)

    def expanded(self, x: Node, shape: Shape, like: Node) -> Node:
        """Return a value in a shape to which it can be expanded."""
        return x if x.shape == shape else self.edit.insert(Expand(shape), x, like=like)

    def viewed(self, view: Node, x: Node, path: list[Node]) -> Node:
        """Return a view of a value; past the ops on a path it merges with another view."""
        if not path:
            return self.edit.insert(view.op, x, like=view)
        *between, other = path
        (pushed,) = self.edit.sources(other)
        op = _composed(other.op, view.op)
        if not _changes_nothing(op, pushed.shape):
            pushed = self.edit.insert(op, pushed, like=[view, other])
        for node in reversed(between):
            given = [
                self.filled(source, view.shape) if isinstance(source.op, Constant) else pushed
                for source in self.edit.sources(node)
            ]
            pushed = self.edit.insert(node.op, *given, like=node)
        return pushed

    def put(self, new: Node, old: Node) -> None:
        """Replace a node by another, and erase it."""
        self.edit.replace(old, new)
        self.drop(old)

    def drop(self, *nodes: Node) -> None:
        """Erase replaced nodes, unless others still read them."""
        for node in nodes:
            unread = node in self.edit and not self.edit.readers.get(node.id)
            if unread and isinstance(node.op, MOVED) and not self.edit.is_output(node):
                self.edit.erase(node)


STEPS: Mapping[str, Callable[[Pushing, Node], bool]] = {
    "expand-later": Pushing.expand_later,
    "expand-last": Pushing.expand_last,
    "view-later": Pushing.view_later,
    "slice-earlier": Pushing.slice_earlier,
    "view-earlier": Pushing.view_earlier,
}
"""The steps, by the names under which they fire."""


# -- views of views --------------------------------------------------------------------------------


def _changes_nothing(op: Op, shape: Shape) -> bool:
    match op:
        case Permute(axes=axes):
            return axes == tuple(range(len(axes)))
        case Reshape(shape=new):
            return new == shape
        case Flip(axes=axes):
            return not axes
        case Slice(start=start, stop=stop, step=step):
            return (*start, *stop, *step) == (*(0 for _ in shape), *shape, *(1 for _ in shape))
        case _:
            return False


def _composed(first: Op, second: Op) -> Op:
    """Return the composition of two views of one kind."""
    match first, second:
        case Permute(axes=a), Permute(axes=b):
            return Permute(tuple(a[axis] for axis in b))
        case Flip(axes=a), Flip(axes=b):
            return Flip(tuple(sorted({*a} ^ {*b})))
        case _:
            return second


def _before_expand(node: Node, wide: Shape, shape: Shape) -> Op | None:
    """Return the view that has the same effect before an expand as this one after it."""
    match node.op:
        case Permute():
            return node.op
        case Flip(axes=axes):
            return Flip(tuple(axis for axis in axes if shape[axis] != 1))
        case Slice():
            return _slice_before(node.op, wide, shape)
        case Reshape(shape=new):
            olds, news = ([k for k, dim in enumerate(s) if dim != 1] for s in (wide, new))
            if [wide[k] for k in olds] != [new[k] for k in news]:
                return None
            narrow: list[Dim] = [1] * len(new)
            for old, axis in zip(olds, news, strict=True):
                narrow[axis] = shape[old]
            return Reshape(tuple(narrow))
        case _:
            return None


def _slice_before(op: Slice, wide: Shape, shape: Shape) -> Slice | None:
    cuts = list(zip(op.start, op.stop, op.step, strict=True))
    for axis, (start, stop, _) in enumerate(cuts):
        if shape[axis] == 1 and wide[axis] != 1:
            if not sure(start >= 0, start <= stop, stop <= wide[axis]):
                return None
            cuts[axis] = (0, 1, 1)
    starts, stops, steps = zip(*cuts, strict=True) if cuts else ((), (), ())
    return Slice(starts, stops, steps)
