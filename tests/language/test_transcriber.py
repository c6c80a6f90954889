"""Tokens of sounds: those that transformers writes, and what is no sound or prompt is told."""

import importlib
import itertools
import wave
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, InputError, LabError, ModelError, ShapeError
from luminal_lab.language.languages import CODES
from luminal_lab.language.mel import log_mel
from luminal_lab.language.transcriber import Transcriber
from luminal_lab.nn.models.whisper import Whisper, WhisperConfig, whisper_config
from tests.expect import error_of
from tests.language.folders import write
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
@pytest.mark.parametrize("suppress", [(), (4, 17, 30, 41)])
def test_tokens_are_those_that_transformers_writes(suppress):
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
    for prompt, seed in itertools.product([None, [3, 11, 5]], range(5)):  # compiled once
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


HEARD: dict[str, Any] = {
    "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 80, "chunk_length": 1,
    "sampling_rate": 16_000, "n_fft": 400, "hop_length": 160, "padding_value": 0.0,
}  # fmt: skip
WRITTEN: dict[str, Any] = {
    "decoder_start_token_id": 3, "eos_token_id": 2, "begin_suppress_tokens": [2, 9],
    "suppress_tokens": [4, 17], "no_timestamps_token_id": 11, "is_multilingual": False,
}  # fmt: skip
FILES = ("preprocessor_config.json", "generation_config.json", "tokenizer.json")


def published_whisper(folder: Any, dtype: str = "float32") -> Any:
    """Write a Whisper with drawn weights as transformers publishes it, and return theirs."""
    torch, transformers, tokenizers = need("torch"), need("transformers"), need("tokenizers")
    torch.manual_seed(1)
    sizes = {**SIZES, "num_mel_bins": 80, "max_source_positions": 50}
    theirs = transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**sizes))
    for name, parameter in theirs.named_parameters():
        if parameter.requires_grad and "norm" not in name:
            torch.nn.init.normal_(parameter, std=0.4)
    theirs.to(getattr(torch, dtype)).save_pretrained(folder)
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{id}": id for id in range(50)}))
    made.add_special_tokens(["w3", "w11"])
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(folder / "tokenizer.json"))
    write(folder / "preprocessor_config.json", HEARD)
    write(folder / "generation_config.json", WRITTEN)
    return theirs.float().eval()


@pytest.mark.needs("torch", "transformers", "tokenizers", "safetensors")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_folder_writes_what_transformers_does(tmp_path, dtype):
    theirs = published_whisper(tmp_path, dtype)
    torch, transformers = need("torch"), need("transformers")
    transcriber = ll.load(tmp_path)
    assert isinstance(transcriber, Transcriber)
    extract = transformers.WhisperFeatureExtractor(feature_size=80, chunk_length=1)
    for seed in range(3):
        sound = np.random.default_rng(seed).uniform(-1, 1, 12_000).astype("float32")
        features = extract(sound, sampling_rate=16_000, return_tensors="pt").input_features
        wanted = transformers.GenerationMixin.generate(
            theirs,
            features,
            decoder_input_ids=torch.tensor([[3, 11]]),
            generation_config=transformers.GenerationConfig(
                max_length=20, do_sample=False, pad_token_id=0, **{
                    name: WRITTEN[name]
                    for name in (
                        "decoder_start_token_id", "eos_token_id", "begin_suppress_tokens",
                        "suppress_tokens",
                    )
                },
            ),
        )  # fmt: skip
        text = [id for id in wanted[0, 2:].tolist() if id != 2]
        assert transcriber.tokens(sound) == text
        assert transcriber.text(sound).split() == [f"w{id}" for id in text if id not in (3, 11)]
        assert transcriber.text(sound, prompt="w3 w11") == transcriber.text(sound)


MANY: dict[str, Any] = {
    **WRITTEN,
    "is_multilingual": True,
    "lang_to_id": {"<|en|>": 20, "<|de|>": 21, "<|fr|>": 22, "<|yue|>": 23},
    "task_to_id": {"transcribe": 30, "translate": 31},
}


