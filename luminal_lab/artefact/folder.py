"""A compile as a folder: everything is made first, and then written file by file."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from luminal_lab.artefact.contents import Contents, Given, contents_of, told_by
from luminal_lab.artefact.rows import rows_of
from luminal_lab.artefact.sizes import chosen_sizes
from luminal_lab.artefact.source import Source
from luminal_lab.artefact.targets import EVERYWHERE, NATIVE, Target, native, target_of
from luminal_lab.artefact.weights_file import header_of, write_weights
from luminal_lab.core.dims import Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType
from luminal_lab.core.origin import warn
from luminal_lab.devices.build.toolchain import Compiler, compile_library
from luminal_lab.devices.cpu.assembly import cpu_maker
from luminal_lab.devices.cpu.program import CPUProgram, CPUSource
from luminal_lab.devices.runtime.worklist import Worklist, c_maker
from luminal_lab.errors import ArgumentError, DeviceError, expect, visible
from luminal_lab.kernels.render.names import c_name
from luminal_lab.passes.compilation import Compilation
from luminal_lab.trust import admit, library_of, sign
from luminal_lab.writing import as_path, write_bytes

FORMAT: Final = 1
"""The format of model.json."""
FIRST: Final = 1800.0
"""The seconds that zig may take: at first it builds the C library of a machine."""
WEIGHTS: Final = "weights.safetensors"
MODEL: Final = "model.json"
PROJECT: Final = "luminal_lab"
ALWAYS: Final = (MODEL, WEIGHTS, "Makefile", "main.c", "run.py")
"""What each export writes, whatever its name."""
MAKES: Final = "cx.compile(ll.GenericCompiler(), ll.CPUCompiler()) makes one"
HALVES: Final = (DType.bfloat16,)
PRINTED: Final = {DType.float64: "%g", DType.float32: "%g"}


def export(
    compilation: Compilation,
    folder: str | Path,
    *,
    target: str = NATIVE,
    name: str | None = None,
    sizes: object = None,
) -> Path:
    """Write a compile as a folder that runs without us, and return the folder."""
    expect(target, str, "export: the target is {}", 'as in target="native"')
    expect(name, str | None, "export: the name is {}", 'as in name="digits"')
    path = as_path("export", folder, "digits")
    program, data = compilation.program, compilation.data
    if not isinstance(program, CPUSource):
        raise DeviceError("export: the compile has no program for a CPU", hint=MAKES)
    if data is None:
        raise DeviceError(
            "export: the compile comes from a recording or a text, and has no session with data",
            hint="compile the graph of a session: cx.compile(...).export(folder)",
        )
    chosen, given = chosen_sizes(compilation.ir, sizes), program.list
    if target == NATIVE:
        own = program.compiler if isinstance(program, CPUProgram) else None
        aim, compiler = native(own)
        maker = cpu_maker(compiler)
    else:
        aim, compiler = target_of(target)
        maker = c_maker(aim.plans_for)
    work = given
    if target != NATIVE or chosen.usual:
        before = [*given.sizes] if given.is_asked else []
        asked = chosen.usual or [
            {name: size for name, size in ways.items() if isinstance(size, int)} for ways in before
        ]
        more = (given.schedules, given.recall) if target == NATIVE else (None, None)
        work = Worklist(compilation.ir, maker, asked, *more, given.programs)
    named = _name(compilation, path, name)
    _unless_own(path, named)
    contents = contents_of(compilation, data, work, named, chosen.bounds)
    kept = [*contents.weights, *contents.starts]
    file = header_of(kept) if kept else None
    about = f"// The model {contents.name}, written by luminal_lab; run.py and main.c call it."
    source = Source(contents, file, about)
    interface = _interface(contents, source, {} if file is None else file.offsets)
    text = source.text(_digest(interface))
    admit(text)
    library = None if compiler is None else _compiled(contents, source, text, compiler, aim)
    names = {one.name for one in contents.inputs}
    written = compilation.written
    rows = rows_of(written, [node for node in written.inputs if node.name in names])
    model: dict[str, object] = {
        "format": FORMAT,
        "project": PROJECT,
        "version": sys.modules["luminal_lab"].__version__,
        "name": contents.name,
        "machine": aim.machine,
        "library": f"{contents.name}{aim.suffix}",
        "weights": 0 if file is None else file.bytes,
        "batch": rows.name if isinstance(rows, Symbol) else rows,
        "interface": interface,
    }
    made = {
        f"{contents.name}.c": text,
        f"{contents.name}.h": source.header,
        "main.c": _main(contents, source),
        "Makefile": _makefile(contents.name, aim, compiler),
        "run.py": _template("runner.py"),
        MODEL: json.dumps(model, indent=1) + "\n",
    }
    _make_folder(path)
    if file is not None:
        write_weights(path / WEIGHTS, file, kept)
    if library is not None:
        sign([library_of(library, str(path))])  # users may run again what they export
        write_bytes("export", path / str(model["library"]), library)
    else:
        warn("export: there is no C compiler, so the folder has no library; make compiles it")
    for file_name, words in made.items():
        write_bytes("export", path / file_name, words.encode())
    return path


FORMATTERS: Final[Mapping[str, Callable[..., Any]]] = {"Compilation.export": export}
"""What classes of the core call here, by name."""


def _name(compilation: Compilation, path: Path, asked: str | None) -> str:
    """Return the name of the model in C: as asked, or the graph's, or the folder's."""
    if asked is not None:
        is_word = re.fullmatch(r"[a-z]\w*", asked, re.ASCII) is not None
        if not is_word or c_name(asked) != asked:
            taken = f"C, or what comes with it, has this name: add a word, as in {asked}_model"
            plain = 'a name is letters, digits and "_", and begins with a small letter'
            raise ArgumentError(
                f"export: {asked!r} cannot be the name of functions in C",
                hint=taken if is_word else plain,
            )
        return asked
    own = compilation.written.name
    chosen = own if own != "main" else path.resolve().name
    chosen = re.sub(r"\W+", "_", chosen, flags=re.ASCII).strip("_").lower()
    is_name = re.fullmatch(r"[a-z]\w*", chosen, re.ASCII) and c_name(chosen) == chosen
    return chosen if is_name else "model"


def _unless_own(path: Path, name: str) -> None:
    """Raise if a folder has files that are the user's, or another model's, under names of ours."""
    try:
        known: Any = json.loads((path / MODEL).read_bytes())
        is_ours = known["project"] == PROJECT
    except (OSError, LookupError, TypeError, ValueError, RecursionError):
        known, is_ours = {}, False
    if is_ours:
        if known.get("name") != name:
            other = visible(str(known.get("name")))
            raise ArgumentError(
                f"export: {path} has the model {other}, and this is {name}",
                hint="name another folder; or give it that name, to write over it",
            )
        return
    if own := [file for file in (f"{name}.c", f"{name}.h", *ALWAYS) if (path / file).exists()]:
        raise ArgumentError(
            f"export: {path} has files that no export wrote: {', '.join(own)}",
            hint="name a folder that is new, or empty",
        )


def written_in(folder: Path) -> list[str]:
    """Return the names of the files that an export has written."""
    about = json.loads((folder / MODEL).read_bytes())
    files = *ALWAYS, f"{about['name']}.c", f"{about['name']}.h", str(about["library"])
    return sorted(file for file in files if (folder / file).exists())


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(
            f"export: {path} cannot be a folder: {error.strerror or error}",
            hint="name a folder that is there, or that can be made",
        ) from error


def _digest(interface: object) -> str:
    """Return the digest that run.py works out, too."""
    return sha256(json.dumps(interface).encode()).hexdigest()[:32]


def _interface(
    contents: Contents, source: Source, offsets: Mapping[str, int]
) -> list[list[dict[str, object]]]:
    """Return what model.json says about inputs, outputs and dims."""
    starts = {weight.id: weight for weight in contents.starts}
    inputs: list[dict[str, object]] = []
    for one in contents.inputs:
        start: object = None
        if one.id in starts:
            weight = starts[one.id]
            begin, shape = offsets[weight.name], list(weight.value.shape)
            start = [begin, weight.value.nbytes, shape]
        inputs.append({**_said(one), "carried": one.carried, "start": start})
    dims: list[dict[str, object]] = [
        {
            "name": symbol.name,
            "low": source.bounds(symbol)[0],
            "high": source.bounds(symbol)[1],
            "multiple_of": symbol.multiple_of,
            "from": told_by(contents.inputs, contents.ir.symbols[symbol.name]),
        }
        for symbol in contents.symbols.values()
    ]
    outputs: list[dict[str, object]] = [
        {**_said(one), "carried": one.carried} for one in contents.outputs
    ]
    return [inputs, outputs, dims]


def _said(one: Given) -> dict[str, object]:
    dtype = one.type.dtype
    numpy = "uint16" if dtype in HALVES else dtype.numpy.name
    return {"name": one.name, "type": str(one.type), "numpy": numpy, "rank": len(one.type.shape)}


def _compiled(
    contents: Contents, source: Source, text: str, compiler: Compiler, aim: Target
) -> bytes:
    """Return the library, of one source that has the header in it."""
    name = contents.name
    whole = text.replace(f'#include "{name}.h"', source.header)
    entries = [f"{name}_run"] if aim.name == NATIVE else []
    timeout = None if aim.name == NATIVE else FIRST
    return compile_library(whole, compiler, entries=entries, timeout=timeout).read_bytes()


def _template(file: str) -> str:
    return (files("luminal_lab.artefact") / file).read_text("utf-8")


def _makefile(name: str, aim: Target, compiler: Compiler | None) -> str:
    flags = " ".join(EVERYWHERE[:1])
    if aim.name == NATIVE:
        native = [f for f in (compiler.flags if compiler else ()) if f[:3] in ("-ma", "-mc")]
        flags = " ".join([flags, *native])
    words = {
        "$NAME": name,
        "$LIBRARY": f"{name}{aim.suffix}",
        "$FLAGS": flags,
        "$ALWAYS": " ".join(EVERYWHERE[1:]),
        "$PIC": "" if "windows" in aim.machine else "-fPIC",
    }
    text = _template("Makefile")
    for word, instead in words.items():
        text = text.replace(word, instead)
    return text


def _main(contents: Contents, source: Source) -> str:
    """Return a program that runs the model once."""
    lines, at = [f"    {contents.name}_in in = {{0}};", f"    {contents.name}_out out = {{0}};"], 1
    shown, freed = list[str](), ["    free(arena);"]
    for kind, given in (("in", contents.inputs), ("out", contents.outputs)):
        for one in given:
            rank = len(one.type.shape)
            count = " * ".join([f"(size_t)sizes[{at + k}]" for k in range(rank)]) or "1"
            at += rank
            if kind == "out" and one.carried:
                continue
            place = f"{kind}.{one.c_name}"
            freed.append(f"    free((void *)(uintptr_t){place});")
            lines.append(f"    if (!({place} = zeros({count}, sizeof *{place})))")
            lines.append(f'        return fail("{one.c_name}", {contents.name}_missing);')
            if kind == "out":
                shown += _printed(one.name, place, one.type, count)
    lines.append(f"    code = {contents.name}_run(&dims, weights, &in, &out, arena, 0);")
    lines.append('    if (code) return fail("run", code);')
    dims = [str(max(symbol.low, symbol.multiple_of)) for symbol in contents.symbols.values()]
    text = _template("main.c").replace("$SIZES", ", ".join(dims) or "0")
    return text.replace("$BODY", "\n".join([*lines, *shown, *freed])).replace(
        "$NAME", contents.name
    )


def _printed(name: str, place: str, type: TensorType, count: str) -> list[str]:
    form = PRINTED.get(type.dtype)
    number = f"(double){place}[k]" if form else f"(int64_t){place}[k]"
    words = f'" {form}"' if form else '" %" PRId64'
    said = name.replace("\\", "").replace('"', "").replace("%", "")
    return [
        f'    fputs("{said}:", stdout);',
        f"    for (size_t k = 0; k < 8 && k < {count}; k++) printf({words}, {number});",
        '    puts("");',
    ]
