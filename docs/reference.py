"""Make the reference of the site from docstrings: docs/reference/, which git ignores.

    python docs/reference.py          writes the pages, as `make docs` does

A page is a list of names in PAGES; what it says of them comes from the code. Every public name
stands on one page, has a sentence, and, if it is a function, a class or a method, an example that
the tests run.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import luminal_lab as ll
from luminal_lab import course
from luminal_lab.session import PUBLIC

REFERRED = re.compile(
    r"ForwardRef\('([^']*)'[^)]*\)|\b(?:luminal_lab|typing|collections|numpy)[\w.]*\."
)
"""What annotations have that a reader does not need: quotes and the names of modules."""
FOLDER = Path(__file__).with_suffix("")
LIBRARIES: dict[str, Any] = {
    "ll": ll,
    "ll.nn": ll.nn,
    "ll.linalg": ll.linalg,
    "ll.fft": ll.fft,
    "ll.devices": ll.devices,
    "ll.engines": ll.engines,
    "ll.search": ll.search,
    "luminal_lab.course": course,
}
"""What has public names, by what users call it."""


@dataclass(frozen=True)
class ReferencePage:
    """A page of the reference: a title, what to know first, and the public names in order."""

    title: str
    begin: str
    names: str


PAGES = {
    "graph": ReferencePage(
        "Graphs",
        "A session, in which expressions are written, compiled and run; and graphs as values.",
        "ll.Graph ll.Run ll.run ll.trace ll.open ll.Opened ll.parse ll.verify ll.IR ll.Node "
        "ll.Edit ll.History",
    ),
    "tensor": ReferencePage(
        "Tensors",
        "All that a lazy tensor can do, by family. [PyTorch's operations](../pytorch.md) says "
        "which of PyTorch's names are here.",
        "ll.Tensor ll.Parameter ll.Blocks ll.where ll.concat ll.stack ll.einsum ll.hstack "
        "ll.vstack ll.dstack ll.column_stack ll.block_diag ll.meshgrid ll.broadcast_tensors "
        "ll.cartesian_prod ll.cdist ll.isin ll.maximum ll.minimum ll.tril ll.triu ll.full_like "
        "ll.zeros_like ll.ones_like ll.rand_like ll.randn_like",
    ),
    "linalg": ReferencePage(
        "Linear algebra",
        "Factors, solutions, determinants and norms of small matrices, one column after another.",
        "",
    ),
    "fft": ReferencePage(
        "Fourier transforms",
        "Discrete Fourier transforms by matrices of cosines and sines; a complex value is a pair.",
        "",
    ),
    "gradients": ReferencePage(
        "Gradients",
        "Derivatives of what was written. [Gradients](../gradients.md) explains them.",
        "ll.grad ll.gradient ll.custom_gradient ll.stop_gradient",
    ),
    "types": ReferencePage(
        "Dims, dtypes and ops",
        "What a value is known by before it exists, and the classes that ops are made of.",
        "ll.Dim ll.Symbol ll.Expr ll.DType ll.TensorType ll.Op ll.Unary ll.Binary ll.Elementwise "
        "ll.Reduce ll.View ll.Source",
    ),
    "passes": ReferencePage(
        "Passes and rules",
        "Compiling, looking into a compile, and writing rules and passes. [Passes](../passes.md) "
        "explains them.",
        "ll.compile_ir ll.GenericCompiler ll.HalfPrecision ll.Quantised ll.Int8Activations "
        "ll.Bfloat16Activations ll.quantise "
        "ll.Compilation ll.Snapshot ll.Firing ll.Trace ll.diff ll.Diff ll.Pass ll.graph_pass "
        "ll.Pipeline ll.parse_pipeline ll.Rule ll.RuleSet ll.rule ll.variables ll.constants "
        "ll.fields ll.op ll.counterexample ll.minimise ll.story ll.predict",
    ),
    "devices": ReferencePage(
        "Devices and times",
        "Compilers for CPUs and GPUs, kernels of your own, and times side by side.",
        "ll.CPUCompiler ll.CUDACompiler ll.MetalCompiler ll.WebGPUCompiler ll.XLACompiler "
        "ll.kernel ll.compare ll.beside ll.CPU ll.XLA ll.CUDA ll.Metal ll.WebGPU ll.Recorded",
    ),
    "sharding": ReferencePage(
        "Sharding",
        "One graph on many workers. [Sharding](../sharding.md) explains it.",
        "ll.Mesh ll.sharding ll.Sharded ll.Pipelined ll.plan",
    ),
    "search": ReferencePage(
        "Search",
        "A search for faster programs and schedules.",
        "ll.Search ll.Budget",
    ),
    "nn": ReferencePage(
        "Modules",
        "Layers, models, losses and optimisers, and models from elsewhere. [Modules](../nn.md), "
        "[PyTorch models](../torch_models.md), [ONNX models](../onnx_models.md), [texts of "
        "models](../language.md) and [texts as vectors](../embeddings.md) explain them.",
        "ll.from_onnx ll.from_torch ll.load ll.Embedder ll.LanguageModel",
    ),
    "course": ReferencePage(
        "The course",
        "What notebooks of the course call, and what exercises are made of.",
        "",
    ),
    "errors": ReferencePage(
        "Errors",
        "The classes of exceptions. [Errors](../errors.md) has each one with the code that meets "
        "it, wrong and right.",
        " ".join(
            f"ll.{name}"
            for name in ll.__all__
            if inspect.isclass(getattr(ll, name)) and issubclass(getattr(ll, name), BaseException)
        )
        + " ll.LabWarning",
    ),
}
WHOLE = {
    "linalg": "ll.linalg",
    "fft": "ll.fft",
    "nn": "ll.nn",
    "devices": "ll.devices",
    "sharding": "ll.engines",
    "search": "ll.search",
    "course": "luminal_lab.course",
}
"""The pages that have all names of a library, behind those that are listed."""
OPERATORS = {
    "__add__": "x + other",
    "__mul__": "x * other",
    "__and__": "x & other",
    "__or__": "x | other",
    "__xor__": "x ^ other",
    "__invert__": "~x",
    "__lt__": "x < other",
    "__gt__": "x > other",
}
OWN = {"ll.Tensor": "Gradients and dtypes", "ll.Graph": "Pictures, gradients and files"}
"""What the methods are about that a class of FAMILIES defines itself."""
FAMILIES = {"ll.Graph", "ll.Tensor"}
"""The classes whose methods are so many that each of their bases is a section."""
BEGUN = (
    "Examples of methods begin after `import luminal_lab as ll` and `cx = ll.Graph()`; "
    "`folder` is the path of an empty folder."
)
"""The names that examples do not define; `conftest.py` defines them for the tests."""
UNSHOWN = {
    "ll.compare calls it, with a graph that it has prepared": (
        "ll.CPU.column ll.CUDA.column ll.Metal.column ll.WebGPU.column ll.XLA.column "
        "ll.Recorded.column"
    ),
    "a run calls it, with the data of the session": "ll.Compilation.tried ll.Compilation.values",
    "it measures on a device, until its budget is spent": "ll.Graph.search ll.Search.found",
    "a subclass may define it, for what its own update needs": "ll.nn.Optimiser.begin",
    "a device of one's own defines it": "ll.devices.Device.run",
    "workers elsewhere need it: the page about sharding shows it": (
        "ll.engines.MPI.run ll.engines.MPI.unless_enough "
        "ll.engines.Processes.run "
        "ll.engines.Communicator.all_gather ll.engines.Communicator.all_reduce "
        "ll.engines.Communicator.all_to_all"
    ),
    "a run calls it, on an engine": (
        "ll.engines.Engine.run ll.engines.Engine.unless_enough ll.engines.Threads.unless_enough"
    ),
}
"""What has no example, by the reason."""


def main() -> None:
    """Write the pages, and remove those that are no longer made."""
    FOLDER.mkdir(exist_ok=True)
    texts = {"index.md": index(), **{f"{name}.md": page(name) for name in PAGES}}
    for old in FOLDER.iterdir():
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def index() -> str:
    """Return the page that leads to the others."""
    rows = "\n".join(f"| [{own.title}]({name}.md) | {own.begin} |" for name, own in PAGES.items())
    listed = "\n".join(PAGES)
    return (
        "# Reference\n\nEvery public name, with its sentence, its arguments and an example. The "
        f"search field finds any of them. {BEGUN}\n\n"
        f"| page | what is there |\n|---|---|\n{rows}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    )


def page(name: str) -> str:
    """Return a page."""
    own = PAGES[name]
    parts: list[str] = []
    if name == "nn":
        for title, names in modules(names_of(name)):
            parts += [f"## {title}", *map(entry, names)]
    else:
        parts += map(entry, names_of(name))
    begin = f"{own.begin} {BEGUN}" if any("py:method" in part for part in parts) else own.begin
    return "\n\n".join([f"# {own.title}", begin, *parts]) + "\n"


def modules(names: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return names by the file that defines them, which says what it is about."""
    found: dict[str, list[str]] = {}
    for name in names:
        module = inspect.getmodule(inspect.unwrap(thing(name)))
        about = inspect.getdoc(module) or ""
        title = re.split(r"[:;,.]|\n", about, maxsplit=1)[0].strip()
        found.setdefault(title, []).append(name)
    return sorted(found.items())


