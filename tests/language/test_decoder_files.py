"""Language models from all that they come in; what is missing, too large or not here is told."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, DeviceError, InputError, ModelError
from luminal_lab.language import decoder_files
from luminal_lab.language.model import LanguageModel
from luminal_lab.tensor.blocks import Blocks
from tests.expect import error_of
from tests.language.decoders import (
    CONFIG,
    END,
    byte_tokenizer,
    published_decoder,
    published_gguf,
    weights_of_decoder,
)
from tests.language.folders import stacked, write
from tests.needs import need

need("tokenizers", "safetensors")


def loaded(path: Path | str, context: int | None = None) -> LanguageModel:
    return ll.load(path, kind="text", context=context)


def said(lm: LanguageModel) -> tuple[int, ...]:
    return lm.generate("Tell me", max_tokens=12).result().ids


@pytest.fixture(scope="module")
def words(tmp_path_factory) -> tuple[int, ...]:
    """What the model says."""
    need("cc")
    return said(loaded(published_decoder(tmp_path_factory.mktemp("llama"))))


@pytest.mark.needs("cc")
def test_a_folder_may_be_named_by_a_file_of_it(tmp_path, words):
    folder = published_decoder(tmp_path)
    for path in (folder, folder / "model.safetensors", str(folder)):
        assert said(loaded(path)) == words


@pytest.mark.needs("cc")
def test_weights_may_lie_in_several_files(tmp_path, words):
    package = need("safetensors.numpy")
    folder = published_decoder(tmp_path)
    values = package.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    files = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    for file, names in zip(files, ([*values][:9], [*values][9:]), strict=True):
        package.save_file({name: values[name] for name in names}, folder / file)
    where = {name: files[at >= 9] for at, name in enumerate(values)}
    write(folder / "model.safetensors.index.json", {"weight_map": where})
    for path in (folder, folder / files[0], folder / "model.safetensors.index.json"):
        assert said(loaded(path)) == words


@pytest.mark.needs("cc")
def test_a_model_that_was_fetched_is_had_by_its_name(tmp_path, monkeypatch, words):
    """Its files are links into a folder of blobs, as Hugging Face's tools leave them."""
    folder = published_decoder(tmp_path / "made")
    model = tmp_path / "hub" / "models--ours--tiny"
    snapshot = model / "snapshots" / "0f1e2d"
    snapshot.mkdir(parents=True)
    (model / "blobs").mkdir()
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("0f1e2d")
    for number, file in enumerate(sorted(folder.iterdir())):
        shutil.move(file, model / "blobs" / f"b{number}")
        (snapshot / file.name).symlink_to(Path("..", "..", "blobs", f"b{number}"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    assert said(loaded("ours/tiny")) == words


@pytest.mark.needs("cc", "gguf")
def test_a_gguf_file_is_a_model(tmp_path, words):
    path = published_gguf(tmp_path / "tiny.gguf")
    lm = loaded(path)
    assert repr(lm) == "<LanguageModel tiny: 259 kinds of tokens, room for 64>"
    assert said(lm) == words
    assert lm.tokenizer.ends == {END}
    assert said(loaded(tmp_path)) == words  # the only one in its folder
    published_gguf(tmp_path / "other.gguf")
    error = error_of(lambda: ll.load(tmp_path), InputError)
    assert error.message == f"load: {tmp_path} has 2 models"
    assert error.hint == "name one of them: other.gguf, tiny.gguf"


@pytest.mark.needs("cc", "gguf")
@pytest.mark.parametrize("form", ["Q8_0", "Q4_0", "F16"])
def test_blocks_of_a_file_stay_mapped(tmp_path, form):
    path = published_gguf(tmp_path / "tiny.gguf", form)
    lm = loaded(path)
    lm.generate("Tell me", max_tokens=3).result()
    file = decoder_files.model_file(path)
    blocks = file["token_embd.weight"]
    assert isinstance(blocks, Blocks)
    held = lm.model.parameters()["model.embed_tokens.weight"].blocks
    assert held is not None
    assert held.form.name == form.lower()
    # Nobody has a copy: the bytes belong to the mapped file.
    root = held.raw
    while isinstance(root.base, np.ndarray):
        root = root.base
    assert root.base is not None
    assert not root.flags.owndata


@pytest.mark.needs("cc")
@pytest.mark.parametrize(("dtype", "form"), [("float16", "f16"), ("bfloat16", "bf16")])
def test_half_weights_stay_as_they_are(tmp_path, dtype, form):
    folder = published_decoder(tmp_path, dtype=dtype)
    lm = loaded(folder)
    assert len(said(lm)) == 12
    assert lm.model.parameters()["model.embed_tokens.weight"].form == form


def test_what_is_missing_is_named(tmp_path):
    folder = published_decoder(tmp_path / "llama")
    (folder / "tokenizer.json").unlink()
    error = error_of(lambda: ll.load(folder), InputError)
    assert error.message.startswith(f"load: there is no tokenizer.json in {folder}")
    byte_tokenizer(folder)
    (folder / "model.safetensors").unlink()
    assert str(folder) in error_of(lambda: ll.load(folder), InputError).message
    (folder / "config.json").unlink()
    error = error_of(lambda: ll.load(folder), InputError)
    assert error.message == f"load: there is no config.json in {folder}"


def test_weights_that_are_missing_are_named(tmp_path):
    folder = published_decoder(tmp_path)
    values = weights_of_decoder(CONFIG)
    del values["model.norm.weight"]
    need("safetensors.numpy").save_file(values, folder / "model.safetensors")
    assert "model.norm.weight" in str(error_of(lambda: ll.load(folder), InputError))


def test_pickled_weights_are_not_read(tmp_path):
    folder = published_decoder(tmp_path)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x02.")
    message = error_of(lambda: ll.load(folder), InputError).message
    assert message.startswith(
        f"load: {folder / 'pytorch_model.bin'} is pickled weights of PyTorch: "
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "the architecture MambaForCausalLM is not known"),
        ({"twist": 3}, "the key twist, 3, is not known here"),
        ({"hidden_size": None}, "the key hidden_size is null"),
    ],
)
def test_a_configuration_that_is_not_here_is_told(tmp_path, changes, words):
    folder = published_decoder(tmp_path)
    write(folder / "config.json", {**CONFIG, **changes})
    assert words in error_of(lambda: ll.load(folder), ModelError).message


