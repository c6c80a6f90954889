"""The C of an exported model: its kernels and launches, the plans for sizes, and its interface.

A plan is tables: which launches run, how many tasks each phase has, how large each place of the
arena is and what lies below it. All sizes are numbers that one function works out from the dims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from luminal_lab.artefact.contents import Contents, Given
from luminal_lab.artefact.tables import PlanTables, Pointers, table
from luminal_lab.core.dims import Dim, Symbol, substitute, symbols
from luminal_lab.core.dims.expression import Atom, products
from luminal_lab.core.dims.limits import interval
from luminal_lab.core.dtypes import DType
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.definition.numbers import Numbers
from luminal_lab.kernels.prelude.files import whole
from luminal_lab.kernels.render.c.program import most_given, private_source
from luminal_lab.kernels.render.index import index_c
from luminal_lab.kernels.render.names import c_name

C_TYPES = {
    DType.float64: "double",
    DType.float32: "float",
    DType.float16: "uint16_t",
    DType.bfloat16: "uint16_t",
    DType.bool_: "uint8_t",
}
LARGEST = 1 << 62
"""What no number of a plan may exceed."""
MOST_BITS = 40
"""Dims without a bound are smaller than 2 to the power of this, or of less."""


class Header(NamedTuple):
    """What the C knows about the weights file."""

    bytes: int
    """Of the whole file."""
    header: bytes
    """What comes before the data."""
    offsets: Mapping[str, int]
    """Where each weight begins in the file."""

    @property
    def digest(self) -> int:
        """A digest of the header, as artefact.c works it out."""
        digest = 0xCBF29CE484222325
        for byte in self.header:
            digest = (digest ^ byte) * 0x100000001B3 % 2**64
        return digest


class Source:
    """The header and the source of an exported model."""

    def __init__(self, contents: Contents, file: Header | None, about: str) -> None:
        self._contents, self._file, self._about = contents, file, about
        self._name, self._numbers = contents.name, Numbers()
        pointers, numbers = Pointers(contents), self._numbers
        self._given = pointers.given
        self._plans = [
            (sizes, PlanTables(contents, pointers, plan, numbers)) for sizes, plan in contents.plans
        ]
        axes = [dim for one in (*contents.inputs, *contents.outputs) for dim in one.type.shape]
        self._axes = [numbers.place(dim) for dim in axes]
        self.most = _most_size(numbers.dims, contents.symbols)
        """The largest size of a dim that has no smaller bound."""

    @property
    def header(self) -> str:
        """The header: what somebody who links it calls."""
        contents, name = self._contents, self._name
        dims = [
            f"    int64_t {c_name(symbol.name)};  // {self._told(symbol)}"
            for symbol in contents.symbols.values()
        ] or ["    int64_t none;  // no size is open: a null pointer does"]
        ins = [_field(one, one.carried) for one in contents.inputs] or ["    const void *none;"]
        outs = [_field(one, writes=True) for one in contents.outputs if not one.carried]
        guard = f"{name.upper()}_H"
        return TEMPLATE.format(
            about=self._about,
            guard=guard,
            name=name,
            dims="\n".join(dims),
            ins="\n".join(ins),
            outs="\n".join(outs or ["    void *none;"]),
            axes=max(1, len(self._axes) + 1),
            weights=0 if self._file is None else self._file.bytes,
        )

    def _told(self, symbol: Symbol) -> str:
        low, high = self.bounds(symbol)
        multiple = f", a multiple of {symbol.multiple_of}" * (symbol.multiple_of > 1)
        usual = [way[symbol.name] for way, _ in self._contents.plans if way and symbol.name in way]
        own = ", ".join(dict.fromkeys(str(size) for size in usual if isinstance(size, int)))
        return f"{low} to {high}{multiple}" + (f"; with kernels of its own: {own}" if own else "")

    def bounds(self, symbol: Symbol) -> tuple[int, int]:
        """Return the least and the largest size of a dim."""
        high = symbol.high if isinstance(symbol.high, int) else self.most
        return symbol.low, min(high, self.most)

    def text(self, interface: str, *, some: bool = False) -> str:
        """Return the source; `interface` is the digest of what model.json says.

        With `some` it has a function, too, that runs some of the launches.
        """
        contents, uses = self._contents, set[str]()
        dims = contents.symbols
        numbers = [index_c(dim, uses=uses) for dim in self._numbers.dims]
        given = [f"    const lab_i64 {c_name(s)} = dims[{at}];" for at, s in enumerate(dims)]
        lines = [f"    numbers[{at}] = {text};" for at, text in enumerate(numbers)]
        used = {c_name(s): any(_mentions(d, s) for d in self._numbers.dims) for s in dims}
        given += [f"    (void){name};" for name, is_used in used.items() if not is_used]
        kernels, launches = contents.work.kernels.values(), contents.work.uses
        phases, buffers, arguments = most_given(kernels, launches)
        file = self._file
        offsets = [] if file is None else [file.offsets[w.name] for w in contents.weights]
        limits = {
            "LAB_DIMS": len(dims),
            "LAB_NUMBERS": max(1, len(numbers)),
            "LAB_PLACES": max([1, *(len(plan.places) for _, plan in self._plans)]),
            "LAB_VALUES": max(1, len(contents.work.slots)),
            "LAB_GIVENS": len(self._given),
            "LAB_PHASES": phases,
            "LAB_BUFFERS": buffers,
            "LAB_ARGUMENTS": arguments,
            "LAB_WEIGHT_BYTES": 0 if file is None else file.bytes,
            "LAB_HEADER_BYTES": 0 if file is None else len(file.header),
            "LAB_HEADER_DIGEST": f"0x{0xCBF29CE484222325 if file is None else file.digest:x}u",
            "LAB_NOWHERE": "INT32_MIN",
        }
        bounds = [
            f"{{{low}, {high}, {s.multiple_of}}}"
            for s in dims.values()
            for low, high in [self.bounds(s)]
        ]
        head, tail = whole("artefact.c").split("// Binds sizes of dims", 1)
        return (
            "\n\n".join(
                [
                    self._about,
                    f'#include "{self._name}.h"',
                    "// Every kernel takes the same arguments, and most need only some of them.\n"
                    '#pragma GCC diagnostic ignored "-Wunused-parameter"\n'
                    "#ifndef __clang__  // vectors are passed within this file alone\n"
                    '#pragma GCC diagnostic ignored "-Wpsabi"\n'
                    "#endif",
                    private_source(kernels, launches, uses).rstrip(),
                    "\n".join(f"#define {word} {number}" for word, number in limits.items()),
                    head.rstrip(),
                    table("lab_bounds", "lab_dim_bounds", bounds),
                    table("lab_i64", "lab_weight_offsets", offsets),
                    table("lab_i32", "lab_axes", self._axes),
                    "static void lab_numbers(const lab_i64 *dims, lab_i64 *numbers) {\n"
                    + "\n".join([*given, *lines])
                    + "\n}",
                    *(plan.text(at) for at, (_, plan) in enumerate(self._plans)),
                    self._chosen(),
                    "// Binds sizes of dims" + tail,
                    self._interface(interface, some=some),
                ]
            )
            + "\n"
        )

    def _chosen(self) -> str:
        """Return the function that finds the plan for sizes."""
        lines = ["static const lab_plan *lab_plan_of(const lab_i64 *dims) {"]
        order = {name: at for at, name in enumerate(self._contents.symbols)}
        for at, (sizes, _) in enumerate(self._plans):
            asked = [
                f"dims[{order[name]}] >= {size.low} && dims[{order[name]}] <= {size.high}"
                if isinstance(size, Symbol)
                else f"dims[{order[name]}] == {size}"
                for name, size in (sizes or {}).items()
            ]
            test = f"if ({' && '.join(asked)}) " if asked else ""
            lines.append(f"    {test}return &lab_plan_{at};")
        return "\n".join([*lines, "}"])

    def _interface(self, digest: str, *, some: bool) -> str:
        name, contents = self._name, self._contents
        sizes = ", ".join(f"dims->{c_name(s)}" for s in contents.symbols) or "0"
        count = len(contents.inputs)
        given = [
            f"(void *)(uintptr_t){'in' if at < count else 'out'}->{one.c_name}"
            for at, one in enumerate(self._given)
        ]
        weights = "(void *)(uintptr_t)weights" if self._file is not None else "memory"
        unused = "" if contents.symbols else "    (void)dims;\n"
        structs = [word for word in ("in", "out") if any(f"){word}->" in one for one in given)]
        template = INTERFACE
        if some:  # exported, too, though no header says so
            begin = template.index("int {name}_run(")
            run = template[begin : template.index("\n\n", begin)]
            run = run.replace("{name}_run(", "{name}_some(").replace(
                "uint32_t step)", "uint32_t step, const unsigned char *asked)"
            )
            run = "{name}_export " + run.replace("step, 0)", "step, asked)")
            template += "\n\n" + run
        return template.format(
            name=name,
            sizes=sizes,
            given=", ".join([*given, weights]),
            unused=unused,
            no_dims="!dims || " if contents.symbols else "",
            no_arrays="".join(f"!{word} || " for word in structs),
            count=len(self._axes),
            interface=digest,
        )


def _field(one: Given, carried: str = "", *, writes: bool = False) -> str:
    kind = C_TYPES.get(one.type.dtype, f"{one.type.dtype}_t")
    const = "" if writes or carried else "const "
    more = f", in and out: afterwards {carried} is there" if carried else ""
    return f"    {const}{kind} *{one.c_name};  // {one.type}{more}"


def _mentions(dim: Dim, name: str) -> bool:
    return any(symbol.name == name for symbol in symbols(dim))


def _most_size(dims: Sequence[Dim], known: Mapping[str, Symbol]) -> int:
    """Return the largest size of open dims with which no number overflows."""
    for dim in dims:
        _check_divisors(dim, known)
    for bits in range(MOST_BITS, 0, -1):
        most = 1 << bits
        sizes = {
            name: min(symbol.high, most) if isinstance(symbol.high, int) else most
            for name, symbol in known.items()
        }
        if all(_largest(dim, sizes) < LARGEST for dim in dims):
            return most
    raise DeviceError("export: sizes of this graph exceed 64 bits")


def _largest(dim: Dim, sizes: Mapping[str, int]) -> int:
    """Return what a dim and all numbers on the way to it are at most, in absolute value."""
    total = 0
    for factor, atoms in products(dim):
        product = abs(factor)
        for atom in atoms:
            product *= max(1, _largest_atom(atom, sizes))
        total += product
    return total


def _largest_atom(atom: Atom, sizes: Mapping[str, int]) -> int:
    if isinstance(atom, Symbol):
        return max(sizes[atom.name], abs(atom.low))
    return max(_largest(argument, sizes) for argument in atom.arguments)


def _check_divisors(dim: Dim, known: Mapping[str, Symbol]) -> None:
    for _, atoms in products(dim):
        for atom in atoms:
            if isinstance(atom, Symbol):
                continue
            if atom.sign in ("//", "%") and interval(_within(atom.arguments[1], known))[0] < 1:
                raise DeviceError(
                    f"export: {atom} divides by {atom.arguments[1]}, which may be 0",
                    hint="declare its bounds, cx.dim(name, low, high), or export with "
                    "sizes={name: range(low, high + 1)}",
                )
            for argument in atom.arguments:
                _check_divisors(argument, known)


def _within(dim: Dim, known: Mapping[str, Symbol]) -> Dim:
    """Return a dim of symbols with the bounds that they have in the export."""
    narrower = {s.name: known[s.name] for s in symbols(dim) if known.get(s.name, s) != s}
    return substitute(dim, narrower) if narrower else dim


TEMPLATE = """\
{about}

