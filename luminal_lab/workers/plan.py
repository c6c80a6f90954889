"""What a person annotates: which axes of a few values are cut over which axes of a mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias

from typing_extensions import override

from luminal_lab.core.ir import IR, Node, nearest_node
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Input
from luminal_lab.core.origin import Origin, here
from luminal_lab.errors import ArgumentError, GraphError, ShapeError, counted, expect
from luminal_lab.tensor.lazy import Lazy
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.workers.layout import WHOLE, Layout
from luminal_lab.workers.mesh import Mesh

Words: TypeAlias = "Sequence[str | None] | str | None"
Annotated: TypeAlias = "str | Lazy"


class Annotation(NamedTuple):
    """One annotation: a name, a pattern, or a node's id, with a word for each axis."""

    what: str | int
    words: tuple[str, ...]
    origin: Origin | None
    tensor: tuple[str, TensorType] | None = None
    """The graph and the type of the tensor that was the key."""

    @override
    def __str__(self) -> str:
        name = self.what if isinstance(self.what, str) else f"%{self.what}"
        return f"{name}: ({', '.join(self.words)})"

    @property
    def where(self) -> str | None:
        """The user's line."""
        return None if self.origin is None else str(self.origin)

    def names(self, node: Node) -> bool:
        """Return whether a node is meant."""
        if isinstance(self.what, int):
            return node.id == self.what
        return node.meta.name is not None and fnmatchcase(node.meta.name, self.what)


@dataclass(frozen=True)
class Sharding:
    """A mesh, and what is cut over its axes; everything else follows."""

    mesh: Mesh
    annotations: tuple[Annotation, ...] = ()
    origin: Origin | None = field(default=None, compare=False)

    def layouts(self, ir: IR) -> dict[int, Layout]:
        """Return the layouts of the annotated values of a graph, or raise at the annotation.

        A value that is carried into an annotated input is annotated like it.
        """
        found: dict[int, tuple[Annotation, Layout]] = {}
        for annotation in self.annotations:
            named = [node for node in ir if annotation.names(node)]
            tensor = annotation.tensor
            if not named or tensor not in (None, (ir.name, named[0].type)):
                raise self._nothing(annotation, ir)
            for node in named:
                layout = self._layout(annotation, node)
                first, other = found.setdefault(node.id, (annotation, layout))
                if other != layout:
                    raise GraphError(
                        f"{node} is annotated twice: {first}, and {annotation}",
                        where="\n".join(
                            filter(None, dict.fromkeys([first.where, annotation.where]))
                        ),
                        hint="keep one of them, or make the pattern narrower",
                    )
        layouts = {id: layout for id, (_, layout) in found.items()}
        for new, old in ir.carries:
            if old not in layouts or isinstance(ir[new].op, Input):
                continue
            if layouts.setdefault(new, layouts[old]) != layouts[old]:
                raise GraphError(
                    f"{ir[new]} is carried to {ir[old]}, and they are annotated differently: "
                    f"({layouts[new]}) and ({layouts[old]})",
                    where=found[new][0].where,
                    hint="annotate the input alone",
                )
        return layouts

    def inputs(self, ir: IR) -> dict[int, Layout]:
        """Return the layouts of the annotated inputs of a graph; others may be gone by now."""
        return {
            node.id: self._layout(annotation, node)
            for node in ir.inputs
            for annotation in self.annotations
            if annotation.names(node)
        }

    def _nothing(self, annotation: Annotation, ir: IR) -> GraphError:
        names = [node.meta.name for node in ir if node.meta.name]
        ends = [node.name for node in ir.inputs]
        hint = nearest_node(str(annotation.what), names) or f"the inputs: {', '.join(ends[:8])}"
        if annotation.tensor is not None:
            graph, type = annotation.tensor
            hint = f"it is {type} in the graph {graph}; {hint}"
        return GraphError(
            f"the annotation {annotation} names nothing in {ir.name}",
            where=annotation.where,
            hint=hint,
        )

    def _layout(self, annotation: Annotation, node: Node) -> Layout:
        words, shape = annotation.words, node.shape
        if len(words) != len(shape):
            raise ShapeError(
                f"{annotation} has {counted(len(words), 'word')}, and {node} is {node.type}",
                where=annotation.where,
                hint=f"give one for each of its {counted(len(shape), 'axis', 'axes')}: "
                "an axis of the mesh, or None",
            )
        sizes = self.mesh.sizes
        for axis, word in enumerate(words):
            if word == WHOLE:
                continue
            dim, parts = shape[axis], sizes[word]
            if not isinstance(dim, int):
                raise ShapeError(
                    f"{annotation} cuts axis {axis} of {node}, whose size {dim} is not known",
                    where=annotation.where,
                    hint="write the graph with a number there",
                )
            if dim % parts:
                raise ShapeError(
                    f"{annotation} cuts axis {axis} of {node} into {parts} parts, and its size "
                    f"is {dim}",
                    where=annotation.where,
                    hint=f"{dim} is not a multiple of {parts}: use another axis or another mesh",
                )
        return Layout(tuple(WHOLE if sizes.get(word) == 1 else word for word in words))

    @override
    def __str__(self) -> str:
        return "\n".join([str(self.mesh), *(f"  {annotation}" for annotation in self.annotations)])


