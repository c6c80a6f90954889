"""Models of transformers' as GGUF files, as llama.cpp's converter writes them.

`converted.json` has the keys that the converter wrote for these models, by their names; for the
tensors there is a rule for each thing that it does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from luminal_lab.nn.models.decoders_gguf import FORMATS
from tests.needs import need
from tests.nn.models.published import keys_of, theirs

KINDS = {form.name: kind for kind, form in FORMATS.items()}
KINDS |= dict.fromkeys(("MistralForCausalLM", "MixtralForCausalLM"), "llama")
KINDS |= {"Olmo3ForCausalLM": "olmo2"}
PERMUTED = {"llama", "granite", "granitemoe", "olmo", "smollm3", "arcee"}
LOCAL = ["sliding_attention"] * 3 + ["full_attention"]
CHANGES: dict[str, dict[str, Any]] = {
    "MistralForCausalLM": {"sliding_window": None},
    "MixtralForCausalLM": {"sliding_window": None, "rope_parameters": {"rope_theta": 100.0}},
    "Qwen2ForCausalLM": {"use_sliding_window": False},
    "Qwen3MoeForCausalLM": {"mlp_only_layers": []},
    "OlmoeForCausalLM": {"clip_qkv": None, "num_key_value_heads": 4},
    "SmolLM3ForCausalLM": {"num_hidden_layers": 4, "no_rope_layers": None},
    "Gemma2ForCausalLM": {"query_pre_attn_scalar": 6},
    "Gemma3ForCausalLM": {
        "query_pre_attn_scalar": 6,
        "num_hidden_layers": 6,
        "layer_types": None,
    },
    "Olmo3ForCausalLM": {"num_hidden_layers": 4, "layer_types": LOCAL},
    "Exaone4ForCausalLM": {"num_hidden_layers": 4, "layer_types": LOCAL},
    "Cohere2ForCausalLM": {"num_hidden_layers": 4, "layer_types": LOCAL, "head_dim": 4},
    "PhiForCausalLM": {
        "qk_layernorm": False,
        "num_key_value_heads": 4,
        "intermediate_size": 64,
    },
    "FalconForCausalLM": {"ffn_hidden_size": 64},
    "NemotronForCausalLM": {"head_dim": 4},
    "StableLmForCausalLM": {"qk_layernorm": False},
    "Starcoder2ForCausalLM": {"sliding_window": None},
}
"""What a file of GGUF cannot say, or says by itself."""


VOCABULARY = 259
WRITTEN: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_suffix(".json").read_text())


def model_of(torch: Any, transformers: Any, name: str, **changes: Any) -> Any:
    """Return a tiny model of an architecture, whose keys a GGUF file can say."""
    keys = keys_of(name, **CHANGES.get(name, {}), **changes)
    return theirs(torch, transformers, name, keys | {"vocab_size": VOCABULARY})


def metadata_of(name: str) -> dict[str, Any]:
    """Return the keys of the file that holds such a model, without those of its tokens."""
    return {"general.architecture": KINDS[name], **WRITTEN[name]}


def permuted(value: np.ndarray, heads: int) -> np.ndarray:
    """Return rows in the order of neighbours."""
    apart = value.reshape(heads, 2, -1, *value.shape[1:])
    return apart.swapaxes(1, 2).reshape(value.shape)


def in_parts(value: np.ndarray, groups: int, queries: int) -> np.ndarray:
    """Return queries, keys and values one after the other, of groups with all three."""
    apart = value.reshape(groups, queries + 2, -1, *value.shape[1:])
    parts = apart[:, :-2], apart[:, -2:-1], apart[:, -1:]
    return np.concatenate([part.reshape(-1, *value.shape[1:]) for part in parts])


REARRANGED: list[tuple[Any, str, Any]] = [
    (PERMUTED, r".*q_proj.*", lambda v, h, kv: permuted(v, h)),
    (PERMUTED, r".*k_proj.*", lambda v, h, kv: permuted(v, kv)),
    ({"gpt2"}, r".*(c_attn|c_proj|c_fc)\.weight", lambda v, h, kv: v.T),
    ({"gptneox", "bloom"}, r".*query_key_value.*", lambda v, h, kv: in_parts(v, h, 1)),
    ({"falcon"}, r".*query_key_value.*", lambda v, h, kv: in_parts(v, kv, h // kv)),
    ({"gemma", "gemma2", "gemma3", "nemotron"}, r".*norm\.weight", lambda v, h, kv: v + 1),
]
"""What is done to weights of some architectures, by their heads."""
EXPERTS = {
    "block_sparse_moe.experts.w1": "mlp.experts.gate_proj",
    "block_sparse_moe.experts.w2": "mlp.experts.down_proj",
    "block_sparse_moe.experts.w3": "mlp.experts.up_proj",
    "block_sparse_moe.output_linear": "mlp.experts.down_proj",
    "_layernorm.norms": "_layernorm",
}


def changed(kind: str, config: Any, state: dict[str, np.ndarray]) -> Iterator[tuple[str, Any]]:
    """Return the weights as the converter leaves them, by the names that they had."""
    heads = [getattr(config, n, 0) for n in ("num_attention_heads", "n_head", "n_heads")]
    shared = [getattr(config, n, 0) for n in ("num_kv_heads", "num_key_value_heads")]
    counts = max(heads), max(map(int, filter(None, shared)), default=max(heads))
    stacks: dict[str, list[np.ndarray]] = {}
    for name, value in state.items():
        for kinds, pattern, change in REARRANGED:
            if kind in kinds and re.fullmatch(pattern, name):
                value = change(value, *counts)
        if "input_linear" in name:
            for part, half in zip(("gate", "up"), np.split(value, 2, 1), strict=True):
                new = f"mlp.experts.{part}_proj"
                yield name.replace("block_sparse_moe.input_linear", new), half
        else:
            stem = re.sub(r"(experts|norms)\.\d+\.", r"\1.", name)
            stacks.setdefault(stem, []).append(value)
    for name, values in stacks.items():
        for old, new in EXPERTS.items():
            name = name.replace(old, new)
        yield name, values[0] if len(values) == 1 else np.stack(values)


def tensors_of(kind: str, config: Any, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the tensors of a GGUF file."""
    gguf = need("gguf")
    number = next(n for n, name in gguf.MODEL_ARCH_NAMES.items() if name == kind)
    names = gguf.get_tensor_name_map(number, 8)
    tensors: dict[str, np.ndarray] = {}
    for name, value in changed(kind, config, state):
        if getattr(config, "tie_word_embeddings", False) and name == "lm_head.weight":
            continue
        ends = (".weight", ".bias")
        new = names.get_name(name, ends) or names.get_name(name.removeprefix("transformer."), ends)
        assert new is not None, name
        tensors[new] = value
    return tensors
