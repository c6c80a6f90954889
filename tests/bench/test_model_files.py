"""Files of drawn models: what is in them, in which form, and that the vocabulary is one."""

import numpy as np
import pytest

from luminal_lab.bench.model_files import (
    FILE_TYPES,
    SHAPES,
    bytes_of,
    form_of_matrix,
    shapes_of,
    tokens_of,
    vocabulary_of,
    write_model,
)
from luminal_lab.nn.gguf import GGUF
from luminal_lab.nn.models.decoder_weights import load_decoder
from luminal_lab.nn.models.decoders_gguf import from_gguf
from luminal_lab.tensor.blocks import Blocks

TINY = SHAPES["tiny"]


@pytest.mark.parametrize("form", FILE_TYPES)
def test_a_file_is_a_decoder_in_its_form(form, tmp_path):
    path = tmp_path / "model.gguf"
    write_model(path, TINY, form)
    file = GGUF(path)
    assert {name: tensor.shape for name, tensor in file.tensors.items()} == shapes_of(TINY)
    matrices = [tensor for tensor in file.tensors.values() if len(tensor.shape) > 1]
    assert sum(tensor.bytes for tensor in file.tensors.values()) == bytes_of(TINY, form)
    forms = {tensor.form.replace("float", "f") for tensor in matrices}
    assert forms == ({"q4_k", "q6_k"} if form == "q4_k_m" else {form})
    values = {name: file.value(name) for name in file.tensors}
    for value in values.values():
        array = value.value if isinstance(value, Blocks) else value
        assert np.std(array.astype(np.float64)) == pytest.approx(0.02, rel=0.3)
    config = from_gguf(file.keys, values)
    assert (config.tied, config.vocab, len(config.layers)) == (True, 1024, 2)
    load_decoder(config, values)


def test_it_is_the_same_each_time(tmp_path):
    for name in "ab":
        write_model(tmp_path / name, TINY, "q8_0")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_matrices_that_have_more_bits_are_those_of_llama_cpp():
    def layers_with(name, count):
        forms = [
            form_of_matrix("q4_k_m", f"blk.{k}.{name}.weight", (256, 256), count)
            for k in range(count)
        ]
        assert set(forms) == {"q4_k", "q6_k"}
        return [k for k, form in enumerate(forms) if form == "q6_k"]

    assert layers_with("ffn_down", 16) == layers_with("attn_v", 16) == [0, 1, 4, 7, 10, 13, 14, 15]
    assert form_of_matrix("q4_k_m", "blk.0.ffn_up.weight", (256, 256), 16) == "q4_k"
    assert form_of_matrix("q4_k_m", "token_embd.weight", (9, 256), 16) == "q6_k"
    assert form_of_matrix("q4_k_m", "blk.0.ffn_up.weight", (256, 96), 16) == "q8_0"


def test_shapes_are_those_that_are_told():
    counts = {
        name: sum(int(np.prod(shape)) for shape in shapes_of(sizes).values()) / 1e9
        for name, sizes in SHAPES.items()
    }
    assert counts.pop("tiny") < 0.002
    assert counts == pytest.approx({"1b": 1.236, "half": 0.432, "small": 0.116}, rel=0.01)


@pytest.mark.parametrize("size", [300, 128_256])
def test_each_merge_makes_a_token_of_two(size):
    tokens, merges = vocabulary_of(size)
    assert len(tokens) == len(set(tokens)) == size
    known = set(tokens[:256])
    for token, merge in zip(tokens[256:-2], merges, strict=True):
        first, second = merge.split(" ")
        assert first in known
        assert second in known
        assert first + second == token
        known.add(token)


def test_a_text_has_no_token_with_a_meaning_of_its_own():
    text = tokens_of(TINY, 5000)
    assert (text.shape, text.min(), text.max()) == ((5000,), 0, 1021)
