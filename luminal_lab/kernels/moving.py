"""Update and scatter as nests: a copy of the whole, unless it is in place, then rows or elements.

Arrays are one row here, whatever their shapes: `outer` parts of `size` positions of `inner`
elements, of which `count` positions are given. A CPU's task goes through neighbours; on a GPU each
neighbour has a thread. A scatter writes in the order of its indices, so that the result is the same
in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import Template

from luminal_lab.core.dims import Dim, maximum, symbols
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.core.ops import Scatter, Update
from luminal_lab.core.printer import unique
from luminal_lab.kernels.definition.definition import Buffer, header_text
from luminal_lab.kernels.dialect import C, Dialect
from luminal_lab.kernels.kernel import Kernel, comment, function_name
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.render.c.nest import render_nest
from luminal_lab.kernels.render.gpu.render import render_gpu

PIECE = 1 << 18
"""The bytes that one task of a CPU copies."""
NUMBERS = {"columns": 1024, "threads": 256, "elements": 16}
"""The columns to which one task of a CPU scatters side by side; the threads of a GPU's block, and
the elements that each copies."""

CPU = {
    "copy": """
  parallel $t < ($whole + $piece - 1) // $piece:
    for $e < min($piece, $whole - $piece*$t) of $piece:
      $to[$piece*$t + $e] = $cast($source[$piece*$t + $e])""",
    "rows": """
  parallel $t < ($outer + $each - 1) // $each:
    for $i < min($each, $outer - $each*$t) of $each:
      for $e < $part:
        $to[($each*$t + $i)*$size*$inner + $start + $e] = $rows[($each*$t + $i)*$part + $e]""",
    "columns": """
  parallel $t < $outer*$blocks:
    for $k < $count:
      for $j < min($columns, $inner - $columns*($t % $blocks)) of $columns:
        at $index[$put] as $p < $size:
          $to[($t // $blocks*$size + $p)*$inner + $column] $how $cast($values[$put])""",
    "column": "$t % $blocks*$columns + $j",
    "put": "($t // $blocks*$count + $k)*$inner + $column",
}
GPU = {
    "copy": """
  block $b < ($whole + $elements*$threads - 1) // ($elements*$threads):
    thread $l < $threads:
      for $k < $elements:
        if $e < $whole:
          $to[$e] = $cast($source[$e])""",
    "rows": """
  block $b < ($outer*$part + $elements*$threads - 1) // ($elements*$threads):
    thread $l < $threads:
      for $k < $elements:
        if $e < $outer*$part:
          $to[$e // $part*$size*$inner + $start + $e % $part] = $rows[$e]""",
    "e": "($threads*($elements*$b + $k) + $l)",
    "columns": """
  block $b < ($outer*$inner + $threads - 1) // $threads:
    thread $l < $threads:
      if $threads*$b + $l < $outer*$inner:
        for $k < $count:
          at $index[$put] as $p < $size:
            $to[($i*$size + $p)*$inner + $column] $how $cast($values[$put])""",
    "i": "($threads*$b + $l) // $inner",
    "column": "($threads*$b + $l) % $inner",
    "put": "($i*$count + $k)*$inner + $column",
}
"""The parts of nests: words with $ are dims and arrays, expressions of this table, or axes."""


def moving_kernel(
    op: Update | Scatter, types: Sequence[TensorType], name: str, dialect: Dialect = C
) -> Kernel:
    """Return a kernel that puts rows into a buffer, or elements where an index says."""
    whole, given = types[:2]
    count, bytes_each = size_of(given.shape), 2 * whole.dtype.itemsize
    if isinstance(op, Update):
        title = f"update along axis {op.axis}: {whole} gets {given} at {op.at}"
        cost = 0, count * bytes_each
    else:
        title = f"scatter {op.mode} along axis {op.axis}: {whole} by {given}"
        cost = count if op.mode == "add" else 0, count * (given.dtype.itemsize + bytes_each)
    nest = _Parts(op, types, CPU if dialect is C else GPU).nest(name)
    dims, function = tuple(nest.dims), function_name(name)
    if dialect is C:
        source = render_nest(nest, function, dims)
    else:
        source = render_gpu(nest, function, dims, dialect)
    kernel = Kernel(name, None, "", (), nest=nest, given_dims=dims, cost=cost, dialect=dialect.name)
    return source.put_into(kernel, comment(title))


class _Parts:
    """The parts of one nest, with names that no dim has."""

    def __init__(
        self, op: Update | Scatter, types: Sequence[TensorType], forms: dict[str, str]
    ) -> None:
        self.op, self.types, self.forms = op, types, forms
        (shape, given), axis = (type.shape for type in types[:2]), op.axis
        start = op.at if isinstance(op, Update) else 0
        self.dims = {s.name: s for dim in (*shape, *given, start) for s in symbols(dim)}
        self.taken = set(self.dims)
        inner, part = size_of(shape[axis + 1 :]), size_of(given[axis:])
        each = maximum(1, PIECE // maximum(1, part * types[0].dtype.itemsize))
        columns = NUMBERS["columns"]
        blocks = (inner + columns - 1) // columns
        sizes: dict[str, Dim] = {"outer": size_of(shape[:axis]), "size": shape[axis]}
        sizes |= {"inner": inner, "count": given[axis], "part": part, "start": start * inner}
        sizes |= {"whole": size_of(shape), "each": each, "blocks": blocks, **NUMBERS}
        self.words = {word: f"({dim})" for word, dim in sizes.items()}

    def nest(self, name: str) -> Nest:
        """Return the nest."""
        op, whole = self.op, self.types[0]
        words = ("x", "rows") if isinstance(op, Update) else ("x", "index", "values")
        given = [self.array(*pair) for pair in zip(words, self.types, strict=True)]
        x, y = given[0], self.array("y", whole)
        text = f"{header_text(f'nest {name}', self.dims, given, [y])}\n  {y.name} over {x.name}"
        if isinstance(op, Update):
            text += self.copy(x, y) + self.part("rows", y)
        elif op.mode == "add" and whole.dtype.is_half:
            # They are added up in float32, and rounded once.
            wide = self.array("wide", whole.with_dtype(DType.float32))
            text += f"\n  local {wide.name}: {wide.type} in memory{self.copy(x, wide)}"
            text += self.part("columns", wide, how="+=", cast="f32") + self.copy(wide, y)
        else:
            how = "+=" if op.mode == "add" else "="
            text += self.copy(x, y) + self.part("columns", y, how=how, cast="")
        return parse_nest(text)

    def array(self, word: str, type: TensorType) -> Buffer:
        """Return an array, as one row."""
        self.words[word] = self.new(word)
        return Buffer(self.words[word], type.with_shape((size_of(type.shape),)))

    def new(self, word: str) -> str:
        """Return an unused name."""
        name = unique(word, self.taken)
        self.taken.add(name)
        return name

    def copy(self, source: Buffer, to: Buffer) -> str:
        """Return the text of a copy of an array, in the dtype of another."""
        dtype = to.type.dtype
        cast = "" if source.type.dtype is dtype else dtype.short
        piece = str(PIECE // dtype.itemsize)
        return self.part("copy", to, source=source.name, cast=cast, piece=piece)

    def part(self, form: str, to: Buffer, **words: str) -> str:
        """Return the text of a part that writes to an array; without values, nothing is written.

        Its axes get new names.
        """
        if form != "copy" and size_of(self.types[1].shape) == 0:
            return ""
        words |= {**self.words, "to": to.name}
        text = Template(self.forms[form])
        while open_words := {*text.get_identifiers()} - words.keys():
            filled = {word: self.forms.get(word) or self.new(word) for word in open_words}
            words |= {word: name for word, name in filled.items() if word not in self.forms}
            text = Template(text.safe_substitute(filled))
        return text.substitute(words)
