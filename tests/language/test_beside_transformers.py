"""Greedy texts are those of transformers' `generate`, from the files that it saves."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.language.model import LanguageModel
from tests.language.decoders import byte_tokenizer
from tests.needs import need
from tests.nn.models.published import keys_of, theirs

need("tokenizers", "safetensors", "cc")

NAMES = [
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen3ForCausalLM",
    "Gemma2ForCausalLM",
    "Phi3ForCausalLM",
    "GPT2LMHeadModel",
]
ROOM = 384
LENGTHS = [1, 2, 3, 5, 8, *range(10, 80, 5), 300]  # the last one is read in two chunks
TOKENS = 64
CASES = [(name, number) for name in NAMES for number in range(len(LENGTHS))]


@pytest.fixture(scope="module")
def pair(torch, tmp_path_factory):
    """Return both models of a name."""
    transformers = need("transformers")
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    @cache
    def both(name: str) -> tuple[LanguageModel, Any]:
        whole = "GPT" in name
        room = {"n_positions" if whole else "max_position_embeddings": ROOM}
        keys = keys_of(name, vocab_size=259, **room)
        witness = theirs(torch, transformers, name, {**keys_of(name), **keys})
        folder: Path = tmp_path_factory.mktemp(name)
        witness.save_pretrained(folder)
        byte_tokenizer(folder)
        (folder / "tokenizer_config.json").unlink()  # nothing ends a text
        return ll.load(folder), witness

    return both


def prompt(number: int) -> str:
    rng = np.random.default_rng(number)
    return bytes(rng.integers(32, 127, LENGTHS[number]).tolist()).decode()


@pytest.mark.share("case", CASES, 5, ids=[f"{name}-{number}" for name, number in CASES])
def test_greedy_texts_are_theirs(torch, pair, case):
    name, number = case
    lm, witness = pair(name)
    text = prompt(number)
    ids = lm.tokenizer.encode(text)
    with torch.no_grad():
        made = witness.generate(
            torch.tensor([ids]), max_new_tokens=TOKENS, do_sample=False, pad_token_id=0
        )
    wanted = made[0, len(ids) :].tolist()
    result = lm.generate(text, max_tokens=TOKENS).result()
    assert len(wanted) == TOKENS
    assert (result.text, list(result.ids)) == (lm.tokenizer.decode(wanted), wanted)
