"""The families of encoders that are published: their words for sizes, and the names of weights.

    config.json  {"model_type": "bert", "hidden_size": 384, …}  ->  EncoderConfig(width=384, …)
    query.weight, key.weight, value.weight                      ->  self_attn.in_proj_weight

A key of a configuration that a family neither reads nor knows to be without effect is an error, and
so is a weight: a model that was read only in part would compute something else, without a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.errors import ModelError, nearest
from luminal_lab.nn.models.encoder import ACTIVATIONS, Encoder, EncoderConfig
from luminal_lab.nn.weights import matched
from luminal_lab.reading import shown
from luminal_lab.tensor.parameter import Parameter

LARGEST: Final = {"layers": 1 << 10}
"""The first size that is too large for a configuration; others are below 2³¹."""
KEYS: Final = {
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "hidden_size": "width",
    "intermediate_size": "hidden",
    "vocab_size": "vocab",
    "max_position_embeddings": "positions",
    "type_vocab_size": "kinds",
    "hidden_act": "activation",
    "layer_norm_eps": "eps",
}
HARMLESS: Final = re.compile(
    r"_name_or_path|architectures|model_type|name|transformers_version|(torch_)?dtype"
    r"|(\w+_)?dropout(_prob)?|dropout|classifier_dropout|initializer_(range|factor)"
    r"|gradient_checkpointing|use_cache|output_past|directionality|pooler_\w+"
    r"|(bos|eos|pad|cls|sep|mask|unk|decoder_start)_token_id|tie_word(s)?_embeddings|tie_weights_?"
    r"|id2label|label2id|num_labels|problem_type|finetuning_task|task_specific_params"
    r"|return_dict|output_(attentions|hidden_states)|sinusoidal_pos_embds|summary_\w+"
    r"|sentence_transformers|_attn_implementation(_autoset)?"
)
"""The keys of configurations that change nothing of what an encoder computes."""
FIXED: Final[dict[str, object]] = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "chunk_size_feed_forward": 0,
    "pruned_heads": {},
    "relative_attention_num_buckets": 32,
    "auto_map": None,
}
"""The keys that may have one value alone, as other ones mean something that is not here."""
EMBEDDINGS: Final = {
    "embeddings.words.": ["embeddings.word_embeddings."],
    "embeddings.positions.": ["embeddings.position_embeddings."],
    "embeddings.kinds.": ["embeddings.token_type_embeddings."],
    "embeddings.norm.": ["embeddings.LayerNorm."],
}
FEED: Final = {
    "linear1.": ["intermediate.dense."],
    "linear2.": ["output.dense."],
    "norm2.": ["output.LayerNorm."],
}
LEFT: Final = re.compile(
    r"(.*\.)?pooler\..+|(.*\.)?position_ids|cls\..+|lm_head\..+|vocab_\w+\..+|classifier\..+"
    r"|pre_classifier\..+|qa_outputs\..+"
)
"""The names of weights that an encoder has no use for: heads, poolers, constants."""


@dataclass(frozen=True)
class Family:
    """How the models of one family are read."""

    layer: Mapping[str, list[str]]
    """In a layer, the beginnings of names of ours, with theirs; several ones are joined."""
    prefix: str
    """What the names begin with in models that have a head."""
    layers: str = "encoder.layer."
    embeddings: Mapping[str, list[str]] = field(default_factory=lambda: EMBEDDINGS)
    keys: Mapping[str, str] = field(default_factory=lambda: KEYS)
    own: Mapping[str, object] = field(default_factory=dict[str, object])
    """The fields that no key tells."""
    counts_from_padding: bool = False
    """Whether the first position is the row behind that of the padding token."""


BERT: Final = Family(
    {
        "self_attn.in_proj_": [f"attention.self.{name}." for name in ("query", "key", "value")],
        "self_attn.out_proj.": ["attention.output.dense."],
        "norm1.": ["attention.output.LayerNorm."],
        **FEED,
    },
    "bert.",
)
ROBERTA: Final = Family(BERT.layer, "roberta.", counts_from_padding=True)
FAMILIES: Final = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "distilbert": Family(
        {
            "self_attn.in_proj_": [f"attention.{name}_lin." for name in "qkv"],
            "self_attn.out_proj.": ["attention.out_lin."],
            "norm1.": ["sa_layer_norm."],
            "linear1.": ["ffn.lin1."],
            "linear2.": ["ffn.lin2."],
            "norm2.": ["output_layer_norm."],
        },
        "distilbert.",
        "transformer.layer.",
        keys={
            "n_layers": "layers",
            "n_heads": "heads",
            "dim": "width",
            "hidden_dim": "hidden",
            "vocab_size": "vocab",
            "max_position_embeddings": "positions",
            "activation": "activation",
        },
        own={"kinds": 0},
    ),
    "mpnet": Family(
        {
            "self_attn.in_proj_": [f"attention.attn.{name}." for name in "qkv"],
            "self_attn.out_proj.": ["attention.attn.o."],
            "norm1.": ["attention.LayerNorm."],
            **FEED,
        },
        "mpnet.",
        embeddings={**EMBEDDINGS, "distances.": ["encoder.relative_attention_bias."]},
        keys={key: name for key, name in KEYS.items() if name != "kinds"},
        own={"kinds": 0, "buckets": 32},
        counts_from_padding=True,
    ),
}
"""The families, by the `model_type` of their configurations."""


def config_of_encoder(entries: Mapping[str, object], subject: str = "load") -> EncoderConfig:
    """Return the sizes that a `config.json` tells, or raise for what is not here.

    >>> config = config_of_encoder({"model_type": "bert", "hidden_size": 384, "use_cache": True})
    >>> config.width, config.layers, config.context
    (384, 12, 512)
    """
    family = family_of(entries, subject)
    given = {name: entries[key] for key, name in family.keys.items() if key in entries}
    for key, value in entries.items():
        if key in family.keys or (key in FIXED and FIXED[key] == value):
            continue
        if key in FIXED or not HARMLESS.fullmatch(key):
            known = f", and here it is always {FIXED[key]!r}" if key in FIXED else ""
            raise ModelError(
                f"{subject}: the configuration has {shown(key)}: {shown(value)}{known}",
                hint="what it changes is not here, and without it the results would be others; "
                "torch.export and ll.from_torch take any model",
            )
    config = EncoderConfig()
    for name, value in given.items():
        _check(subject, name, value, getattr(config, name))
    offset = 0
    if family.counts_from_padding:
        padding = entries.get("pad_token_id", 1)
        _check(subject, "pad_token_id", padding, 1)
        offset = cast("int", padding) + 1
    return EncoderConfig(**cast("dict[str, Any]", {**given, **family.own, "offset": offset}))


def _check(subject: str, name: str, value: object, like: object) -> None:
    """Raise unless a value of a configuration is of the right type, and within reason."""
    if name == "activation":
        is_right = isinstance(value, str) and value in ACTIVATIONS
        wanted = f"one of {', '.join(ACTIVATIONS)}"
    elif isinstance(like, float):
        is_right = isinstance(value, (int, float)) and 0 <= value < 1
        wanted = "a small number"
    else:
        most = LARGEST.get(name, 1 << 31)
        is_right = type(value) is int and 0 <= value < most
        wanted = f"a whole number below {most:,}"
    if not is_right:
        near = nearest(value, ACTIVATIONS) if isinstance(value, str) else None
        raise ModelError(f"{subject}: {name} is {shown(value)}, and must be {wanted}", hint=near)


def family_of(entries: Mapping[str, object], subject: str = "load") -> Family:
    """Return the family of a configuration.

    >>> family_of({"model_type": "mpnet"}).prefix
    'mpnet.'
    """
    kind = entries.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ModelError(
            f"{subject}: there is no encoder of the type {shown(kind)}",
            hint=f"there are {', '.join(FAMILIES)}",
        )
    return FAMILIES[kind]


def fill(
    encoder: Encoder, family: Family, values: Mapping[str, Parameter], subject: str = "load"
) -> None:
    """Let an encoder take published weights, each when it is first needed.

    >>> from luminal_lab.nn.models.encoder import EncoderConfig
    >>> encoder = Encoder(EncoderConfig(1, 1, 2, 2, 3, 4))
    >>> try:
    ...     fill(encoder, FAMILIES["bert"], {})
    ... except ll.InputError as error:
    ...     print(str(error).splitlines()[1])
      missing: embeddings.words.weight (3, 2) float32
    """
    named = {_bare(name, family): value for name, value in values.items()}
    given: dict[str, tuple[tuple[int, ...], str]] = {}
    parts: dict[str, list[Parameter]] = {}
    used: set[str] = set()
    paths = [*encoder.parameters().items()]
    for path, parameter in paths:
        names = _names(path, family)
        if not all(name in named for name in names):
            continue
        used.update(names)
        parts[path] = [named[name] for name in names]
        rows = sum(part.shape[0] for part in parts[path] if part.shape)
        is_float = all(part.dtype.is_float for part in parts[path])
        dtype = parameter.dtype if is_float else parts[path][0].dtype
        given[path] = (rows, *parts[path][0].shape[1:]), str(dtype)
    for name, value in named.items():
        if name not in used and not LEFT.fullmatch(name):
            given[name] = value.shape, str(value.dtype)
    chosen, _ = matched(subject, paths, given, strict=True)
    for parameter, path in chosen:
        parameter.set(_joined(parts[path], parameter))


def _bare(name: str, family: Family) -> str:
    return name.removeprefix(family.prefix)


def _names(path: str, family: Family) -> list[str]:
    """Return what a family calls a weight of ours."""
    layer = re.fullmatch(r"encoder\.layers\.(\d+)\.(.+)", path)
    known = family.layer if layer else family.embeddings
    before, rest = (f"{family.layers}{layer[1]}.", layer[2]) if layer else ("", path)
    for begin, names in known.items():
        if rest.startswith(begin):
            return [f"{before}{name}{rest.removeprefix(begin)}" for name in names]
    return [path]


def _joined(parts: list[Parameter], like: Parameter) -> object:
    def read() -> Array:
        return np.concatenate([p.value for p in parts]).astype(like.dtype.numpy, copy=False)

    if len(parts) > 1:
        return read
    return lambda: parts[0].value.astype(like.dtype.numpy, copy=False)
