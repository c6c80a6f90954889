"""Folders as models are published in, small enough for a test."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.needs import need

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "a",
    "man",
    "is",
    "eating",
    "food",
    "query",
    ":",
    "the",
]
CONFIG = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "vocab_size": len(WORDS),
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
    "pad_token_id": 0,
}


def published(folder: Path, **changes: Any) -> Path:
    """Write a BERT with drawn weights, and return its folder."""
    save_file = need("safetensors.numpy").save_file
    folder.mkdir(parents=True, exist_ok=True)
    config = {**CONFIG, **changes}
    write(folder / "config.json", config)
    save_file(weights(config), folder / "model.safetensors")
    tokenizer(folder)
    return folder


def write(path: Path, entries: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(entries), encoding="utf-8")


def weights(config: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return values under the names of BERT's files, with what a head leaves there."""
    w, h = config["hidden_size"], config["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], w),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], w),
        "embeddings.token_type_embeddings.weight": (2, w),
        "pooler.dense.weight": (w, w),
    }
    linear = {"intermediate.dense": (h, w), "output.dense": (w, h)}
    for name in ("self.query", "self.key", "self.value", "output.dense"):
        linear[f"attention.{name}"] = (w, w)
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        for name, shape in linear.items():
            shapes[f"{layer}.{name}.weight"] = shape
            shapes[f"{layer}.{name}.bias"] = shape[:1]
        for name in ("attention.output", "output"):
            shapes |= {f"{layer}.{name}.LayerNorm.{part}": (w,) for part in ("weight", "bias")}
    shapes |= {f"embeddings.LayerNorm.{part}": (w,) for part in ("weight", "bias")}
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape, "float32") for name, shape in shapes.items()}


def tokenizer(folder: Path) -> None:
    """Write a tokenizer of whole words, with a token at each end of a text."""
    tokenizers = need("tokenizers")
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, "[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair=None, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.enable_padding(length=14)  # what is of no use here, as in MiniLM's
    made.save(str(folder / "tokenizer.json"))


def stacked(folder: Path, *kinds: str) -> None:
    """Write a `modules.json` with such modules of sentence-transformers behind the model."""
    entries = [
        {"idx": at, "name": str(at), "path": "" if not at else f"{at}_{kind}", "type": name}
        for at, kind in enumerate(("Transformer", *kinds))
        for name in [f"sentence_transformers.models.{kind}"]
    ]
    write(folder / "modules.json", entries)
