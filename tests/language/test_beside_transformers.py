"""Texts and logits are those of transformers, from the files that it saves, and from GGUF files."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.language.decoding import Decoding
from luminal_lab.language.model import LanguageModel
from tests.language.decoders import byte_tokenizer, converted_gguf
from tests.needs import need
from tests.nn.beside import close
from tests.nn.models.converted import KINDS, metadata_of, model_of, tensors_of
from tests.nn.models.published import keys_of, logits_of, theirs, weights_of

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


@pytest.mark.share("case", CASES, 3, ids=[f"{name}-{number}" for name, number in CASES])
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


@pytest.mark.needs("gguf")
@pytest.mark.share("name", sorted(KINDS), 2)
def test_logits_of_gguf_files_are_theirs(torch, tmp_path, name):
    transformers = need("transformers")
    witness = model_of(torch, transformers, name)
    tensors = tensors_of(KINDS[name], witness.config, weights_of(witness))
    lm = ll.load(converted_gguf(tmp_path / "model.gguf", metadata_of(name), tensors))
    tokens = np.random.default_rng(4).integers(0, 259, 12)
    wanted = logits_of(torch, witness, tokens[None])[0]
    decoding = Decoding(lm.model, 16, ll.CPUCompiler())
    for count in (5, *range(6, 13)):  # five at once, then one behind the others
        logits = decoding.logits(tokens[:count].tolist())
        close(logits, wanted[count - 1], 1e-5, f"the logits behind {count}")
