"""One vector for a text, of those of its tokens: `modules.json` of sentence-transformers, read.

[batch, seq, width] -> Pooling -> Dense, LayerNorm, Normalize … -> [batch, width]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from typing_extensions import override

from luminal_lab.errors import InputError, ModelError, nearest
from luminal_lab.importing.detect import INDEX_BYTES
from luminal_lab.nn.linear import Linear
from luminal_lab.nn.module import Module
from luminal_lab.nn.norm import LayerNorm
from luminal_lab.reading import read_json, read_plain, shown
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.joining import concat
from luminal_lab.tensor.sources import Sources

SUBJECT: Final = "load"
OWNER: Final = "sentence_transformers."
"""What the classes of modules begin with that are known here."""
LEGACY: Final = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""The flags of older files, in the order in which their results are joined."""
FUNCTIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "Tanh": lambda x: x.tanh(),
    "Identity": lambda x: x,
    "ReLU": lambda x: x.relu(),
    "GELU": lambda x: x.gelu(),
    "SiLU": lambda x: x.silu(),
    "Sigmoid": lambda x: x.sigmoid(),
}
"""The functions behind a `Dense`, by the names of their classes in PyTorch."""


class Pooling(Module):
    """The vectors of a text's tokens as one, in one or more ways that are joined.

    `counted` [batch, seq] says which tokens count: padding does not, nor perhaps a prompt.

    >>> x, counted = cx.tensor(("n", "seq", 8)), cx.tensor(("n", "seq"), "bool")
    >>> Pooling(["mean", "max"])(x, counted).shape
    (n, 16)
    """

    def __init__(self, ways: Sequence[str] = ("mean",), has_prompt: bool = True) -> None:
        for way in ways:
            if not isinstance(way, str) or way not in WAYS:  # pyright: ignore[reportUnnecessaryIsInstance]  # a file may err
                raise ModelError(
                    f"{SUBJECT}: there is no pooling {shown(way)}",
                    hint=nearest(way, WAYS) or f"there are {', '.join(WAYS)}",
                )
        self.ways = list(ways)
        self.has_prompt = has_prompt
        """Whether the tokens of a prompt count."""

    @override
    def forward(self, x: Tensor, counted: Tensor) -> Tensor:
        parts = [WAYS[way](x, counted) for way in self.ways]
        return parts[0] if len(parts) == 1 else concat(parts, -1)

    @override
    def options(self) -> str:
        return ", ".join(self.ways)


def _first(x: Tensor, counted: Tensor) -> Tensor:
    return _row(x, counted.cast("int32").argmax(1))


def _last(x: Tensor, counted: Tensor) -> Tensor:
    return _row(x, (counted.cast("int64") * _positions(counted)).argmax(1))


def _row(x: Tensor, positions: Tensor) -> Tensor:
    """Return the row of each text at its position: [batch, width]."""
    index = positions.unsqueeze(-1).unsqueeze(-1).expand(x.shape[0], 1, x.shape[2])
    return x.gather(1, index).squeeze(1)


def _positions(counted: Tensor) -> Tensor:
    """Return 1, 2, … along a text."""
    assert isinstance(counted.graph, Sources)
    return counted.graph.arange(1, counted.shape[1] + 1)


def _most(x: Tensor, counted: Tensor) -> Tensor:
    return counted.unsqueeze(-1).where(x, -math.inf).amax(1)


def _mean(x: Tensor, counted: Tensor) -> Tensor:
    return _weighted(x, counted.cast("float32"), lambda total: total)


def _mean_root(x: Tensor, counted: Tensor) -> Tensor:
    return _weighted(x, counted.cast("float32"), lambda total: total.sqrt())


def _mean_by_position(x: Tensor, counted: Tensor) -> Tensor:
    weights = counted.cast("float32") * _positions(counted).cast("float32")
    return _weighted(x, weights, lambda total: total)


def _weighted(x: Tensor, weights: Tensor, over: Callable[[Tensor], Tensor]) -> Tensor:
    total = weights.sum(1, keepdim=True).maximum(1e-9)
    return (x * weights.unsqueeze(-1)).sum(1) / over(total)