#ifndef {guard}
#define {guard}
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif

#if defined(_WIN32)
#define {name}_export __declspec(dllexport)
#else
#define {name}_export __attribute__((visibility("default")))
#endif

// The sizes of its dims.
typedef struct {{
{dims}
}} {name}_dims;

// Its arrays, row by row and aligned as their numbers are; no two that overlap.
typedef struct {{
{ins}
}} {name}_in;

typedef struct {{
{outs}
}} {name}_out;

enum {{
    {name}_ok,
    {name}_processor,  // this processor lacks instructions that the library has
    {name}_weights,    // these are not its weights, or not all of them
    {name}_sizes,      // sizes of dims that it cannot have
    {name}_index,      // an index in the data is out of range; outputs are not finished
    {name}_in_use,     // another run is under way in this arena
    {name}_missing     // a null pointer
}};

#define {name}_axes {axes}
#define {name}_weight_bytes {weights}

// Asks, before the first run, whether it can run here with the bytes of weights.safetensors, which
// the caller maps or reads, aligned to 8 bytes.
{name}_export int {name}_open(const void *weights, size_t bytes);

// Says how many bytes an arena must have for some sizes, then the sizes of each axis of each input
// and output, in their order; {name}_axes numbers in all.
{name}_export int {name}_sizes_of(const {name}_dims *dims, int64_t *sizes);

