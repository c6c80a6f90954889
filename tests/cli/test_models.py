"""`luminal-lab models`: what is said of a file, what it needs, and the status."""

import json

import pytest

import luminal_lab as ll
from tests.cli.asking import ask
from tests.importing.test_contents import TINY, onnx_file
from tests.language.decoders import published_decoder
from tests.language.folders import published
from tests.language.test_memory import gguf
from tests.needs import need

OURS = TINY.replace("com.example.Swish", "Sigmoid").replace(', "com.example": 1', "")


def test_what_a_model_holds_and_needs(capsys, tmp_path):
    path = onnx_file(tmp_path, OURS)
    status, out, err = ask(capsys, "models", "inspect", path, "--sizes", "batch=100")
    assert (status, err) == (0, "")
    assert "ops      MatMul, Relu × 2, Sigmoid\nneeds    32 bytes for weights\n" in out
    assert " bytes for values on the way at batch = 100\n" in out


def test_a_model_of_which_something_is_not_here(capsys, tmp_path):
    status, out, _ = ask(capsys, "models", "inspect", onnx_file(tmp_path))
    assert status == 1
    assert "not here  com.example.Swish: only ONNX's own ops are known" in out


def test_a_model_of_language_needs_a_cache(capsys, tmp_path):
    status, out, err = ask(capsys, "models", "inspect", gguf(tmp_path), "--context", "1024")
    assert (status, err) == (0, "")
    needs = out[out.index("needs ") :].splitlines()[:4]
    assert needs[0].endswith(" bytes for weights")
    assert needs[1:] == [
        "       3,145,728 bytes for keys and values of a context of 1,024 tokens, 3,072 each",
        *[line for line in needs[2:] if " bytes for values on the way of " in line],
    ]
    status, out, _ = ask(capsys, "models", "inspect", gguf(tmp_path))
    assert "keys and values of a context of 2,048 tokens" in out  # as many as it was made for
    status, _, err = ask(capsys, "models", "inspect", gguf(tmp_path), "--context", "5000")
    assert (status, err.startswith("memory: --context is 5,000, and the ")) == (2, True)


def test_weights_of_no_decoder_have_no_context(capsys, tmp_path):
    need("safetensors")
    ll.nn.Linear(2, 3).save(tmp_path / "w.safetensors")
    status, _, err = ask(capsys, "models", "inspect", tmp_path / "w.safetensors", "--context", "8")
    assert (status, "holds no decoder that is known here" in err) == (2, True)


def test_weights_whose_tokens_are_missing_are_told(capsys, tmp_path):
    need("safetensors", "tokenizers")
    for folder in (published_decoder(tmp_path / "llama"), published(tmp_path / "bert")):
        assert "tokenizer" not in ask(capsys, "models", "inspect", folder)[1]
        (folder / "tokenizer.json").unlink()
        status, out, _ = ask(capsys, "models", "inspect", folder)
        assert (status, "Part(" in out) == (0, False)
        assert out.splitlines()[-1] == (
            f"there is no tokenizer.json in {folder}: without it ll.load and luminal-lab generate "
            "make no model of these weights"
        )
        _, out, _ = ask(capsys, "models", "inspect", folder, "--json")
        assert json.loads(out)["notes"][0].startswith(f"there is no tokenizer.json in {folder}")
    status, out, _ = ask(capsys, "models", "inspect", gguf(tmp_path))
    assert out.splitlines()[-1].startswith("there is no key tokenizer.ggml.model: without tokens")


def test_a_program_that_pytorch_unpickles_says_how_it_is_trusted(capsys, tmp_path):
    torch, path = need("torch"), tmp_path / "net.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(4, 2), (torch.zeros(3, 4),)), path)
    status, out, _ = ask(capsys, "models", "inspect", path)
    assert (status, out.splitlines()[-1]) == (
        0,
        "to say what a run takes PyTorch must unpickle it: --trust lets it this time, and "
        f"luminal-lab trust {path} from now on",
    )
    status, out, err = ask(capsys, "open", path)
    assert (status, out) == (2, "")
    first, hint = err.splitlines()
    assert first.startswith(f"{path}: an exported program, which PyTorch unpickles: ")
    assert hint.startswith(
        f"hint: if you know who wrote it: luminal-lab open {path} --trust opens it once, and "
        f"luminal-lab trust {path} signs it for good"
    )


def test_a_decoder_with_a_key_that_is_not_known_is_told(capsys, tmp_path):
    path = gguf(tmp_path, **{"llama.twist": 2})
    status, out, _ = ask(capsys, "models", "inspect", path)
    assert status == 0
    assert "as a model of language it is not here: GGUF of a llama: the key twist, 2, is" in out
    assert "needs" in out


def test_it_is_told_to_programs(capsys, tmp_path):
    need("safetensors")
    ll.nn.Linear(2, 3).save(tmp_path / "w.safetensors")
    status, out, _ = ask(capsys, "models", "inspect", tmp_path / "w.safetensors", "--json")
    told = json.loads(out)
    assert (status, told["format"], told["needs"]) == (0, 1, {"weights": 36})


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--sizes", "batch"], "models: --sizes cannot be 'batch'\nhint: as in batch=8 seq=128"),
        (["--sizes", "rows=3"], "models: there is no dim 'rows'"),
    ],
)
def test_words_that_fit_no_model(capsys, tmp_path, words, why):
    status, _, err = ask(capsys, "models", "inspect", onnx_file(tmp_path, OURS), *words)
    assert (status, err.startswith(why)) == (2, True)


def test_a_file_that_is_no_model(capsys, tmp_path):
    (tmp_path / "notes").write_text("hello")
    status, _, err = ask(capsys, "models", "inspect", tmp_path / "notes")
    assert (status, "is nothing that is known here" in err) == (2, True)


def test_an_error_names_no_line_that_nobody_has_written(capsys, tmp_path):
    status, _, err = ask(capsys, "models", "inspect", tmp_path / "gone.onnx")
    assert (status, err.count("\n")) == (2, 2)
    assert err.startswith("inspect: there is no ")


def test_a_folder_has_its_own_name(capsys, tmp_path, monkeypatch):
    need("safetensors")
    ll.nn.Linear(2, 3).save(tmp_path / "head.safetensors")
    monkeypatch.chdir(tmp_path)
    status, out, _ = ask(capsys, "models", "inspect", ".")
    assert (status, out.partition(":")[0]) == (0, tmp_path.name)