WAYS: Final = {
    "cls": _first,
    "max": _most,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_root,
    "weightedmean": _mean_by_position,
    "lasttoken": _last,
}


class Dense(Module):
    """A linear layer with a function behind it, and perhaps what was given added."""

    def __init__(
        self, path: Path, ins: int, outs: int, bias: bool, function: str, adds: bool
    ) -> None:
        self.path, self.ins, self.outs = path, ins, outs
        self.linear = Linear(ins, outs, bias=bias)
        self.residual = Linear(ins, outs, bias=False) if adds and ins != outs else None
        self.adds = adds
        self.function = function

    @override
    def forward(self, x: Tensor) -> Tensor:
        y = FUNCTIONS[self.function](self.linear(x))
        if not self.adds:
            return y
        return y + (x if self.residual is None else self.residual(x))

    @override
    def options(self) -> str:
        return self.function


class Norm(Module):
    """A layer norm under the name that its file has."""

    def __init__(self, path: Path, width: int) -> None:
        self.path, self.ins, self.outs = path, width, width
        self.norm = LayerNorm(width)

    @override
    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)


class Unit(Module):
    """Vectors of length 1.

    >>> Unit()(cx.tensor(("n", 8))).shape
    (n, 8)
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.normalize()


class Stack(NamedTuple):
    """What a folder's `modules.json` says: where the model is, and what is behind it."""

    base: Path
    pooling: Pooling
    heads: Sequence[Dense | Norm | Unit]


def stack_of(folder: Path) -> Stack:
    """Return what a folder does with the vectors of tokens: the mean, if it does not say.

    >>> stack_of(folder).pooling
    Pooling(mean)
    """
    path = folder / "modules.json"
    if not path.exists():
        return Stack(folder, Pooling(), [])
    entries = cast("list[object]", read_entries(path, list))
    parts = [_module_of(path, folder, entry) for entry in entries]
    kinds = [kind for kind, _ in parts]
    if kinds[:2] != ["Transformer", "Pooling"]:
        raise ModelError(
            f"{SUBJECT}: {path} begins with {', '.join(kinds[:2]) or 'nothing'}",
            hint="what can be read begins with Transformer, Pooling",
        )
    heads: list[Dense | Norm | Unit] = []
    for kind, inner in parts[2:]:
        if kind not in HEADS:
            raise ModelError(
                f"{SUBJECT}: {path} has the module {shown(kind)}, which is not here",
                hint=f"behind the pooling there may be {', '.join(HEADS)}",
            )
        heads += HEADS[kind](inner)
    return Stack(parts[0][1], _pooling(parts[1][1]), heads)


def check_heads(stack: Stack, width: int) -> None:
    """Raise an error if what is behind the pooling takes vectors of another width than come."""
    width *= len(stack.pooling.ways)
    for head in stack.heads:
        if isinstance(head, Unit):
            continue
        if head.ins != width:
            raise ModelError(
                f"{SUBJECT}: {head.path} is for vectors of {head.ins:,}, and those before it have "
                f"{width:,}"
            )
        width = head.outs


def _module_of(path: Path, folder: Path, entry: object) -> tuple[str, Path]:
    """Return the class of a module, and its folder, which lies in the model's."""
    fields = dict(cast("dict[str, object]", entry)) if isinstance(entry, dict) else {}
    kind, inner = fields.get("type"), fields.get("path")
    parts = Path(inner).parts if isinstance(inner, str) else ("..",)
    if not isinstance(kind, str) or ".." in parts or Path(*parts).is_absolute():
        raise ModelError(
            f"{SUBJECT}: {path} has a module {shown(fields.get('type'))} in {shown(inner)}",
            hint='each has a "type", and a "path" in the folder',
        )
    # Another package's classes may do anything.
    return kind.rpartition(".")[2] if kind.startswith(OWNER) else kind, folder.joinpath(*parts)