def sharding(mesh: Mesh, annotations: Mapping[Any, Words] | None = None) -> Sharding:
    """Return how values are cut over a mesh: by their names, by patterns of names, by tensors.

    Each axis of a value gets the name of an axis of the mesh, or None where every worker has it
    whole. What is not named follows from what is.

    >>> print(sharding(Mesh(data=2, model=2), {"x": ("data", None), "*.wq": ("model", None)}))
    Mesh(data=2, model=2)
      x: (data, -)
      *.wq: (model, -)
    """
    expect(mesh, Mesh, "sharding: the mesh is {}", "as in ll.Mesh(data=2)")
    hint = 'give a dict, as in {"x": ("data", None)}'
    expect(annotations, Mapping | None, "sharding: the annotations are {}", hint)
    origin = here()
    listed = [annotated(mesh, key, words, origin) for key, words in (annotations or {}).items()]
    return Sharding(mesh, tuple(listed), origin)


def annotated(mesh: Mesh, key: object, words: Words, origin: Origin | None) -> Annotation:
    """Return how one value is cut, as it is written at a line, or raise if it cannot be."""
    if isinstance(key, Parameter):
        raise ArgumentError(
            f"sharding: {key} belongs to no graph",
            where=None if origin is None else str(origin),
            hint="give the name that it has in the graph: cx.parameters lists them",
        )
    is_tensor = isinstance(key, Lazy)
    what: Any = key.id if is_tensor else key
    if not (is_tensor or isinstance(key, str)):
        raise ArgumentError(
            f"sharding: {key!r} is neither a name nor a tensor",
            where=None if origin is None else str(origin),
            hint='as in {"x": ("data", None)}',
        )
    if isinstance(what, str):
        what = what.removeprefix("%")
    listed = (words,) if isinstance(words, str) or words is None else tuple(words)
    if not all(word is None or isinstance(word, str) for word in listed):  # pyright: ignore[reportUnnecessaryIsInstance]  # nobody checks notebooks
        raise ArgumentError(
            f"sharding: {key}: the words are {words!r}",
            where=None if origin is None else str(origin),
            hint="each is an axis of the mesh, as in 'data', or None",
        )
    tensor = (key.graph.ir.name, key.node.type) if is_tensor else None
    named = tuple(WHOLE if word is None else word for word in listed)
    annotation = Annotation(what, named, origin, tensor)
    used = [word for word in annotation.words if word != WHOLE]
    try:
        mesh.unless_axes(f"sharding: {annotation}", used)
    except ArgumentError as error:
        error.where = annotation.where
        raise
    twice = next((word for word in used if used.count(word) > 1), None)
    if twice is not None:
        raise ArgumentError(
            f"sharding: {annotation} cuts two axes over {twice}",
            where=annotation.where,
            hint="an axis of the mesh can cut one axis of a value",
        )
    return annotation
