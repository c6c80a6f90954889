"""Decoders by the keys of a GGUF file, and by which tensors there are.

llama.block_count = 16          becomes   num_hidden_layers = 16, for the rows of `decoders`
llama.rope.freq_base = 500000             rope_theta = 500000
blk.0.attn_q.bias is there                attention_bias = true

llama.cpp's converter has rearranged some weights: queries and keys into the order of neighbours,
fused ones into queries, keys, values; 1 was added to the norms of Gemma. So the layers differ from
those of the same model in Hugging Face's files, and the weights stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias, cast

import numpy as np

from luminal_lab.errors import ModelError
from luminal_lab.nn.models.decoder import (
    DecoderConfig,
    ExpertsConfig,
    LayerConfig,
    NormConfig,
)
from luminal_lab.nn.models.decoder_parts import LAYER_TYPES, MOST_LAYERS
from luminal_lab.nn.models.decoders import read
from luminal_lab.nn.models.keys import Keys
from luminal_lab.nn.rope import FactorScaling


class Format(NamedTuple):
    """What an architecture of GGUF is called in Hugging Face's files."""

    name: str
    interleaved: bool = False
    """Whether rotary positions turn neighbours."""
    rope: bool = True
    """Whether positions are rotary."""


FORMATS: Final[Mapping[str, Format]] = {
    "arcee": Format("ArceeForCausalLM", interleaved=True),
    "bloom": Format("BloomForCausalLM", rope=False),
    "cohere2": Format("Cohere2ForCausalLM", interleaved=True),
    "command-r": Format("CohereForCausalLM", interleaved=True),
    "ernie4_5": Format("Ernie4_5ForCausalLM", interleaved=True),
    "exaone4": Format("Exaone4ForCausalLM"),
    "falcon": Format("FalconForCausalLM"),
    "gemma": Format("GemmaForCausalLM"),
    "gemma2": Format("Gemma2ForCausalLM"),
    "gemma3": Format("Gemma3ForCausalLM"),
    "glm4": Format("Glm4ForCausalLM", interleaved=True),
    "gpt2": Format("GPT2LMHeadModel", rope=False),
    "gptneox": Format("GPTNeoXForCausalLM"),
    "granite": Format("GraniteForCausalLM", interleaved=True),
    "granitemoe": Format("GraniteMoeForCausalLM", interleaved=True),
    "llama": Format("LlamaForCausalLM", interleaved=True),
    "mpt": Format("MptForCausalLM", rope=False),
    "nemotron": Format("NemotronForCausalLM"),
    "olmo": Format("OlmoForCausalLM", interleaved=True),
    "olmo2": Format("Olmo2ForCausalLM"),
    "olmoe": Format("OlmoeForCausalLM"),
    "phi2": Format("PhiForCausalLM"),
    "phi3": Format("Phi3ForCausalLM"),
    "qwen2": Format("Qwen2ForCausalLM"),
    "qwen2moe": Format("Qwen2MoeForCausalLM"),
    "qwen3": Format("Qwen3ForCausalLM"),
    "qwen3moe": Format("Qwen3MoeForCausalLM"),
    "seed_oss": Format("SeedOssForCausalLM"),
    "smollm3": Format("SmolLM3ForCausalLM", interleaved=True),
    "stablelm": Format("StableLmForCausalLM"),
    "starcoder": Format("GPTBigCodeForCausalLM", rope=False),
    "starcoder2": Format("Starcoder2ForCausalLM"),
}
"""The architectures by their names in GGUF files."""

KEYS: Final[Mapping[str, str]] = {
    "vocab_size": "vocab_size",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "use_parallel_residual": "use_parallel_residual",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_epsilon": "layer_norm_eps",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "attention.clamp_kqv": "clip_qkv",
    "attention.scale": "attention_multiplier",
    "rope.freq_base": "rope_theta",
    "logit_scale": "logit_scale",
    "residual_scale": "residual_multiplier",
    "embedding_scale": "embedding_multiplier",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "expert_weights_norm": "norm_topk_prob",
}
"""What the keys of an architecture are called in a `config.json`."""

NAMES: Final[Mapping[str, str]] = {
    "model.embed_tokens": "token_embd",
    "model.embed_positions": "position_embd",
    "model.embed_norm": "token_embd_norm",
    "model.layers": "blk",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "attention_norm": "post_attention_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.router": "ffn_gate_inp",
    "mlp.experts.gate_proj": "ffn_gate_exps.weight",
    "mlp.experts.up_proj": "ffn_up_exps.weight",
    "mlp.experts.down_proj": "ffn_down_exps.weight",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "mlp_norm": "post_ffw_norm",
}
"""What our parts are called in a GGUF file."""


