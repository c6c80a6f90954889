"""Whisper as transformers computes it: the encoder, the decoder, and one token after another."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import LabError, ModelError, ShapeError
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.models.whisper import Whisper, WhisperConfig, sinusoids, whisper_config
from tests.expect import error_of
from tests.needs import need
from tests.nn.beside import close

SIZES: dict[str, Any] = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 40,
    "vocab_size": 50,
    "num_mel_bins": 8,
    "max_source_positions": 15,
    "max_target_positions": 20,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 3,
}
TINY = WhisperConfig(16, 1, 1, 2, 2, 24, 24, vocab=50, bins=8, positions=15, context=20)
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def pair() -> Any:
    torch, transformers = need("torch"), need("transformers")
    torch.manual_seed(0)
    theirs = transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**SIZES))
    for name, parameter in theirs.named_parameters():
        if parameter.requires_grad and "norm" not in name:
            torch.nn.init.normal_(parameter, std=0.3)
    ours = Whisper(whisper_config(theirs.config.to_dict()))
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    rng = np.random.default_rng(0)
    return SimpleNamespace(
        torch=torch,
        theirs=theirs.eval(),
        ours=ours,
        sound=rng.standard_normal((2, 8, 30), "float32"),
        tokens=rng.integers(0, 50, (2, 9)),
    )


@pytest.mark.needs("torch", "transformers")
def test_features_and_logits_are_those_of_transformers(pair):
    with pair.torch.no_grad():
        given = pair.torch.tensor(pair.sound), pair.torch.tensor(pair.tokens)
        result = pair.theirs(input_features=given[0], decoder_input_ids=given[1])
    cx = ll.Graph()
    sound, tokens = cx.tensor((2, 8, "frames")), cx.tensor((2, "seq"), "int64")
    features = pair.ours.model.encoder(sound.set(pair.sound)).retrieve()
    logits = pair.ours(sound, tokens.set(pair.tokens)).retrieve()
    cx.execute()
    close(features.numpy(), result.encoder_last_hidden_state.numpy(), TOLERANCE, "the encoder")
    close(logits.numpy(), result.logits.numpy(), TOLERANCE, "the decoder")


def decoded(pair: Any, *passes: Any) -> np.ndarray:
    """Return the logits of one token after another, after a first part of two."""
    first = ll.Graph("remember")
    memory = pair.ours.remember(first.tensor((2, 8, "frames"), name="sound").set(pair.sound))
    cx = ll.Graph("decode")
    kept = [tuple(cx.tensor((2, "heard", 16)) for _ in range(2)) for _ in memory]
    first.retrieve(memory)
    if passes:
        first.compile(*passes)
    first.execute()
    first.transfer(memory, kept)
    tokens, cache = cx.tensor((2, "seq"), "int64"), KVCache(cx, 20)
    logits = pair.ours.decode(tokens, kept, cache).retrieve()
    if passes:
        cx.compile(*passes)
    cache.clear(2)
    cache.begin()
    steps: list[np.ndarray] = []
    for start, end in [(0, 2), *((k, k + 1) for k in range(2, 9))]:
        cache.advance()
        tokens.set(pair.tokens[:, start:end])
        cx.execute()
        steps.append(logits.numpy().copy())
    return np.concatenate(steps, 1)


def wanted(pair: Any) -> np.ndarray:
    with pair.torch.no_grad():
        given = pair.torch.tensor(pair.sound), pair.torch.tensor(pair.tokens)
        return pair.theirs(input_features=given[0], decoder_input_ids=given[1]).logits.numpy()


@pytest.mark.needs("torch", "transformers")
def test_tokens_one_by_one_read_the_memory_of_the_sound(pair):
    close(decoded(pair), wanted(pair), TOLERANCE, "the decoding")


@pytest.mark.needs("torch", "transformers", "cc")
def test_tokens_one_by_one_on_the_cpu(pair):
    passes = ll.GenericCompiler(), ll.CPUCompiler()
    close(decoded(pair, *passes), wanted(pair), TOLERANCE, "the decoding")


@pytest.mark.needs("torch", "transformers", "safetensors")
def test_a_file_of_theirs_is_loaded_as_it_is(pair, tmp_path):
    pair.theirs.save_pretrained(tmp_path)
    model = Whisper(whisper_config(pair.theirs.config.to_dict()))
    model.load(tmp_path / "model.safetensors")
    for path, value in pair.ours.state_dict().items():
        np.testing.assert_array_equal(model.state_dict()[path], value)


@pytest.mark.needs("torch", "transformers")
def test_first_positions_of_an_encoder_are_waves(pair):
    theirs = need("transformers").models.whisper.modeling_whisper.sinusoids(15, 16).numpy()
    close(sinusoids(15, 16), theirs, 1e-6, "the table")
    halves = Whisper(TINY, "float16").model.encoder.embed_positions.weight.value
    np.testing.assert_array_equal(halves, sinusoids(15, 16).astype("float16"))


def config_message(**entries: object) -> str:
    return str(error_of(lambda: whisper_config(entries), ModelError))


def test_keys_that_are_not_known_are_errors():
    assert config_message(rope_theta=10.0).startswith(
        "config.json: the key rope_theta, 10.0, is not known here"
    )
    assert config_message(model_type="wav2vec2").startswith(
        "config.json: the key model_type is 'wav2vec2', and must be one of whisper"
    )
    assert config_message(tie_word_embeddings=False).startswith(
        "config.json: the key tie_word_embeddings is false, and only true is known here"
    )
    assert config_message(d_model="wide").startswith("config.json: the key d_model is 'wide'")


def test_the_usual_sizes_are_those_of_the_smallest_one():
    assert whisper_config({}) == WhisperConfig()


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 8, 32), "whisper: 32 frames are given, and 30 are the most"),
        ((1, 9, 30), "whisper: bins is 8, but in %x (1, 9, 30) axis 1 has 9"),
        ((8, 30), "whisper: needs 3 axes, but %x (8, 30) has 2"),
    ],
)
def test_sounds_of_another_shape_are_refused(shape, message):
    cx, model = ll.Graph(), Whisper(TINY)
    error = error_of(lambda: model.remember(cx.tensor(shape, name="x")), LabError)
    assert str(error).startswith(message)


def test_a_text_beyond_the_context_is_refused():
    cx, model = ll.Graph(), Whisper(TINY)
    memory = [(cx.tensor((1, 15, 16)), cx.tensor((1, 15, 16)))]
    tokens = cx.tensor((1, 21), "int64")
    assert str(error_of(lambda: model.decode(tokens, memory), ShapeError)).startswith(
        "whisper: 21 tokens are given, and the context is 20"
    )
    cache = KVCache(cx, 24)
    step = cx.tensor((1, 1), "int64")
    assert str(error_of(lambda: model.decode(step, memory, cache), ShapeError)).startswith(
        "whisper: 24 positions are in the cache, and the context is 20"
    )
