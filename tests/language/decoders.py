"""Language models as they are published, with drawn weights and a token for each byte."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from tests.language.folders import write
from tests.needs import need

LETTERS = 256
BEGIN, END, PAIR = 256, 257, 258
"""The tokens that begin and end a text, and that of two letters."""
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 259,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "bos_token_id": BEGIN,
    "eos_token_id": END,
}
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message.role }}]{{ message.content }}"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)


def published_decoder(folder: Path, *, dtype: str = "float32", **changes: Any) -> Path:
    """Write a Llama with drawn weights, and return its folder."""
    save_file = need("safetensors.numpy").save_file
    folder.mkdir(parents=True, exist_ok=True)
    config = {**CONFIG, **changes}
    write(folder / "config.json", config)
    values = {name: value.astype(dtype) for name, value in weights_of_decoder(config).items()}
    save_file(values, folder / "model.safetensors")
    byte_tokenizer(folder)
    return folder


def weights_of_decoder(config: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Return values under the names of Llama's files."""
    width, hidden = config["hidden_size"], config["intermediate_size"]
    size = width // config["num_attention_heads"]
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config["vocab_size"], width),
        "model.norm.weight": (width,),
    }
    inner = {
        "self_attn.q_proj": (width, width),
        "self_attn.k_proj": (config["num_key_value_heads"] * size, width),
        "self_attn.v_proj": (config["num_key_value_heads"] * size, width),
        "self_attn.o_proj": (width, width),
        "mlp.gate_proj": (hidden, width),
        "mlp.up_proj": (hidden, width),
        "mlp.down_proj": (width, hidden),
        "input_layernorm": (width,),
        "post_attention_layernorm": (width,),
    }
    for number in range(config["num_hidden_layers"]):
        shapes |= {f"model.layers.{number}.{name}.weight": s for name, s in inner.items()}
    rng = np.random.default_rng(seed)
    return {
        name: rng.standard_normal(shape, "float32") * (0.3 if len(shape) > 1 else 1)
        for name, shape in shapes.items()
    }