OLD_EXPERTS: Final = {
    f"mlp.experts.{part}_proj": f"ffn_{part}.{{}}.weight" for part in ("gate", "up", "down")
}
"""Names in files of the time when each expert had tensors of its own."""
KNOWN: Final[Mapping[str, tuple[object, ...]]] = {
    "attention.causal": (True,),
    "expert_gating_func": (0, 1),
    "expert_weights_scale": (0.0, 1.0),
    "leading_dense_block_count": (0,),
    "tensor_data_layout": ("Meta AI original pth", "jploski"),
}
"""Keys that must say what is done anyway."""
TOLD: Final = ("attention.value_length", "expert_shared_count", "rope.dimension_count")
"""Keys that are read here, and not by a row."""


def from_gguf(metadata: Mapping[str, object], tensors: Mapping[str, object]) -> DecoderConfig:
    """Return the decoder that a GGUF file holds: its keys, and its tensors by name.

    Of the tensors only the shapes are read, and the factors of rotary positions.

    >>> from_gguf({"general.architecture": "mamba"}, {})
    Traceback (most recent call last):
      ...
    luminal_lab.errors.ModelError: GGUF: the architecture mamba is not known here
    hint: luminal_lab.nn.models.decoders_gguf.FORMATS has those that are
    """
    kind = Keys("GGUF", metadata).word("general.architecture")
    if kind not in FORMATS:
        raise ModelError(
            f"GGUF: the architecture {kind} is not known here",
            hint=f"{__name__}.FORMATS has those that are",
        )
    prefix = f"{kind}."
    keys_of = [key for key in metadata if key.startswith(prefix)]  # a vocabulary is not read
    own = {key.removeprefix(prefix): _listed(metadata[key]) for key in keys_of}
    file = File(kind, FORMATS[kind], Keys(f"GGUF of a {kind}", own), tensors)
    given = file.translated()
    spelled = {name: key for key, name in KEYS.items()}
    keys = Keys(f"GGUF of a {kind}", given, spelled)
    return file.as_stored(read(cast("list[str]", given["architectures"])[0], keys))


def _listed(value: object) -> object:
    """Return a value as a `config.json` has it; more than there may be layers is cut off."""
    return value[: MOST_LAYERS + 1].tolist() if isinstance(value, np.ndarray) else value