def names_of(name: str) -> list[str]:
    """Return the public names on a page."""
    whole = WHOLE.get(name)
    listed = PAGES[name].names.split()
    more = [f"{whole}.{own}" for own in public_names(LIBRARIES[whole])] if whole else []
    return list(dict.fromkeys([*listed, *more]))


def public_names(library: Any) -> list[str]:
    """Return the public names of a library, without its parts that are modules."""
    names = {*library.__all__, *(["open"] if library is ll else [])}
    return sorted(own for own in names if not inspect.ismodule(getattr(library, own)))


def thing(name: str) -> Any:
    """Return what a public name stands for."""
    library, _, own = name.rpartition(".")
    return getattr(LIBRARIES[library], own)


def entry(name: str) -> str:
    """Return what the reference says of a public name."""
    what = thing(name)
    if not inspect.isclass(what):
        kind = "function" if callable(what) and not isinstance(what, types.UnionType) else "data"
        sign = signature(what) if kind == "function" else ""
        return block(f"py:{kind}", name + sign, described(what))
    if name in FAMILIES:
        # A tensor comes of a graph: nobody calls the class.
        head = name if what is ll.Tensor else name + signature(what)
        return "\n\n".join([block("py:class", head, described(what)), *families(name, what)])
    inside = [member(own, kind) for own, kind in members(what)]
    return block("py:class", name + signature(what), "\n\n".join([described(what), *inside]))