@pytest.mark.needs("torch", "transformers", "tokenizers", "safetensors")
def test_the_language_is_the_one_that_transformers_hears(tmp_path):
    theirs = published_whisper(tmp_path)
    write(tmp_path / "generation_config.json", MANY)
    torch, transformers = need("torch"), need("transformers")
    transcriber = ll.load(tmp_path, kind="speech")
    assert repr(transcriber) == "<Transcriber: sounds of 1 s, 4 languages>"
    given = transformers.GenerationConfig(**MANY)
    bars = {key: MANY[key] for key in ("eos_token_id", "suppress_tokens", "begin_suppress_tokens")}
    heard: set[str] = set()
    for seed in range(8):
        sound = np.random.default_rng(seed).uniform(-1, 1, 4_000 * (seed + 1)).astype("float32")
        features = log_mel(sound, seconds=1)
        theirs_features = torch.tensor(features[None])
        wanted = theirs.detect_language(theirs_features, generation_config=given)[0].item()
        code = transcriber.detect(sound)
        heard.add(code)
        assert MANY["lang_to_id"][f"<|{code}|>"] == wanted
        for task, id in MANY["task_to_id"].items():
            text = transformers.GenerationMixin.generate(
                theirs,
                theirs_features,
                decoder_input_ids=torch.tensor([[3, wanted, id, 11]]),
                generation_config=transformers.GenerationConfig(
                    max_length=12, do_sample=False, pad_token_id=0, decoder_start_token_id=3, **bars
                ),
            )[0, 4:].tolist()
            words = [f"w{id}" for id in text if id not in (2, 3, 11)]
            assert transcriber.text(sound, task=task, most=8).split() == words
            assert transcriber.text(sound, task=task, language=code, most=8).split() == words
    assert len(heard) > 1


@pytest.mark.needs("torch", "transformers", "tokenizers", "safetensors")
def test_a_language_is_said_by_its_name_too(tmp_path):
    published_whisper(tmp_path)
    sound = np.random.default_rng(1).uniform(-1, 1, 8_000).astype("float32")
    texts: dict[str, str] = {}
    for said in ("de", "<|de|>", "german", "German", "DE"):
        write(tmp_path / "generation_config.json", {**MANY, "language": said})
        transcriber = ll.load(tmp_path, kind="speech")
        texts[said] = transcriber.text(sound, most=8)
        assert transcriber.text(sound, language="Cantonese") == transcriber.text(
            sound, language="yue"
        )
    assert len({*texts.values()}) == 1


@pytest.mark.needs("torch", "transformers")
def test_names_of_languages_are_those_of_transformers():
    theirs = importlib.import_module("transformers.models.whisper.tokenization_whisper")
    assert CODES == theirs.TO_LANGUAGE_CODE


@pytest.mark.needs("torch", "transformers", "tokenizers", "safetensors")
def test_a_language_or_a_task_that_is_not_known(tmp_path):
    published_whisper(tmp_path)
    write(tmp_path / "generation_config.json", {**MANY, "language": "maori", "task": "translate"})
    transcriber, silence = ll.load(tmp_path, kind="speech"), np.zeros(16_000, "float32")
    assert transcriber.task == "translate"
    known = "there is 'de', 'en', 'fr', 'yue'"
    for call, message, hint in (
        (lambda: transcriber.text(silence), "the language is 'maori'", known),
        (
            lambda: transcriber.text(silence, language="dee"),
            "the language is 'dee'",
            "did you mean",
        ),
        (
            lambda: transcriber.text(silence, language="de", task="summarise"),
            "the task is 'summarise'",
            "there is 'transcribe', 'translate'",
        ),
        (
            lambda: transcriber.text(silence, language="de", prompt="w3"),
            "a prompt is given, and a language or a task",
            "the prompt says both",
        ),
    ):
        error = error_of(call, ArgumentError)
        assert error.message == f"transcriber: {message}"
        assert error.hint.startswith(hint)
    write(tmp_path / "generation_config.json", WRITTEN)
    plain = ll.load(tmp_path, kind="speech")
    for call in (lambda: plain.detect(silence), lambda: plain.text(silence, language="en")):
        message = error_of(call, ArgumentError).message
        assert message.startswith("transcriber: the model knows one language alone, so ")
    write(tmp_path / "generation_config.json", {**MANY, "lang_to_id": {"<|en|>": 50}})
    message = error_of(lambda: ll.load(tmp_path), ModelError).message
    assert message.endswith(
        "lang_to_id: the key <|en|> is 50, and must be a whole number from 0 to 49"
    )