class File(NamedTuple):
    """What a GGUF file says of its model."""

    kind: str
    form: Format
    own: Keys
    """The keys of the architecture, without its name."""
    tensors: Mapping[str, object]

    def translated(self) -> dict[str, object]:
        """Return the same in the keys of a `config.json`."""
        own, tensors = self.own, self.tensors
        for name, values in KNOWN.items():
            own.only(name, *values)
        given = {
            KEYS.get(key, key): value
            for key, value in own.given.items()
            if key not in KNOWN and key not in TOLD
        }
        given["architectures"] = [self.form.name]
        given["tie_word_embeddings"] = "output.weight" not in tensors
        embedding = getattr(tensors.get("token_embd.weight"), "shape", ())
        if len(embedding) == 2:
            given.setdefault("vocab_size", int(embedding[0]))
        width = own.whole("embedding_length", least=1)
        heads = own.whole("attention.head_count", least=1, most=width)
        given["head_dim"] = size = own.maybe("attention.key_length") or width // heads
        own.only("attention.value_length", size)
        if self.form.rope:
            self._turn(given)
        pattern = given.pop("attention.sliding_window_pattern", None)
        if isinstance(pattern, (list, tuple)):
            flags = cast("list[object]", pattern)
            given["layer_types"] = [LAYER_TYPES[bool(flag)] for flag in flags]
        elif pattern is not None:
            given["sliding_window_pattern"] = pattern
        if not given.get("num_experts"):
            for name in ("num_experts", "num_experts_per_tok"):
                given.pop(name, None)
        if change := CHANGES.get(self.kind):
            change(self, given)
        return given

    def has(self, name: str, layer: int = 0) -> bool:
        """Return whether a layer has a tensor."""
        return f"blk.{layer}.{name}" in self.tensors

    def _turn(self, given: dict[str, object]) -> None:
        """Say in the keys of a `config.json` how positions turn."""
        own = self.own
        kind = "longrope" if "rope_factors_long.weight" in self.tensors else "none"
        given.setdefault("rope_theta", 10_000.0)
        given["partial_rotary_factor"] = 1.0  # rope.dimension_count says it
        told: dict[str, object] = {"rope_type": own.word("rope.scaling.type", default=kind)}
        for name in [key for key in given if key.startswith(("rope.scaling.", "rope.scale_"))]:
            if name.rpartition(".")[2] not in SCALING:
                continue  # a row will say that it is not known
            del given[name]
        old = own.maybe_above("rope.scale_linear")
        if told["rope_type"] == "none" and old:
            told = {"rope_type": "linear", "factor": old}
        elif told["rope_type"] != "none":
            told["factor"] = own.maybe_above("rope.scaling.factor")
        if told["rope_type"] not in ("yarn", "longrope"):  # which alone have an amplitude
            own.only("rope.scaling.attn_factor", 1.0)
        if told["rope_type"] != "none":
            self._stretch(told)
            given["rope_scaling"] = {name: at for name, at in told.items() if at is not None}

    def _stretch(self, told: dict[str, object]) -> None:
        """Say how positions beyond the length of the training turn."""
        own = self.own
        told["original_max_position_embeddings"] = own.maybe("rope.scaling.original_context_length")
        amplitude = own.above("rope.scaling.attn_factor", default=1.0)
        if told["rope_type"] == "yarn":
            growth = math.log(own.above("rope.scaling.factor", default=1.0))
            told["attention_factor"] = amplitude * own.above(
                "rope.scaling.yarn_attn_factor", default=0.1 * growth + 1
            )
            for ours, theirs in (("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow")):
                told[ours] = own.maybe_above(f"rope.scaling.{theirs}")
        if told["rope_type"] == "longrope":
            told["attention_factor"] = amplitude
            for part in ("short", "long"):
                told[f"{part}_factor"] = self._numbers(f"rope_factors_{part}.weight")

    def _numbers(self, name: str) -> list[float]:
        if name not in self.tensors:
            raise ModelError(f"{self.own.subject}: the tensor {name} is missing")
        value = self.tensors[name]
        return np.asarray(getattr(value, "value", value), np.float64).ravel().tolist()

    def as_stored(self, config: DecoderConfig) -> DecoderConfig:
        """Return a configuration for weights as llama.cpp's converter leaves them."""
        layers = tuple(self._layer(number, layer) for number, layer in enumerate(config.layers))
        names = dict(NAMES)
        if self.has("attn_norm_2.weight"):  # a Falcon of 40B
            names |= {"input_layernorm": "attn_norm_2", "post_attention_layernorm": "attn_norm"}
        if not self.has("ffn_norm.weight") and self.kind == "seed_oss":
            names["post_attention_layernorm"] = "post_attention_norm"
        if self.has("ffn_gate.0.weight"):
            names |= OLD_EXPERTS
        return replace(
            config,
            layers=layers,
            norm=replace(config.norm, offset=0.0),
            head_bias="output.bias" in self.tensors,
            layout="out,in",
            names=tuple(names.items()),
        )

    def _layer(self, number: int, layer: LayerConfig) -> LayerConfig:
        attention, feed, rope = layer.attention, layer.feed, layer.attention.rope
        if rope is not None:
            size = self.own.whole("rope.dimension_count", default=attention.size)
            factors = "rope_freqs.weight"
            scaling = rope.scaling
            if factors in self.tensors and scaling is None:
                scaling = FactorScaling(tuple(self._numbers(factors)))
            if not 0 < size <= attention.size or size % 2:
                raise self.own.wrong("rope.dimension_count", f"a head has {attention.size}")
            rope = replace(rope, size=size, interleaved=self.form.interleaved, scaling=scaling)
        is_fused = self.has("attn_qkv.weight", number)
        attention = replace(
            attention,
            bias=self.has("attn_qkv.bias" if is_fused else "attn_q.bias", number),
            out_bias=self.has("attn_output.bias", number),
            fused="qkv" if is_fused else "",
            chunks=1,
            rope=rope,
            norm=_plain(attention.norm),
        )
        if isinstance(feed, ExpertsConfig):
            feed = replace(feed, expert=replace(feed.expert, fused=False))
        else:
            has_gate = self.has("ffn_gate.weight", number)
            bias = self.has("ffn_up.bias", number)
            feed = replace(feed, bias=bias, fused=feed.gated and not has_gate)
        return replace(
            layer,
            attention=attention,
            feed=feed,
            before_attention=_plain(layer.before_attention),
            after_attention=_plain(layer.after_attention),
            before_feed=_plain(layer.before_feed),
            after_feed=_plain(layer.after_feed),
        )


