"""Tokens of sounds: those that transformers writes, and what is no sound or prompt is told."""

from typing import Any

import numpy as np
import pytest

from luminal_lab.errors import ArgumentError, LabError, ShapeError
from luminal_lab.language.mel import log_mel
from luminal_lab.language.transcriber import Transcriber
from luminal_lab.nn.models.whisper import Whisper, WhisperConfig, whisper_config
from tests.expect import error_of
from tests.needs import need
from tests.nn.models.test_whisper import SIZES

pytestmark = pytest.mark.needs("cc")
TINY = WhisperConfig(
    16, 1, 1, 2, 2, 24, 24, vocab=40, bins=80, positions=50, context=12, start=3, end=2
)


@pytest.fixture(scope="module")
def tiny() -> Transcriber:
    return Transcriber(Whisper(TINY).initialise(seed=0), suppress=[7], begin_suppress=[2, 9])


@pytest.mark.needs("torch", "transformers")
@pytest.mark.parametrize("prompt", [None, [3, 11, 5]])
@pytest.mark.parametrize("suppress", [(), (4, 17, 30, 41)])
def test_tokens_are_those_that_transformers_writes(prompt, suppress):
    torch, transformers = need("torch"), need("transformers")
    torch.manual_seed(1)
    theirs = transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**SIZES))
    for name, parameter in theirs.named_parameters():
        if parameter.requires_grad and "norm" not in name:
            torch.nn.init.normal_(parameter, std=0.4)
    ours = Whisper(whisper_config(theirs.config.to_dict()))
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    transcriber = Transcriber(ours, suppress=suppress, begin_suppress=[2, 9])
    bars: dict[str, Any] = {"suppress_tokens": [*suppress] or None, "begin_suppress_tokens": [2, 9]}
    for seed in range(5):
        sound = np.random.default_rng(seed).standard_normal((8, 30), "float32")
        given = torch.tensor([prompt or [3]])
        wanted = transformers.GenerationMixin.generate(
            theirs.eval(),
            torch.tensor(sound[None]),
            decoder_input_ids=given,
            generation_config=transformers.GenerationConfig(
                max_length=20, do_sample=False, decoder_start_token_id=3, eos_token_id=2,
                pad_token_id=0, **bars,
            ),
        )  # fmt: skip
        text = wanted[0, given.shape[1] :].tolist()
        assert transcriber.tokens_of(sound, prompt=prompt) == [id for id in text if id != 2]


def test_a_sound_is_heard_by_its_log_mel_features(tiny):
    sound = np.sin(np.arange(9000) / 9).astype("float32")
    text = tiny.tokens(sound)
    assert text == tiny.tokens_of(log_mel(sound, seconds=1))
    assert len(text) == 11
    assert 7 not in text


def test_another_sound_needs_no_compile_and_forgets_the_first(tiny):
    first, second = np.random.default_rng(0).uniform(-1, 1, (2, 16_000))
    text, compiles = tiny.tokens(first), [tiny.listening.compilation, tiny.writing.compilation]
    tiny.tokens(second)
    assert tiny.tokens(first) == text
    assert [tiny.listening.compilation, tiny.writing.compilation] == compiles


def test_a_text_ends_at_most_tokens_and_with_the_context(tiny):
    silence = np.zeros(16_000, "float32")
    assert len(tiny.tokens(silence, most=3)) == 3
    assert tiny.tokens(silence, most=0) == []
    assert len(tiny.tokens(silence, prompt=[3] * 10)) == 2
    assert tiny.tokens(silence, prompt=[3] * 12) == []


def test_prompts_that_are_none_are_refused(tiny):
    silence = np.zeros(16_000, "float32")
    error = error_of(lambda: tiny.tokens(silence, prompt=[3, 40]), ArgumentError)
    assert str(error).startswith("transcriber: the prompt has 40, and tokens are below 40")
    error = error_of(lambda: tiny.tokens(silence, prompt=[]), ShapeError)
    assert str(error).startswith("transcriber: the prompt has 0 tokens, and the context is 12")
    error = error_of(lambda: tiny.tokens_of(np.zeros((80, 90), "float32")), LabError)
    assert "(1, 80, 100)" in str(error)