def families(name: str, cls: type) -> Iterator[str]:
    """Yield a section for each base of a class, with its methods."""
    for base, own in by_base(cls):
        inside = [member(f"{name}.{one}", kind) for one, kind in own]
        title = (inspect.getdoc(base) or base.__name__).partition("\n")[0].rstrip(".")
        yield "\n\n".join([f"## {OWN[name] if base is cls else title}", *inside])


def by_base(cls: type) -> Iterator[tuple[type, list[tuple[str, Any]]]]:
    """Yield each base of a class of FAMILIES that defines methods or properties, with these."""
    wanted = set(PUBLIC if cls is ll.Graph else dir(cls))
    for base in cls.__mro__:
        here = {one: kind for one, kind in sorted(vars(base).items()) if is_public(one, kind)}
        own = [(one, kind) for one, kind in here.items() if one in wanted]
        wanted -= here.keys()
        if own:
            yield base, own


def members(cls: type) -> list[tuple[str, Any]]:
    """Return the methods and properties of a class, and of its bases that have no entry."""
    known = {thing(name) for page_name in PAGES for name in names_of(page_name)
             if inspect.isclass(thing(name))}  # fmt: skip
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        is_ours = base.__module__.partition(".")[0] == "luminal_lab"
        if base is cls or (is_ours and base not in known):
            for name, kind in vars(base).items():
                if is_public(name, kind):
                    found.setdefault(name, kind)
    return sorted(found.items())


def is_public(name: str, kind: Any) -> bool:
    """Return whether a member of a class is for users: a method or property with its own words."""
    is_member = callable(kind) or isinstance(kind, property | classmethod | staticmethod)
    words = getattr(kind, "__doc__", "") or operator_of(kind)
    return name[0] != "_" and is_member and not inspect.isclass(kind) and bool(words)


def member(name: str, kind: Any) -> str:
    """Return what the reference says of a method or a property."""
    if isinstance(kind, property):
        return block("py:property", name, described(kind), ticks=4)
    plain = kind.__func__ if isinstance(kind, classmethod | staticmethod) else kind
    option = {classmethod: ":classmethod:", staticmethod: ":staticmethod:"}.get(type(kind), "")
    bound = not isinstance(kind, staticmethod)
    sign = signature(plain, skips_first=bound)
    return block("py:method", name + sign, described(plain), option, ticks=4)