def _pooling(folder: Path) -> Pooling:
    path = folder / "config.json"
    fields = cast("dict[str, object]", read_entries(path, dict))
    ways: object = fields.get("pooling_mode")
    if ways is None:
        known = {key for key in fields if key.startswith("pooling_mode_")}
        for key in known - LEGACY.keys():
            if fields[key]:
                raise ModelError(f"{SUBJECT}: {path} has {shown(key)}, which is not here")
        ways = [way for key, way in LEGACY.items() if fields.get(key)] or ["mean"]
    names = cast("list[object]", ways if isinstance(ways, list) else [ways])
    if not names:
        raise ModelError(f"{SUBJECT}: {path} has no pooling", hint="its results are not vectors")
    return Pooling(cast("list[str]", names), bool(fields.get("include_prompt", True)))


def _dense(folder: Path) -> list[Dense]:
    path = folder / "config.json"
    fields = cast("dict[str, Any]", read_entries(path, dict))
    function = str(fields.get("activation_function", "torch.nn.modules.activation.Tanh"))
    name = function.rpartition(".")[2].removesuffix("()")
    ins, outs = fields.get("in_features"), fields.get("out_features")
    for key in ("module_input_name", "module_output_name"):
        if fields.get(key) not in (None, "sentence_embedding"):
            raise ModelError(f"{SUBJECT}: {path} has {key}: {shown(fields[key])}")
    if name not in FUNCTIONS:
        raise ModelError(
            f"{SUBJECT}: {path} has the function {shown(function)}, which is not here",
            hint=f"there are {', '.join(FUNCTIONS)}",
        )
    if not (type(ins) is int and type(outs) is int and ins > 0 and outs > 0):
        raise ModelError(f"{SUBJECT}: {path} has {shown(ins)} features, and makes {shown(outs)}")
    adds, bias = bool(fields.get("use_residual", False)), bool(fields.get("bias", True))
    return [Dense(path, ins, outs, bias, name, adds).load(_weights(folder))]


def _norm(folder: Path) -> list[Norm]:
    path = folder / "config.json"
    width = cast("dict[str, Any]", read_entries(path, dict)).get("dimension")
    if not (type(width) is int and width > 0):
        raise ModelError(f"{SUBJECT}: {path} has the dimension {shown(width)}")
    return [Norm(path, width).load(_weights(folder))]


def _unit(folder: Path) -> list[Unit]:
    path = folder / "config.json"
    fields = cast("dict[str, Any]", read_entries(path, dict)) if path.exists() else {}
    for key in ("module_input_name", "module_output_name"):
        if fields.get(key) not in (None, "sentence_embedding"):
            raise ModelError(f"{SUBJECT}: {path} has {key}: {shown(fields[key])}")
    return [Unit()]


def _weights(folder: Path) -> Path:
    path = folder / "model.safetensors"
    if not path.exists() and (old := folder / "pytorch_model.bin").exists():
        raise InputError(
            f"{SUBJECT}: {old} is pickled weights of PyTorch: loading it could run whatever its "
            "author wrote",
            hint="safetensors.torch.save_file(torch.load(path, weights_only=True), "
            '"model.safetensors") makes a file that holds values alone',
        )
    return path


HEADS: Final[Mapping[str, Callable[[Path], Sequence[Dense | Norm | Unit]]]] = {
    "Dense": _dense,
    "LayerNorm": _norm,
    "Normalize": _unit,
    "Dropout": lambda folder: [],
}
"""What may be behind the pooling, by its class."""


def read_entries(path: Path, kind: type, subject: str = SUBJECT) -> object:
    """Return the contents of a file of JSON, or raise an InputError that names it.

    >>> _ = (folder / "config.json").write_text('{"hidden_size": 8}')
    >>> read_entries(folder / "config.json", dict)
    {'hidden_size': 8}
    """
    try:
        entries = read_json(read_plain(path, INDEX_BYTES))
    except FileNotFoundError:
        raise InputError(
            f"{subject}: there is no {path.name} in {path.parent}",
            hint="the files of a model lie together, as they were published",
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{subject}: {path} cannot be read: {error}") from error
    if not isinstance(entries, kind):
        raise InputError(f"{subject}: {path} begins with {shown(entries)}")
    return entries