def test_a_decoder_that_makes_vectors_is_told(tmp_path):
    folder = published_decoder(tmp_path)
    stacked(folder, "Pooling")
    write(folder / "1_Pooling" / "config.json", {"pooling_mode_lasttoken": True})
    message = error_of(lambda: ll.load(folder), ModelError).message
    assert message == f"load: {folder} has a decoder that makes vectors, by its modules.json"


@pytest.mark.needs("gguf")
def test_a_gguf_file_without_a_template_has_none(tmp_path):
    lm = loaded(published_gguf(tmp_path / "tiny.gguf", template=None))
    error = error_of(lambda: lm.chat([{"role": "user", "content": "Hi"}]), ModelError)
    assert error.message == "chat: tiny has no template for conversations"


def test_the_room_is_what_is_asked_for(tmp_path):
    folder = published_decoder(tmp_path)
    assert loaded(folder).context == 64
    assert loaded(folder, context=16).context == 16
    write(folder / "config.json", {**CONFIG, "max_position_embeddings": 9_999})
    assert loaded(folder).context == 4096
    assert loaded(folder, context=9_999).context == 9_999
    error = error_of(lambda: ll.load(folder, context=10_000), ArgumentError)
    assert error.message == f"load: {folder}: context is 10,000, and the model was made for 9,999"
    assert error.hint == "give at most context=9999"
    wrong: list[Any] = [0, -3, 2.5, "8", True]
    for context in wrong:
        error = error_of(lambda c=context: ll.load(folder, context=c), ArgumentError)
        assert error.message == f"load: context is {context!r}"


def test_a_model_larger_than_memory_is_told_before_it_is_read(tmp_path, monkeypatch):
    folder = published_decoder(tmp_path, vocab_size=20_000, max_position_embeddings=4096)
    weights = sum(v.nbytes for v in weights_of_decoder({**CONFIG, "vocab_size": 20_000}).values())
    monkeypatch.setattr(decoder_files, "load_decoder", lambda *given: pytest.fail("it is read"))

    def refused(there: int) -> DeviceError:
        monkeypatch.setattr(decoder_files, "available_memory", lambda: there)
        return error_of(lambda: ll.load(folder), DeviceError)

    error = refused(weights + 1_000_000)
    assert error.message == (
        f"load: {folder}: the weights take 2.63 MB, the cache of 4,096 tokens 1.05 MB, and there "
        "is memory for 3.63 MB"
    )
    assert error.hint == "a cache of context=3906 tokens fits"
    assert refused(2_000_000).hint == (
        "with its matrices in bf16, as GGUF files have them, the model takes 1.32 MB"
    )
    assert refused(1_000_000).hint == (
        "with its matrices in q8_0, as GGUF files have them, the model takes 0.70 MB"
    )
    assert refused(1_000).hint == "even with its matrices in q4_k the model takes 0.37 MB"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    folder = published_decoder(tmp_path)
    (folder / "generation_config.json").unlink(missing_ok=True)
    os.mkfifo(folder / "generation_config.json")
    assert "is not a plain file" in error_of(lambda: ll.load(folder), InputError).message