def block(kind: str, head: str, body: str, option: str = "", ticks: int = 5) -> str:
    """Return a directive of MyST."""
    fence = "`" * ticks
    lines = [f"{fence}{{{kind}}} {head}", option, "", body, fence]
    return "\n".join(line for at, line in enumerate(lines) if line or at == 2)


class Written:
    """An annotation or a default as source has it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def signature(what: Any, *, skips_first: bool = False) -> str:
    """Return the arguments of a function or a class, as its source has them."""
    try:
        known = inspect.signature(what)
    except (TypeError, ValueError):
        return ""
    taken = list(known.parameters.values())[1 if skips_first else 0 :]
    parameters = [
        one.replace(annotation=_written(one.annotation), default=_default(one.default))
        for one in taken
    ]
    returns = known.return_annotation
    is_class = inspect.isclass(what)
    after = inspect.Signature.empty if is_class else _written(returns)
    return str(inspect.Signature(parameters, return_annotation=after))


def _written(annotation: Any) -> Any:
    if annotation is inspect.Signature.empty:
        return annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = REFERRED.sub(lambda found: found[1] or "", text)
    return Written(text.strip("\"'"))


def _default(default: Any) -> Any:
    if default is inspect.Parameter.empty:
        return default
    text = repr(default)
    return Written("..." if "<" in text or len(text) > 40 else text)


def sentences(what: Any) -> str:
    """Return a docstring; for a method that is an operator's other name, which operator it is."""
    operator = operator_of(what)
    return inspect.getdoc(what) or (f"Return `{operator}`." if operator else "")


def operator_of(what: Any) -> str:
    """Return the operator that a method is another name of, if it is one."""
    return OPERATORS.get(getattr(what, "__qualname__", "").rpartition(".")[2], "")


def described(what: Any) -> str:
    """Return a docstring as Markdown: its examples are code, its signs are signs."""
    text = sentences(what)
    parts: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.split("\n")
        if lines[0].startswith(">>>"):
            if parts and parts[-1].startswith("```pycon"):
                parts[-1] = f"{parts[-1].removesuffix('```')}\n{paragraph}\n```"
            else:
                parts.append(f"```pycon\n{paragraph}\n```")
        elif lines[0].startswith("  "):
            parts.append(f"```text\n{dedent(paragraph)}\n```")
        else:
            parts.append(escaped(paragraph))
    return re.sub(r"  # doctest: \+\w+", "", "\n\n".join(parts))


def escaped(text: str) -> str:
    """Return a paragraph in which Markdown has no meaning but that of backticks.

    >>> escaped("x * y, `x * y` and <Graph>")
    'x \\\\* y, `x * y` and \\\\<Graph>'
    """
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(
        piece if piece[:1] == "`" else re.sub(r"([\\<*_%#{}\[\]$])", r"\\\1", piece)
        for piece in pieces
    )


def lacking() -> Iterable[str]:
    """Yield what is missing in the code: sentences, examples."""
    for page_name in PAGES:
        for name in names_of(page_name):
            what = thing(name)
            if isinstance(what, types.UnionType):
                continue
            text = inspect.getdoc(what) or ""
            if not text.partition("\n\n")[0].rstrip().endswith((".", ":")):
                yield f"{name} has no sentence"
            is_error = inspect.isclass(what) and issubclass(what, BaseException)
            if ">>> " not in text and not is_error:
                yield f"{name} has no example"
            if inspect.isclass(what):
                yield from unshown(name, what)


def unshown(name: str, cls: type) -> Iterator[str]:
    """Yield the methods of a class that no example shows, be it their own or the class's.

    A property needs none, nor does the other name of an operator, which its sentence spells. What
    only calls another method, as `conv1d` does, is shown by that one's.
    """
    excused = " ".join(UNSHOWN.values()).split()
    inside = [pair for _, own in by_base(cls) for pair in own] if name in FAMILIES else members(cls)
    for own, kind in inside:
        plain = kind.__func__ if isinstance(kind, classmethod | staticmethod) else kind
        text = f"{inspect.getdoc(plain)} {inspect.getdoc(inspect.unwrap(plain))}"
        needs_one = not isinstance(kind, property) and not operator_of(plain)
        is_shown = ">>> " in text or re.search(rf"(?:\.|def ){own}\(", inspect.getdoc(cls) or "")
        if needs_one and not is_shown and f"{name}.{own}" not in excused:
            yield f"{name}.{own} has no example"


if __name__ == "__main__":
    sys.exit(main())
