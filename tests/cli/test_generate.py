"""`luminal-lab generate`: what is shown while a model speaks, and what is told of wrong words."""

import io
import re
import signal
import subprocess
from pathlib import Path

import pytest

import luminal_lab as ll
from luminal_lab.language.model import LanguageModel
from tests.cli.asking import ask, started
from tests.language.decoders import published_decoder
from tests.language.folders import published
from tests.language.test_transcriber import published_whisper
from tests.needs import need

need("tokenizers", "safetensors", "cc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return published_decoder(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def lm(folder) -> LanguageModel:
    lm = ll.load(folder)
    assert isinstance(lm, LanguageModel)
    return lm


def test_the_text_goes_to_standard_output(capsys, folder, lm):
    status, out, err = ask(capsys, "generate", folder, "Tell me", "--max-tokens", 12)
    wanted = lm.generate("Tell me", max_tokens=12).result().text
    assert (status, out, err) == (0, ll.errors.visible(wanted) + "\n", "")


def test_options_reach_the_model(capsys, folder, lm):
    how = {"max_tokens": 9, "temperature": 1.5, "top_k": 40, "top_p": 0.9, "seed": 7, "stop": ["e"]}
    words = [
        *("--max-tokens", 9, "--temperature", 1.5, "--top-k", 40, "--top-p", 0.9, "--seed", 7),
        *("--stop", "e"),
    ]
    _, out, _ = ask(capsys, "generate", folder, "Tell me", *words)
    assert out == ll.errors.visible(lm.generate("Tell me", **how).result().text) + "\n"


def test_steps_may_multiply_integers(capsys, folder):
    words = ["--max-tokens", 3, "--activations"]
    with pytest.warns(ll.LabWarning, match="^activations in int8 change nothing: "):
        status, _, err = ask(capsys, "generate", folder, "Tell me", *words, "int8")
    assert (status, err) == (0, "")
    status, _, err = ask(capsys, "generate", folder, "Tell me", *words, "int4")
    assert status == 2
    assert "--activations" in err


def test_an_answer(capsys, folder, lm):
    words = ["--chat", "--system", "Be brief.", "--max-tokens", 5]
    _, out, _ = ask(capsys, "generate", folder, "Hi", *words)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert out == ll.errors.visible(lm.chat(messages, max_tokens=5).result().text) + "\n"


def test_the_prompt_from_standard_input(capsys, folder, lm, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("Tell me"))
    _, out, _ = ask(capsys, "generate", folder, "-", "--max-tokens", 3)
    assert out == ll.errors.visible(lm.generate("Tell me", max_tokens=3).result().text) + "\n"


def test_numbers_go_to_standard_error(capsys, folder):
    _, _, err = ask(capsys, "generate", folder, "Tell me", "--max-tokens", 3, "--stats")
    *made, first, second = err.splitlines()
    assert len(made) <= 1, "only a compile that took long is told"
    assert all(re.fullmatch(r"its kernels were made in \d+\.\d s", line) for line in made)
    assert first.startswith("8 tokens of the prompt at ")
    assert "; 3 tokens at " in first
    assert second == "it ends because it has as many tokens as were asked for"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--system", "Be brief."], "generate: --system is for conversations"),
        (["--temperature", "-1"], "generate: --temperature is -1.0"),
        (["--max-tokens", "0"], "generate: --max-tokens is 0"),
        (["--max-tokens", "many"], "generate: --max-tokens cannot be 'many'"),
        (["--stop", ""], "stop: string 0 is ''"),
        (["--context", "0"], "load: --context is 0"),
        (["--context", "65"], "load: {folder}: --context is 65, and the model was made for 64"),
        (["--heat", "3"], "generate: it does not take '--heat'"),
    ],
)
def test_wrong_words(capsys, folder, words, why):
    status, out, err = ask(capsys, "generate", folder, "Hi", *words)
    assert (status, out, err.startswith(why.format(folder=folder))) == (2, "", True)


def test_a_model_that_makes_vectors(capsys, tmp_path):
    status, _, err = ask(capsys, "generate", published(tmp_path), "Hi")
    assert (status, err) == (
        2,
        f"generate: {tmp_path} makes vectors of texts, and goes on with none\n"
        "hint: in Python, ll.load(…).embed([…]) makes them\n",
    )


def test_a_model_that_writes_down_sounds(capsys, tmp_path):
    published_whisper(tmp_path)
    capsys.readouterr()  # transformers says how far it is
    status, _, err = ask(capsys, "generate", tmp_path, "Hi")
    assert (status, err) == (
        2,
        f"generate: {tmp_path} writes down sounds, and goes on with none\n"
        f"hint: luminal-lab transcribe {tmp_path} sound.wav writes one down\n",
    )


def test_a_model_that_is_not_there(capsys):
    status, _, err = ask(capsys, "generate", "nobody/nothing", "Hi")
    assert status == 2
    assert "; hf download nobody/nothing fetches " in err


def test_ctrl_c_leaves_what_was_written(tmp_path):
    folder = published_decoder(
        tmp_path, max_position_embeddings=100_000, hidden_size=64, num_hidden_layers=8
    )
    words = ["--context", 50_000, "--temperature", 1, "--seed", 1]
    process = started("generate", folder, "Tell me", *words, stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    first = process.stdout.read(20)
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert (first + rest).endswith("\n")
    assert err == "stopped\n"


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["--context", 8192], "--context is 8,192, and", "give at most --context 64"),
        (["--context", 0], "load: --context is 0", "give a number of tokens, as in --context 8192"),
        (
            ["--top-k", 3],
            "generate: --top-k 3 without a temperature changes nothing: the likeliest token is "
            "taken each time",
            "give --temperature 1.0, so that tokens are drawn, or leave --top-k out",
        ),
        (["--max-tokens", 0], "generate: --max-tokens is 0", "give a whole number, 1 or more, or"),
        (["--temp", 1], "generate: it does not take '--temp'", "here it is --temperature"),
        (["-n", 1], "generate: it does not take '-n'", "here it is --max-tokens"),
        (["-c", 1], "generate: it does not take '-c'", "here it is --context"),
        (["-p", "Hi"], "it does not take '-p'", "here it is MODEL PROMPT, without an option"),
        (["-x"], "it does not take '-x'", "luminal-lab generate --help says what it takes"),
    ],
)
def test_what_is_told_of_a_command_is_in_its_words(capsys, folder, words, message, hint):
    status, _, err = ask(capsys, "generate", folder, "Tell me", *words)
    assert status == 2
    assert message in err
    assert f"\nhint: {hint}" in err


def test_what_others_call_a_command(capsys):
    _, _, err = ask(capsys, "inspect", "model.gguf")
    assert err.endswith("\nhint: luminal-lab models inspect FILE\n")
    _, _, err = ask(capsys, "models", "model.gguf")
    assert err.endswith("\nhint: write inspect before it\n")