SCALING: Final = frozenset(
    {
        "type",
        "factor",
        "attn_factor",
        "original_context_length",
        "finetuned",
        "scale_linear",
        "yarn_attn_factor",
        "yarn_beta_fast",
        "yarn_beta_slow",
    }
)
"""Keys of scalings that are read."""


def _plain(norm: NormConfig | None) -> NormConfig | None:
    """Return a norm to whose weight nothing is added any more."""
    return norm and replace(norm, offset=0.0)


# -- what an architecture's keys lack --------------------------------------------------------------

Change: TypeAlias = Callable[[File, dict[str, object]], None]


def _llama(file: File, given: dict[str, object]) -> None:
    if "num_experts" in given:
        given["architectures"] = ["MixtralForCausalLM"]


def _qwen(file: File, given: dict[str, object]) -> None:
    if file.kind == "qwen3moe":
        given.setdefault("norm_topk_prob", True)
    if given.get("sliding_window"):
        given |= {"use_sliding_window": True, "max_window_layers": 0}


def _granite(file: File, given: dict[str, object]) -> None:
    given.setdefault("attention_multiplier", cast("int", given["head_dim"]) ** -0.5)
    if "logit_scale" in given:
        given["logits_scaling"] = given.pop("logit_scale")


def _gemma(file: File, given: dict[str, object]) -> None:
    """Of the largest Gemmas 2 and 3, the width says how scores are scaled."""
    largest = {"gemma2": 46, "gemma3": 62}[file.kind]
    size = given["head_dim"]
    if given.get("num_hidden_layers") == largest:
        size = file.own.whole("embedding_length") // file.own.whole("attention.head_count")
    given["query_pre_attn_scalar"] = size
    if file.kind == "gemma3":
        given["rope_local_base_freq"] = given.pop("rope.freq_base_swa", 10_000.0)


def _olmo2(file: File, given: dict[str, object]) -> None:
    if not given.get("sliding_window"):
        return
    # An Olmo 3, of which only the layers without a window exceed their context.
    base, far = given.pop("rope_theta"), given.pop("rope_scaling", {"rope_type": "default"})
    turns = {"rope_theta": base, **cast("dict[str, object]", far)}
    near = {"rope_type": "default", "rope_theta": given.pop("rope.freq_base_swa", base)}
    given["rope_parameters"] = {"full_attention": turns, "sliding_attention": near}
    given["architectures"] = ["Olmo3ForCausalLM"]


def _exaone4(file: File, given: dict[str, object]) -> None:
    given.setdefault("sliding_window", None)


def _cohere(file: File, given: dict[str, object]) -> None:
    given["use_qk_norm"] = file.has("attn_q_norm.weight")


def _nemotron(file: File, given: dict[str, object]) -> None:
    given.pop("rms_norm_eps", None)  # the converter takes it for one of both kinds of norms


def _stablelm(file: File, given: dict[str, object]) -> None:
    given["qk_layernorm"] = file.has("attn_q_norm.weight")
    given["use_parallel_residual"] = not file.has("ffn_norm.weight")


def _starcoder(file: File, given: dict[str, object]) -> None:
    given["multi_query"] = given.pop("num_key_value_heads", 1) == 1


def _falcon(file: File, given: dict[str, object]) -> None:
    given["new_decoder_architecture"] = True
    given["num_ln_in_parallel_attn"] = 1 + file.has("attn_norm_2.weight")
    given["num_kv_heads"] = given.pop("num_key_value_heads", 1)
    given["ffn_hidden_size"] = given.pop("intermediate_size", None)


def _mpt(file: File, given: dict[str, object]) -> None:
    if given.pop("intermediate_size", None) != 4 * file.own.whole("embedding_length"):
        raise file.own.wrong("feed_forward_length", "must be four times the width")
    most = given.pop("attention.max_alibi_bias", 8.0)
    told = {"alibi": most != 0, "alibi_bias_max": most or 8.0, "clip_qkv": given.pop("clip_qkv", 0)}
    given["attn_config"] = {name: value for name, value in told.items() if value != 0}


CHANGES: Final[Mapping[str, Change]] = {
    "cohere2": _cohere,
    "command-r": _cohere,
    "exaone4": _exaone4,
    "falcon": _falcon,
    "gemma2": _gemma,
    "gemma3": _gemma,
    "granite": _granite,
    "granitemoe": _granite,
    "llama": _llama,
    "mpt": _mpt,
    "nemotron": _nemotron,
    "olmo2": _olmo2,
    "qwen2": _qwen,
    "qwen2moe": _qwen,
    "qwen3": _qwen,
    "qwen3moe": _qwen,
    "stablelm": _stablelm,
    "starcoder": _starcoder,
}
