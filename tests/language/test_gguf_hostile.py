"""GGUF files that are damaged or made to harm: a model, or an error of ours that names the file."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import luminal_lab as ll
from luminal_lab.errors import LabError
from tests.damage import check_error
from tests.language.decoders import published_gguf
from tests.language.gguf_damage import attempts, document_of
from tests.needs import need

need("gguf", "tokenizers", "jinja2", "cc")
SHARE, WHOLE = 25, 200
"""How many files of each part are tried: of each run, and by `make test-long`."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return published_gguf(tmp_path_factory.mktemp("gguf") / "whole.gguf")


@pytest.mark.share("part", range(50), 1)
def test_a_damaged_file_is_loaded_or_refused(whole, part, long, tmp_path):
    count = WHOLE if long else SHARE
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as process:
        words = str(whole), str(tmp_path), f"gguf {part}", count
        found = process.submit(attempts, *words).result()
    assert sum(found.values()) == count
    assert len(found) == 2 or not long


def refused(path: Path, *words: str) -> None:
    """Check that a file is refused in such words."""
    with pytest.raises(LabError) as caught:
        ll.load(path)
    check_error(caught.value, path)
    for word in words:
        assert word in str(caught.value)


def changed(whole: Path, folder: Path, key: str, value: object) -> Path:
    """Write a file with another value of a key; without the key where the value is None."""
    made, path = document_of(whole), folder / "model.gguf"
    made.keys = [entry for entry in made.keys if entry[0] != key or value is not None]
    for entry in made.keys:
        if entry[0] == key:
            entry[3] = value
    path.write_bytes(made.written())
    return path


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("tokenizer.ggml.model", None, "there is no key tokenizer.ggml.model"),
        ("tokenizer.ggml.tokens", None, "there is no key tokenizer.ggml.tokens"),
        ("tokenizer.ggml.merges", ["zz"], "its keys make no tokenizer"),
        ("tokenizer.ggml.merges", ["z q z"], "its keys make no tokenizer"),
        ("general.architecture", "mamba", "the architecture mamba is not known here"),
        ("llama.block_count", 1 << 31, "the key block_count is 2147483648"),
        ("llama.block_count", 1 << 10, "the key block_count is 1024"),
        ("llama.block_count", 0, "blk.0.attn_k.weight"),
        ("llama.vocab_size", 99, "token_embd.weight"),
        ("llama.context_length", 0, "the key context_length is 0, and must be above 0"),
    ],
)
def test_what_a_key_has_is_named(whole, tmp_path, key, value, words):
    refused(changed(whole, tmp_path, key, value), words)


def test_a_key_that_nobody_knows_is_named(whole, tmp_path):
    made, path = document_of(whole), tmp_path / "model.gguf"
    made.keys.append(["llama.twist", 4, 0, 3])
    path.write_bytes(made.written())
    refused(path, "the key twist, 3, is not known here")


def test_sizes_of_vocabulary_and_embedding_differ(whole, tmp_path):
    made, path = document_of(whole), tmp_path / "model.gguf"
    made.keys = [entry for entry in made.keys if entry[0] != "llama.vocab_size"]
    for tensor in made.tensors:
        if tensor[0] == "token_embd.weight":
            tensor[1] = [tensor[1][0], tensor[1][1] - 1]
    path.write_bytes(made.written())
    model = ll.load(path)  # as in published files, whose tokenizers may know tokens of pictures
    assert model.generate("a", max_tokens=2).result().stopped
    with pytest.raises(LabError, match="the prompt has the token 258, and the model knows 258"):
        model.generate("zz")


@pytest.mark.parametrize("version", [1, 2])
def test_older_versions_are_read(whole, tmp_path, version):
    made, path = document_of(whole), tmp_path / "model.gguf"
    made.version = version
    path.write_bytes(made.written())
    assert repr(ll.load(path)) == repr(ll.load(whole))


def test_a_file_for_big_endian_machines_is_told(whole, tmp_path):
    made, path = document_of(whole), tmp_path / "model.gguf"
    made.version = 3 << 24
    path.write_bytes(made.written())
    refused(path, "version 3 for big-endian machines")


def test_a_tensor_of_many_sizes_takes_no_memory(whole, tmp_path):
    made, path = document_of(whole), tmp_path / "model.gguf"
    made.tensors[0][1] = [10**18]
    path.write_bytes(made.written())
    refused(path, "should have the sizes")


def test_a_template_that_is_no_text_is_told(whole, tmp_path):
    made, path = document_of(whole), tmp_path / "model.gguf"
    (entry,) = [entry for entry in made.keys if entry[0] == "tokenizer.chat_template"]
    entry[1:] = [4, 0, 7]
    path.write_bytes(made.written())
    with pytest.raises(LabError, match="its template is 7, and no text") as caught:
        ll.load(path).chat([])
    check_error(caught.value, path)
