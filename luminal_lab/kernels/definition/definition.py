"""What a kernel computes, in index notation: arrays, each with the term of one element.

    text   = "kernel" name [ "[" dims "]" ] "(" inputs ")" "->" "(" outputs ")" { line }
    inputs = buffer ":" type , …                   outputs are written alike
    line   = buffer "[" axis "<" dim , … "]" "=" term       locals first, then the outputs
    term   = buffer "[" place , … "]"              a place is a dim, or a term: that is a lookup
           | ("sum" | "max") axis "<" dim ":" term          as far as it goes
           | term "where" "(" name , … ")" "=" "fold" axis "<" dim "from" "(" term , … ")" ":"
             { "let" name "=" term ";" } "(" term , … ")"   a pass: what its values are at first,
                                            what they become at each position, in order, and what
                                            is made of them at the end
           | "let" name "=" term ";" term          the name stands for the first in the second
           | "[" dim ":" term "]"                  the term where the condition holds, else 0
           | term ("+" | "-" | "*" | "%" | "<") term       a - b is a + b * -1, a - 2 is a + -2
           | "fused" "(" term "*" term ")"        a product that is not rounded before it is added
           | "flushed" "(" term "*" term ")"      such a product, where subnormals may count as 0
           | op [ "{" field "=" literal , … "}" ] "(" term , … ")"
           | dtype "(" term ")"                    a cast
           | dtype "[" dim "]"                     an index as a value
           | "random" "{" seed "," stream "}" "[" dim "]"
           | number [ "_" dtype ] | "(" term ")"   0.5 is f32, 2 is i64, true is bool

What stands in brackets is index arithmetic, in dims of the graph and the axes around it; a term as
an index, if it has no brackets of its own, is written with "at" before it. There are no views any
more: they became indices and conditions.

    kernel scores(q: f32[n, 64], k: f32[t, 64]) -> (s: f32[n, t])
      s[i < n, j < t] = (sum k < 64: q[i, k] * k[j, k]) * 0.125
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import NamedTuple

from typing_extensions import override

from luminal_lab.core.dims import Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType, mentioned
from luminal_lab.core.ops import Bitcast
from luminal_lab.core.printer import as_text, dim_declaration
from luminal_lab.kernels.definition.terms import Apply, Read, Term, free, walk, write
from luminal_lab.tensor.arguments import told_object


class Buffer(NamedTuple):
    """An array that is given to a kernel."""

    name: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class Output:
    """An array that a kernel computes: its axes, as many as its type has, and an element's term."""

    name: str
    type: TensorType
    axes: tuple[Symbol, ...]
    term: Term

    @override
    def __str__(self) -> str:
        return self.text()

    def text(self, taken: Collection[str] = ()) -> str:
        """Return the line; names for parts of its term avoid `taken`."""
        ranges = (f"{a.name} < {size}" for a, size in zip(self.axes, self.type.shape, strict=True))
        start = f"{self.name}[{', '.join(ranges)}] ="
        own = {self.name, *(axis.name for axis in self.axes)}
        term = write(self.term, {*taken, *own}, between="\n    ")
        return f"{start}\n    {term}" if "\n" in term else f"{start} {term}"


def header_text(
    title: str,
    dims: Mapping[str, Symbol],
    inputs: Sequence[Buffer],
    outputs: Sequence[Buffer],
    most: float = inf,
) -> str:
    """Return the first line of a kernel; a longer one is split into a line for each input."""
    known = mentioned([type for _, type in (*inputs, *outputs)], ())
    declared = [
        dim_declaration(symbol)
        for name, symbol in dims.items()
        if (symbol.low, symbol.high, symbol.multiple_of) != (1, None, 1) or name not in known
    ]
    title += f"[{', '.join(declared)}]" if declared else ""
    given, returned = (
        [f"{name}: {type}" for name, type in buffers] for buffers in (inputs, outputs)
    )
    header = f"{title}({', '.join(given)}) -> ({', '.join(returned)})"
    if not given or len(header) <= most:
        return header
    lines = "".join(f"    {text},\n" for text in given)
    return f"{title}(\n{lines}) -> ({', '.join(returned)})"


@told_object("definition")
@dataclass(frozen=True, repr=False)
class Definition:
    """What a kernel computes: the arrays that it reads, and a term for each array it computes.

    `locals` are made first, in order, and are gone at the end. A line may read the inputs and the
    locals before it. All names (of buffers, of axes around a term, of dims) differ.
    """

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Output, ...]
    locals: tuple[Output, ...] = ()

    @property
    def lines(self) -> tuple[Output, ...]:
        """All locals and outputs, in order."""
        return (*self.locals, *self.outputs)

    @cached_property
    def types(self) -> Mapping[str, TensorType]:
        """The types of all buffers by their names, in order."""
        return {buffer.name: buffer.type for buffer in (*self.inputs, *self.lines)}

    @cached_property
    def dims(self) -> Mapping[str, Symbol]:
        """The symbolic dims of the graph that the definition mentions, by name."""
        symbols = dict(mentioned(self.types.values(), ()))
        for line in self.lines:
            symbols |= free(line.term, {axis.name for axis in line.axes})
        return {name: symbols[name] for name in sorted(symbols)}

    @cached_property
    def floats(self) -> Mapping[str, DType]:
        """The dtypes of floats as which the bits of integers are read, by the names of these."""
        found: dict[str, DType] = {}
        for term in walk(*(line.term for line in self.lines)):
            if isinstance(term, Apply) and isinstance(term.op, Bitcast) and term.dtype.is_float:
                for part in walk(term):
                    is_same_size = part.dtype.itemsize == term.dtype.itemsize
                    if isinstance(part, Read) and part.dtype.kind == "int" and is_same_size:
                        found[part.buffer] = term.dtype
        return found

    @override
    def __str__(self) -> str:
        outputs = [Buffer(output.name, output.type) for output in self.outputs]
        header = header_text(f"kernel {self.name}", self.dims, self.inputs, outputs, most=100)
        return "\n".join([header, *self.texts])

    @cached_property
    def texts(self) -> Sequence[str]:
        """The lines as text."""
        taken = {*self.types, *self.dims}
        return [f"  {line.text(taken)}" for line in self.lines]

    def named(self, name: str) -> "Definition":
        """Return the same under another name, with what is known of it.

        >>> y = (cx.tensor((4,), name="x") * 2).retrieve()
        >>> compiled = cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90"))
        >>> print(cx.kernels["mul"].definition.named("double"))
        kernel double(a: f32[4]) -> (O: f32[4])
          O[i < 4] = a[i] * 2.0
        """
        other = replace(self, name=name)
        other.__dict__.update(types=self.types, dims=self.dims, texts=self.texts)
        return other

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Definition {self.name}; print(…) shows it>"