// Runs it. The caller owns all memory, and what it holds matters only during a run: each thread has
// an arena of its own. `step` is the number of runs before, on which random numbers depend.
{name}_export int {name}_run(const {name}_dims *dims, const void *weights, const {name}_in *in,
                       const {name}_out *out, void *arena, uint32_t step);

// Says what a number means that these have returned.
{name}_export const char *{name}_says(int code);

// A digest of what model.json says about inputs, outputs and dims.
{name}_export const char *{name}_interface(void);

#ifdef __cplusplus
}}
#endif
#endif
"""
"""The header of a model."""
INTERFACE = """\
int {name}_open(const void *weights, size_t bytes) {{
    return lab_check(weights, bytes);
}}

int {name}_sizes_of(const {name}_dims *dims, int64_t *sizes) {{
{unused}    if ({no_dims}!sizes) return LAB_MISSING;
    const lab_i64 given[] = {{{sizes}}};
    lab_bound bound;
    const int fits = lab_bind(given, &bound);
    if (fits != LAB_OK) return fits;
    *sizes++ = lab_bytes(&bound);
    for (int k = 0; k < {count}; k++) *sizes++ = bound.numbers[lab_axes[k]];
    return LAB_OK;
}}

int {name}_run(const {name}_dims *dims, const void *weights, const {name}_in *in,
         const {name}_out *out, void *memory, uint32_t step) {{
{unused}    if ({no_dims}{no_arrays}!memory) return LAB_MISSING;
    const lab_i64 sizes[] = {{{sizes}}};
    (void)weights, (void)in, (void)out;
    void *const given[] = {{{given}}};
    return lab_run_all(sizes, given, memory, step, 0);
}}

const char *{name}_says(int code) {{
    static const char *const words[] = {{
        "all is well",
        "this processor lacks instructions that the library has; compile it here: make",
        "these are not the weights that it was exported with, or not all of them",
        "sizes of dims that it cannot have",
        "an index in the data is out of range",
        "another run is under way in this arena; give each thread an arena of its own",
        "an array, the sizes, the weights or the arena is missing: a null pointer",
    }};
    return code >= 0 && code < (int)(sizeof words / sizeof *words) ? words[code] : "no such code";
}}

const char *{name}_interface(void) {{
    return "{interface}";
}}"""
"""The functions of a model, after everything else."""
