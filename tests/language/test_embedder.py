"""Texts as vectors: in any number and length, with prompts, and what is no text is told."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, InputError
from tests.expect import error_of
from tests.language.folders import published, stacked, write
from tests.needs import need

need("tokenizers", "safetensors", "cc")
TEXTS = ["a man is eating", "food", "", "the man is eating the food a man is eating"]


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    return ll.load(published(tmp_path_factory.mktemp("bert")))


def test_texts_become_vectors_in_their_order(embedder):
    vectors = embedder.embed(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((4, 8), np.float32)
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert np.abs(embedder.embed(text) - vector).max() <= 1e-6


def test_no_size_compiles_it_again(embedder):
    embedder.embed(TEXTS)
    compilation = embedder.session().compilation
    embedder.embed(["a"] * 33)
    embedder.embed(TEXTS[:3], batch=2)
    assert embedder.session().compilation is compilation


def test_no_texts_are_no_vectors(embedder):
    assert embedder.embed([]).shape == (0, 8)


def test_what_is_too_long_is_cut_off(embedder):
    assert np.abs(embedder.embed("a " * 14) - embedder.embed("a " * 100)).max() <= 1e-6


def test_a_batch_is_as_large_as_it_is_asked_for(embedder):
    assert np.abs(embedder.embed(TEXTS, batch=1) - embedder.embed(TEXTS)).max() <= 1e-6


def test_it_says_what_it_is(embedder):
    assert str(embedder) == "<Embedder BertModel: 8 numbers a text of at most 16 tokens>"


def test_a_model_that_is_quantised_later_is_compiled_again(tmp_path):
    folder = published(tmp_path, hidden_size=32, intermediate_size=64)
    embedder = ll.load(folder)
    exact = embedder.embed(TEXTS)
    ll.quantise(embedder.model, "q8_0")
    rough = embedder.embed(TEXTS)
    assert 0 < np.abs(rough - exact).max() < 0.1 * np.abs(exact).max()


def test_another_device_runs_it(tmp_path):
    folder = published(tmp_path)
    vectors = ll.load(folder, device=ll.CPUCompiler(threads=1)).embed(TEXTS)
    assert np.abs(vectors - ll.load(folder).embed(TEXTS)).max() <= 1e-6


def prompted(folder, counts=True, default=None):
    published(folder)
    stacked(folder, "Pooling")
    write(folder / "1_Pooling" / "config.json", {"pooling_mode": "cls", "include_prompt": counts})
    about = {"prompts": {"query": "query : "}, "default_prompt_name": default}
    write(folder / "config_sentence_transformers.json", about)
    return ll.load(folder)


def test_a_prompt_comes_before_the_text(tmp_path):
    embedder = prompted(tmp_path)
    with_prompt = embedder.embed("a man", prompt="query")
    assert np.abs(with_prompt - embedder.embed("query : a man")).max() <= 1e-6
    assert np.abs(with_prompt - embedder.embed("a man")).max() > 1e-3


def test_a_prompt_may_be_the_default(tmp_path):
    embedder = prompted(tmp_path, default="query")
    assert (embedder.embed("a man") == embedder.embed("a man", prompt="query")).all()


def test_a_prompt_that_does_not_count_is_seen_and_not_pooled(tmp_path):
    embedder = prompted(tmp_path, counts=False)
    inner = embedder.embed("a man", prompt="query")
    assert np.abs(inner - embedder.embed("query : a man")).max() > 1e-3
    cx = ll.Graph()
    tokens = cx.tensor((1, 6), "int64").set([[2, 9, 10, 4, 5, 3]])
    rows = embedder.model.encoder(tokens).retrieve()
    cx.execute()
    assert np.abs(inner - rows.numpy()[0, 3]).max() <= 1e-6


def test_a_prompt_that_is_not_there_is_told(tmp_path):
    error = error_of(lambda: prompted(tmp_path).embed("a", prompt="qery"), InputError)
    assert error.message == "embed: the model has no prompt 'qery'"
    assert error.hint == "did you mean 'query'?"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (3, "embed: 3 is neither a text nor a list of texts"),
        (["a", None], "embed: text 1 is None, and must be a string"),
        ([b"a"], "embed: text 0 is b'a', and must be a string"),
    ],
)
def test_what_is_no_text_is_told(embedder, texts, message):
    assert error_of(lambda: embedder.embed(texts), ArgumentError).message == message


@pytest.mark.parametrize("batch", [0, -1, "many", 2.5])
def test_a_batch_has_a_text_at_least(embedder, batch):
    error = error_of(lambda: embedder.embed(TEXTS, batch=batch), ArgumentError)
    assert error.message == f"embed: batch is {batch!r}"
