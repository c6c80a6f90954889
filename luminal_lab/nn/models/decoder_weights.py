"""Weights of a decoder, as they are in files: found by name, and taken as they are given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from luminal_lab.core.binding import as_array
from luminal_lab.core.dtypes import Array, DTypeLike
from luminal_lab.nn.models.decoder import Decoder, DecoderConfig
from luminal_lab.nn.module import Module
from luminal_lab.nn.weights import check_layers, matched
from luminal_lab.tensor.parameter import Parameter

MASKS: Final = re.compile(
    r"(.*\.)?(rotary_emb\.inv_freq|attn\.causal_mask|(attn|attention)\.(masked_)?bias)"
    r"|rope_(freqs|factors_(long|short))\.weight"
)
"""What files hold beside weights: constants that a configuration tells."""


def load_decoder(
    config: DecoderConfig,
    values: Mapping[str, object],
    *,
    dtype: DTypeLike = "float32",
    strict: bool = True,
) -> Decoder:
    """Return a decoder with the weights of a file: arrays or parameters by the file's names.

    Weights keep their dtype and their memory; `dtype` is that of what is computed with them. If
    weights are missing or left over, or have another shape, nothing is loaded, and the error names
    them all.

    >>> from luminal_lab.nn.models.decoders import from_config
    >>> config = from_config({
    ...     "architectures": ["GPT2LMHeadModel"], "n_layer": 0, "n_head": 2, "n_embd": 8,
    ...     "vocab_size": 10, "n_positions": 16,
    ... })
    >>> values = {"wte.weight": np.ones((10, 8), "float16"), "wpe.weight": np.ones((16, 8))}
    >>> values["ln_f.weight"] = values["ln_f.bias"] = np.ones(8)
    >>> [str(p.dtype) for p in load_decoder(config, values).parameters().values()]
    ['float16', 'float64', 'float64', 'float64']
    """
    if strict:
        check_layers("load_decoder", len(config.layers), values)
    model = Decoder(config, dtype)
    files = {path: _files(config, path, p) for path, p in _state(model).items()}
    first = files["model.embed_tokens.weight"].names[0].partition(".")[0] + "."
    if not any(name.startswith(first) for name in values):  # as in files of a model without a head
        files = {path: file.without(first) for path, file in files.items()}
    given = {name: _form(value) for name, value in values.items()}
    wanted: list[tuple[str, Parameter]] = []
    state = _state(model)
    for path, parameter in state.items():
        shape = parameter.shape[files[path].is_stack :]
        for name in files[path].names:
            form = given.get(name)
            if form and _squeezed(form[0]) == _squeezed(shape):
                shape = form[0]
            wanted.append((name, Parameter(shape, _kept(form, dtype))))
    expected = {name for name, _ in wanted}
    head = _files(config, "lm_head.weight", model.lm_head.weight).names[0]
    left = {
        name: form
        for name, form in given.items()
        if name in expected or not ((config.tied and name == head) or MASKS.fullmatch(name))
    }
    matched("load_decoder", wanted, left, strict=strict)
    modules = model.named_modules()
    for path, file in files.items():
        if all(name in values for name in file.names):
            owner, _, name = path.rpartition(".")
            setattr(modules[owner], name, file.taken(values, state[path].shape))
    if config.tied:
        model.lm_head.weight = model.model.embed_tokens.weight
    return model


def _state(model: Module) -> dict[str, Parameter]:
    return {**model.parameters(), **model.buffers()}


class _Source(NamedTuple):
    """Where a parameter is in a file: under a name, or under one for each row of its axis 0."""

    names: list[str]
    is_stack: bool

    def without(self, prefix: str) -> _Source:
        return _Source([name.removeprefix(prefix) for name in self.names], self.is_stack)

    def taken(self, values: Mapping[str, object], wanted: tuple[int, ...]) -> Parameter:
        """Return a parameter with the value; what is stacked is read when it is needed."""
        rows = [values[name] for name in self.names]
        shape, dtype = _form(rows[0])
        if not self.is_stack and isinstance(rows[0], Parameter) and shape == wanted:
            return rows[0]
        if not self.is_stack and shape != wanted:  # files leave out axes of size 1
            return Parameter(wanted, dtype, provider=lambda: _array(rows[0]).reshape(wanted))
        if _is_blocks(rows[0]) and (not self.is_stack or all(map(_is_blocks, rows))):
            blocks = Parameter(wanted, dtype)
            blocks.set(_stacked_blocks(rows) if self.is_stack else rows[0], copy=False)
            return blocks
        if not self.is_stack:
            return Parameter(shape, dtype, provider=lambda: rows[0])

        def stacked() -> object:
            return np.stack([_array(row) for row in rows])

        return Parameter((len(rows), *shape), dtype, provider=stacked)


def _files(config: DecoderConfig, path: str, parameter: Parameter) -> _Source:
    """Return where a parameter is in a file, by the names of a configuration."""
    names, prefix, part = dict(config.names), "", path
    if path.startswith("model.layers."):
        number, part = path.removeprefix("model.layers.").split(".", 1)
        prefix = f"{names.get('model.layers', 'model.layers')}.{number}."
    if part in names:
        name = names[part]
    else:
        stem, _, leaf = part.rpartition(".")
        name = f"{names.get(stem, stem)}.{leaf}"
    if "{}" not in name:
        return _Source([prefix + name], is_stack=False)
    rows = range(parameter.shape[0])
    return _Source([prefix + name.replace("{}", str(row)) for row in rows], is_stack=True)


def _is_blocks(value: object) -> bool:
    """Return whether a value is blocks of few bits, which are not to be widened."""
    return hasattr(value, "raw") and hasattr(value, "form")


def _stacked_blocks(rows: list[Any]) -> object:
    """Return the blocks of a matrix each as those of all matrices, if they have one form."""
    first = rows[0]
    if any(row.form is not first.form for row in rows):
        return np.stack([row.value for row in rows])
    return type(first)(first.form, np.stack([r.raw for r in rows]), (len(rows), *first.shape))


def _array(value: object) -> Array:
    return as_array(getattr(value, "value", value), "load_decoder")


def _form(value: object) -> tuple[tuple[int, ...], str]:
    """Return the shape and the dtype of a value, which is not read for it."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and _is_blocks(value):
        dtype = "float32"
    if shape is None or dtype is None:
        value = as_array(value, "load_decoder")
        shape, dtype = value.shape, value.dtype
    return tuple(shape), str(dtype).removeprefix("torch.")


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _kept(given: tuple[tuple[int, ...], str] | None, dtype: DTypeLike) -> DTypeLike:
    """Return the dtype of a parameter: that of its value, if it is a float's."""
    return given[1] if given and "float" in given[1] else dtype
