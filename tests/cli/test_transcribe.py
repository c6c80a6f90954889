"""`luminal-lab transcribe`: the lines of a sound, and what is told of wrong words."""

from pathlib import Path

import numpy as np
import pytest

import luminal_lab as ll
from tests.cli.asking import ask
from tests.language.decoders import published_decoder
from tests.language.folders import write
from tests.language.test_sound import written
from tests.language.test_transcriber import MANY, published_whisper
from tests.needs import need

need("torch", "transformers", "tokenizers", "safetensors", "cc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whisper")
    published_whisper(folder)
    write(folder / "generation_config.json", MANY)
    return folder


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    samples = np.random.default_rng(0).uniform(-1, 1, (40_000, 1))
    return written(tmp_path_factory.mktemp("sounds") / "talk.wav", samples)


def test_a_long_sound_is_a_line_for_each_part(capsys, folder, sound):
    transcriber = ll.load(folder, kind="speech")
    samples = np.random.default_rng(0).uniform(-1, 1, 40_000)
    whole = np.round(samples * 2**15) / 2**15
    parts = [whole[:16_000], whole[16_000:32_000], whole[32_000:]]
    lines = [transcriber.text(part.astype("float32"), most=6).strip() for part in parts]
    status, out, err = ask(capsys, "transcribe", folder, sound, "--max-tokens", 6)
    assert (status, out, err) == (0, "".join(f"{line}\n" for line in lines), "")


def test_options_reach_the_model(capsys, folder, sound):
    transcriber = ll.load(folder, kind="speech")
    words = ["--max-tokens", 4, "--language", "de", "--translate"]
    _, out, _ = ask(capsys, "transcribe", folder, sound, *words)
    wanted = transcriber.text(sound, language="de", task="translate", most=4).strip()
    assert out.splitlines()[0] == wanted


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--language", "xx"], "transcriber: the language is 'xx'\nhint: there is 'de', "),
        (["--max-tokens", "0"], "transcribe: --max-tokens is 0\nhint: "),
        (["--lang", "de"], "transcribe: it does not take '--lang'\nhint: "),
    ],
)
def test_wrong_words(capsys, folder, sound, words, why):
    status, out, err = ask(capsys, "transcribe", folder, sound, *words)
    assert (status, out, err[: len(why)]) == (2, "", why)


def test_what_is_no_sound_or_no_model_of_sounds(capsys, folder, sound, tmp_path):
    status, _, err = ask(capsys, "transcribe", folder, tmp_path / "gone.wav")
    assert (status, err.startswith(f"sound: there is no {tmp_path / 'gone.wav'}")) == (2, True)
    llama = published_decoder(tmp_path / "llama")
    status, _, err = ask(capsys, "transcribe", llama, sound)
    assert (status, err.startswith(f"transcribe: {llama} writes down no sounds\nhint: ")) == (
        2,
        True,
    )