@pytest.mark.needs("torch", "transformers", "tokenizers", "safetensors")
def test_features_may_be_told_by_the_file_of_the_processor(tmp_path):
    published_whisper(tmp_path)
    (tmp_path / FILES[0]).unlink()
    whole = tmp_path / "processor_config.json"
    write(whole, {"processor_class": "WhisperProcessor", "feature_extractor": HEARD})
    assert ll.load(tmp_path, kind="speech").seconds == 1
    write(
        whole, {"processor_class": "WhisperProcessor", "feature_extractor": {**HEARD, "n_fft": 8}}
    )
    assert error_of(lambda: ll.load(tmp_path), ModelError).message == (
        f"load: {tmp_path}: processor_config.json: feature_extractor: the key n_fft is 8, and only "
        "400 is known here"
    )
    write(whole, {"processor_class": "WhisperProcessor"})
    message = error_of(lambda: ll.load(tmp_path), InputError).message
    assert message == f"load: there is no preprocessor_config.json in {tmp_path}"


def test_what_is_no_sound_is_told(tiny):
    for samples, hint in (
        (np.zeros((16_000, 2), "float32"), "the mean of channels is one: samples.mean(1)"),
        (np.zeros((2, 16_000), "float32"), "the mean of channels is one: samples.mean(0)"),
        (np.zeros(0, "float32"), "give an array of samples, 16,000 of a second, or a WAV file"),
        (3.5, "give an array of samples, 16,000 of a second, or a WAV file"),
    ):
        error = error_of(lambda samples=samples: tiny.tokens(samples), InputError)
        assert error.message.startswith("transcriber: the samples are float")
        assert error.hint == hint


def test_words_that_are_no_tokens_or_counts(tiny):
    silence, wrong = np.zeros(16_000, "float32"), dict[str, Any]
    calls = {
        "transcriber: most is '3'": wrong(most="3"),
        "transcriber: most is -3": wrong(most=-3),
        "transcriber: most is 2.5": wrong(most=2.5),
        "transcriber: the prompt is 'w3'": wrong(prompt="w3"),
        "transcriber: the prompt is 3": wrong(prompt=3),
    }
    for message, how in calls.items():
        error = error_of(lambda how=how: tiny.tokens(silence, **how), ArgumentError)
        assert (error.message, bool(error.hint)) == (message, True)
    for how in (wrong(suppress=[40]), wrong(languages={"en": -1}), wrong(tasks={"x": ["y"]})):
        error = error_of(lambda how=how: Transcriber(Whisper(TINY), **how), ArgumentError)
        assert error.message.startswith("transcriber: there is no token ")
        assert error.hint == "they are whole numbers below 40"


def test_a_sound_may_be_a_file(tiny, tmp_path):
    sound = np.sin(np.arange(16_000) / 9)
    whole = np.round(sound * 32_767).astype("<i2")
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(whole.tobytes())
    assert tiny.tokens(tmp_path / "sound.wav") == tiny.tokens(whole / 32_768)


@pytest.mark.needs("torch", "transformers", "tokenizers", "safetensors")
def test_what_a_folder_lacks_or_says_otherwise_is_named(tmp_path):
    published_whisper(tmp_path)
    for name in FILES:
        text = (tmp_path / name).read_text()
        (tmp_path / name).unlink()
        message = error_of(lambda: ll.load(tmp_path), InputError).message
        assert message.startswith(f"load: there is no {name} in {tmp_path}")
        (tmp_path / name).write_text(text)
    for name, told, key, value, must in (
        (FILES[0], HEARD, "n_fft", 512, "only 400 is known here"),
        (FILES[0], HEARD, "chunk_length", 30, "only 1 or 1.0 is known here"),
        (FILES[1], WRITTEN, "suppress_tokens", [50], "tokens are from 0 to 49"),
    ):
        write(tmp_path / name, {**told, key: value})
        message = error_of(lambda: ll.load(tmp_path), ModelError).message
        assert message == f"load: {tmp_path}: {name}: the key {key} is {value}, and {must}"
        write(tmp_path / name, told)


@pytest.mark.needs("torch", "transformers", "tokenizers", "safetensors")
def test_a_model_of_many_languages_needs_to_be_told_which(tmp_path):
    published_whisper(tmp_path)
    write(tmp_path / "generation_config.json", {**WRITTEN, "is_multilingual": True})
    transcriber = ll.load(tmp_path)
    assert isinstance(transcriber, Transcriber)
    silence = np.zeros(16_000, "float32")
    error = error_of(lambda: transcriber.text(silence), ArgumentError)
    assert error.message.startswith("transcriber: there is no prompt")
    assert transcriber.text(silence, prompt="w3 w11", most=2).split()


def test_without_a_tokenizer_there_are_tokens_alone(tiny):
    error = error_of(lambda: tiny.text(np.zeros(16_000, "float32")), ArgumentError)
    assert error.message.startswith("transcriber: there is no tokenizer")