def byte_letters() -> list[str]:
    """Return the letter that stands for each byte in the vocabularies of GPT-2 and its kin."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(256 + others.index(b)) if b in others else chr(b) for b in range(256)]


def byte_tokenizer(folder: Path) -> None:
    """Write a tokenizer with a token for each byte, for the ends of a text, and for two letters."""
    tokenizers = need("tokenizers")
    vocabulary = {letter: byte for byte, letter in enumerate(byte_letters())}
    ends = {"<s>": BEGIN, "</s>": END}
    made = tokenizers.Tokenizer(
        tokenizers.models.BPE({**vocabulary, **ends, "zz": PAIR}, [("z", "z")])
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<s>", "</s>"])
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", pair=None, special_tokens=[("<s>", BEGIN)]
    )
    made.save(str(folder / "tokenizer.json"))
    named = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": TEMPLATE}
    write(folder / "tokenizer_config.json", {**named, "tokenizer_class": "PreTrainedTokenizerFast"})


def published_chain(folder: Path, text: str, template: str = TEMPLATE) -> Path:
    """Write a Llama that takes the next word from a table of a text, and return its folder.

    A layer adds nothing to a word's vector, which has a place of its own, and the head has the
    logarithm of how often each word follows it: what it says can be read.
    """
    tokenizers, save_file = need("tokenizers"), need("safetensors.numpy").save_file
    folder.mkdir(parents=True, exist_ok=True)
    lines = [["<s>", *line.split(), "</s>"] for line in text.splitlines()]
    words = [*dict.fromkeys(["<s>", "</s>", "<unk>", *(word for line in lines for word in line)])]
    config = {
        **CONFIG,
        "vocab_size": len(words),
        "hidden_size": (width := -(-len(words) // 32) * 32),
        "num_hidden_layers": 1,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    follows = np.full((len(words), width), 1e-6, "float32")
    for line in lines:
        for before, after in itertools.pairwise(line):
            follows[words.index(after), words.index(before)] += 1
    values = weights_of_decoder(config)
    silent = [name for name in values if name.endswith(("o_proj.weight", "down_proj.weight"))]
    values |= {name: np.zeros_like(values[name]) for name in silent}
    values["model.norm.weight"] = np.ones(width, "float32")
    values["model.embed_tokens.weight"] = np.eye(len(words), width, dtype="float32")
    values["lm_head.weight"] = np.log(follows / follows.sum(0)) / np.float32(width) ** 0.5
    save_file(values, folder / "model.safetensors")
    write(folder / "config.json", config)

    vocabulary = {word if word[0] == "<" else f"▁{word}": at for at, word in enumerate(words)}
    made: Any = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, "<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    made.decoder = tokenizers.decoders.Metaspace()
    made.add_special_tokens(["<s>", "</s>"])
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", pair=None, special_tokens=[("<s>", 0)]
    )
    made.save(str(folder / "tokenizer.json"))
    named = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": template}
    write(folder / "tokenizer_config.json", {**named, "tokenizer_class": "PreTrainedTokenizerFast"})
    return folder


GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "model.layers": "blk",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "post_attention_layernorm": "ffn_norm",
    "input_layernorm": "attn_norm",
}


def published_gguf(path: Path, form: str = "F32", template: str | None = TEMPLATE) -> Path:
    """Write the same Llama as a GGUF file, with matrices in a form of its package's."""
    gguf = need("gguf")
    writer: Any = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONFIG["max_position_embeddings"])
    writer.add_embedding_length(CONFIG["hidden_size"])
    writer.add_block_count(CONFIG["num_hidden_layers"])
    writer.add_feed_forward_length(CONFIG["intermediate_size"])
    writer.add_head_count(heads := CONFIG["num_attention_heads"])
    writer.add_head_count_kv(shared := CONFIG["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(CONFIG["rms_norm_eps"])
    writer.add_rope_dimension_count(CONFIG["hidden_size"] // heads)
    writer.add_vocab_size(CONFIG["vocab_size"])
    add_tokens(writer, template)
    kind = gguf.GGMLQuantizationType[form]
    for name, value in weights_of_decoder(CONFIG).items():
        for old, new in GGUF_NAMES.items():
            name = name.replace(old, new)
        if "attn_q." in name or "attn_k." in name:
            value = neighbours(value, heads if "attn_q." in name else shared)
        if value.ndim > 1 and form != "F32":
            writer.add_tensor(name, gguf.quants.quantize(value, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, value)
    return finished(writer, path)


def neighbours(value: np.ndarray, heads: int) -> np.ndarray:
    """Return the rows of queries or keys in the order in which neighbours are turned."""
    apart = value.reshape(heads, 2, -1, value.shape[1])
    return apart.swapaxes(1, 2).reshape(value.shape)


def converted_gguf(path: Path, keys: dict[str, Any], tensors: dict[str, np.ndarray]) -> Path:
    """Write a GGUF file with the keys and tensors of a model, and a token for each byte."""
    gguf = need("gguf")
    kind = "general.architecture"
    writer: Any = gguf.GGUFWriter(path, keys[kind])
    for name, value in keys.items():
        if name != kind:
            writer.add_key_value(name, value, gguf.GGUFValueType.get_type(value))
    add_tokens(writer, None)
    for name, value in tensors.items():
        writer.add_tensor(name, np.ascontiguousarray(value))
    return finished(writer, path)


def add_tokens(writer: Any, template: str | None) -> None:
    """Add the keys of a token for each byte, for the ends of a text, and for two letters."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*byte_letters(), "<s>", "</s>", "zz"])
    writer.add_token_types([1] * LETTERS + [3, 3, 1])
    writer.add_token_merges(["z z"])
    writer.add_bos_token_id(BEGIN)
    writer.add_eos_token_id(END)
    writer.add_add_bos_token(True)
    if template is not None:
        writer.add_chat_template(template)


def finished(writer: Any, path: Path) -> Path:
    """Write all that a writer was given, and return the file."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
