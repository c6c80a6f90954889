"""A folder becomes what it is, by its files; and what is missing or not here is named."""

import json
from typing import Any, assert_type

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.devices.cuda import driver
from luminal_lab.errors import ArgumentError, DeviceError, InputError, ModelError
from luminal_lab.language import load as load_module
from luminal_lab.language.embedder import Embedder
from luminal_lab.language.load import DEVICES
from luminal_lab.language.model import LanguageModel
from luminal_lab.language.transcriber import Transcriber
from luminal_lab.nn.models import decoder_weights
from tests.expect import error_of
from tests.language.decoders import published_decoder
from tests.language.folders import WORDS, published, stacked, tokenizer, write
from tests.needs import need

need("tokenizers", "safetensors")


def message(path, kind: type = InputError) -> str:
    return error_of(lambda: ll.load(path), kind).message


def graph(path, result: str = "last_hidden_state", more: str = "") -> None:
    """Write an ONNX model that looks up a row for each token, or twice its number."""
    parser = need("onnx.parser")
    table = np.arange(len(WORDS) * 2, dtype="float32").reshape(-1, 2)
    values = ", ".join(map(str, table.ravel()))
    path.parent.mkdir(exist_ok=True)
    text = f"""<ir_version: 8, opset_import: ["": 18]>
    rows (int64[batch, seq] input_ids, int64[batch, seq] attention_mask{more})
      => (float[batch, seq, 2] {result})
    <float[{len(WORDS)}, 2] table = {{{values}}}> {{ {result} = Gather(table, input_ids) }}"""
    path.write_bytes(parser.parse_model(text).SerializeToString())


def test_a_kind_is_checked_and_typed(tmp_path):
    llama, bert = published_decoder(tmp_path / "llama"), published(tmp_path / "bert")
    lm = assert_type(ll.load(llama, kind="text"), LanguageModel)
    assert isinstance(lm, LanguageModel)
    embedder = assert_type(ll.load(bert, kind="vectors"), Embedder)
    assert isinstance(embedder, Embedder)
    error = error_of(lambda: assert_type(ll.load(llama, kind="speech"), Transcriber), ModelError)
    assert error.message == (
        f"load: {llama} goes on with texts, and kind='speech' writes down sounds"
    )
    assert error.hint == "give kind='text', or leave it out"
    wrong: Any = "embedder"
    error = error_of(lambda: ll.load(bert, kind=wrong), ArgumentError)
    assert error.message == "load: kind is 'embedder'"
    assert error.hint == "give one of 'text', 'vectors', 'speech', or leave it out"
    assert_type(ll.load(bert), Any)


def test_activations_are_checked(tmp_path):
    llama, bert = published_decoder(tmp_path / "llama"), published(tmp_path / "bert")
    lm = assert_type(ll.load(llama, kind="text", activations="int8"), LanguageModel)
    assert (lm.activations, ll.load(llama).activations) == ("int8", "float32")
    error = error_of(lambda: ll.load(bert, activations="int8"), ArgumentError)
    assert error.message == f"load: {bert} is no model that goes on with texts"
    assert error.hint == "activations are for such a model; leave them out"
    for wrong in ("int4", None, ["int8"]):
        unfit: Any = wrong
        error = error_of(lambda unfit=unfit: ll.load(llama, activations=unfit), ArgumentError)
        assert error.message.startswith("load: activations is ")
        assert error.hint == "give one of 'float32', 'bfloat16', 'int8', or leave it out"


def test_other_activations_count_from_the_next_text_on(tmp_path):
    lm = ll.load(published_decoder(tmp_path / "llama"), kind="text")
    ll.quantise(lm.model, "q4_0")
    before = lm.session()
    lm.activations = "int8"
    assert lm.session() is not before
    assert lm.session()["tokens"].shape == (1, 1)
    error = error_of(lambda: setattr(lm, "activations", "int4"), ArgumentError)
    assert error.message == "activations is 'int4'"
    assert lm.activations == "int8"


@pytest.mark.parametrize(
    ("kind", "form", "of"),
    [
        ("int8", "", "of fewer than eight bits a value"),
        ("int8", "q8_0", "of fewer than eight bits a value"),
        ("bfloat16", "q4_0", "in bfloat16"),
    ],
)
def test_activations_that_change_nothing_say_so(tmp_path, kind, form, of):
    """When the graph is made: until then, what was loaded may still be quantised."""
    lm = ll.load(published_decoder(tmp_path / "llama"), kind="text", activations=kind)
    if form:
        ll.quantise(lm.model, form)
    expected = (
        f"activations in {kind} change nothing: this model multiplies by no matrix {of}\n"
        "hint: leave activations out"
    )
    with pytest.warns(ll.LabWarning) as told:
        lm.generate("Tell me", max_tokens=3).result()
    assert [str(each.message) for each in told] == [expected]


@pytest.mark.parametrize("device", ["cuda", ll.CUDACompiler(arch="sm_90"), [ll.CUDACompiler()]])
def test_a_device_that_is_not_here_is_told_before_anything_is_read(device, monkeypatch):
    monkeypatch.setattr(driver, "gpu_count", lambda *_: 0)
    error = error_of(lambda: ll.load("gone", device=device), DeviceError)
    assert error.message == "load: cuda: there is no NVIDIA GPU on this machine"
    assert error.hint.endswith("; without device= the CPU computes")


def test_what_is_no_device_is_told(tmp_path):
    folder = published(tmp_path)
    for device in ("cpu", "generic, cpu", "cuda{emulate = true}", ll.MetalCompiler(emulate=True)):
        ll.load(folder, device=device)
    for device, why in {
        "gpu": "'gpu'",
        3: "3",
        ll.Graph(): "<Graph main: 0 nodes, 0 inputs, 0 out…",
        "generic": "'generic': it only changes graphs, and computes nothing",
        "generic, dce": "'generic, dce': it only changes graphs, and computes nothing",
        "": "'': it only changes graphs, and computes nothing",
        (): "(): it only changes graphs, and computes nothing",
        ll.GenericCompiler(): "<Pipeline generic>: it only changes graphs, and computes nothing",
        "cuda{arch = 3}": "'cuda{arch = 3}': pipeline, column 5: cuda: the architecture is '3'",
    }.items():
        error = error_of(lambda device=device: ll.load(folder, device=device), ArgumentError)
        assert error.message == f"load: device is {why}"
        assert error.hint == (
            "give one of 'cpu', 'cuda', 'metal', 'webgpu', 'xla', or a compiler, as in "
            "ll.CUDACompiler()"
        )


def test_all_devices_are_named():
    compilers: list[Any] = [getattr(ll, name) for name in ll.__all__ if name.endswith("Compiler")]
    assert {cls.name for cls in compilers if cls is not ll.GenericCompiler} == {*DEVICES}


def test_a_folder_may_be_named_by_a_file_of_it(tmp_path):
    folder = published(tmp_path)
    assert str(ll.load(folder / "model.safetensors")) == str(ll.load(str(folder)))


def test_what_was_meant_is_a_folder_or_an_address(tmp_path, monkeypatch):
    monkeypatch.chdir(published(tmp_path / "tiny").parent)
    error = error_of(lambda: ll.load("./tinny"), InputError)
    assert (error.message, error.hint) == ("load: there is no tinny", "did you mean 'tiny'?")
    address = "https://huggingface.co/Qwen/Qwen2.5-0.5B"
    error = error_of(lambda: ll.load(address), InputError)
    assert error.message == f"load: {address} is an address, and nothing is fetched from here"


def test_the_model_may_lie_below(tmp_path):
    published(tmp_path / "0_Transformer")
    stacked(tmp_path, "Pooling")
    write(tmp_path / "1_Pooling" / "config.json", {})
    entries = [
        {"type": f"sentence_transformers.models.{kind}", "path": f"{at}_{kind}"}
        for at, kind in enumerate(("Transformer", "Pooling"))
    ]
    write(tmp_path / "modules.json", entries)
    assert ll.load(tmp_path).width == 8


@pytest.mark.parametrize(
    ("files", "most"),
    [
        ({}, 16),
        ({"sentence_bert_config.json": {"max_seq_length": 7}}, 7),
        ({"tokenizer_config.json": {"model_max_length": 9}}, 9),
        ({"tokenizer_config.json": {"model_max_length": 1e30}}, 16),
        (
            {
                "tokenizer_config.json": {"model_max_length": 5},
                "sentence_roberta_config.json": {"max_seq_length": 7},
            },
            7,
        ),
        ({"sentence_bert_config.json": {"max_seq_length": 900}}, 16),
    ],
)
def test_the_most_tokens_are_those_that_files_say(tmp_path, files, most):
    folder = published(tmp_path)
    for name, entries in files.items():
        write(folder / name, entries)
    assert ll.load(folder).tokenizer.most == most


@pytest.mark.needs("onnx", "cc")
@pytest.mark.parametrize("name", ["model.onnx", "onnx/model.onnx"])
def test_a_folder_with_an_onnx_model_is_one(tmp_path, name):
    tokenizer(tmp_path)
    graph(tmp_path / name)
    for path in (tmp_path, tmp_path / name):
        rows = np.array([2, 4, 5, 3])
        wanted = np.stack([rows * 2, rows * 2 + 1], 1).mean(0)
        assert np.abs(ll.load(path).embed("a man") - wanted).max() <= 1e-6


@pytest.mark.needs("onnx")
def test_an_onnx_model_of_something_else_is_told(tmp_path):
    tokenizer(tmp_path)
    graph(tmp_path / "model.onnx", more=", float[batch, seq] pixels")
    assert message(tmp_path, ModelError) == (
        f"load: {tmp_path / 'model.onnx'} has an input 'pixels'"
    )


def test_what_is_missing_is_named(tmp_path):
    assert message(tmp_path / "nowhere") == f"load: there is no {tmp_path / 'nowhere'}"
    folder = published(tmp_path / "bert")
    (folder / "tokenizer.json").unlink()
    assert message(folder).startswith(f"load: there is no tokenizer.json in {folder}")
    (folder / "model.safetensors").unlink()
    assert message(folder) == f"load: there is no model.safetensors in {folder}"
    (folder / "config.json").unlink()
    assert message(folder) == f"load: there is no config.json in {folder}"


def test_pickled_weights_are_not_read(tmp_path):
    folder = published(tmp_path)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x02.")
    assert message(folder).startswith(
        f"load: {folder / 'pytorch_model.bin'} is pickled weights of PyTorch: "
    )


def test_a_type_that_is_not_here_is_named(tmp_path):
    folder = published(tmp_path, model_type="brt")
    error = error_of(lambda: ll.load(folder), ModelError)
    assert (
        error.message
        == f"load: {folder / 'config.json'} has a model of the type 'brt', which is not here"
    )
    assert error.hint == "did you mean 'bert'?"


@pytest.mark.parametrize("text", ["{", "3", '{"model_type": 1e999}'])
def test_a_damaged_configuration_is_named(tmp_path, text):
    folder = published(tmp_path)
    (folder / "config.json").write_text(text)
    assert "config.json" in message(folder)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"GGUF", "it is version 0, and 1 to 3 are known"),
        (b"\x80\x02.", "is pickled weights of PyTorch"),
    ],
)
def test_other_files_are_told_by_what_they_are(tmp_path, head, words):
    (tmp_path / "model").write_bytes(head + bytes(64))
    assert words in message(tmp_path / "model")


def test_prompts_are_texts(tmp_path):
    folder = published(tmp_path)
    write(folder / "config_sentence_transformers.json", {"prompts": {"query": 3}})
    assert message(folder).endswith("has the prompt 3, which is no text")


def test_the_default_prompt_is_one_of_them(tmp_path):
    folder = published(tmp_path)
    about = {"prompts": {"query": "a"}, "default_prompt_name": "passage"}
    write(folder / "config_sentence_transformers.json", about)
    assert message(folder).endswith("the default prompt 'passage', which is none of its prompts")


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_layers_without_weights_are_not_made(tmp_path, monkeypatch, kind):
    made = {"encoder": (load_module, "Encoder"), "decoder": (decoder_weights, "Decoder")}
    folder = {"encoder": published, "decoder": published_decoder}[kind](tmp_path)
    config = json.loads((folder / "config.json").read_bytes())
    write(folder / "config.json", {**config, "num_hidden_layers": 1_000})
    monkeypatch.setattr(*made[kind], lambda *given: pytest.fail("it is made"))
    error = error_of(lambda: ll.load(folder), InputError)
    has = config["num_hidden_layers"]
    assert error.message.startswith(f"load: {folder}: ")
    assert error.message.endswith(f"the model has 1,000 layers, and its weights have {has}")
    assert error.hint == ("the configuration and the weights are of two models; fetch both again")


def test_what_is_no_path_and_what_is_not_there(tmp_path, monkeypatch):
    wrong: Any = None
    assert error_of(lambda: ll.load(wrong), ArgumentError).hint == 'as in "model.gguf"'
    published_decoder(tmp_path / "rain")
    (tmp_path / "main").mkdir()
    (tmp_path / "models.txt").touch()
    monkeypatch.chdir(tmp_path)
    for name, near in {"ran": "rain", tmp_path / "ran": "rain"}.items():
        error = error_of(lambda name=name: ll.load(name), InputError)
        assert error.hint == f"did you mean {near!r}?"
    for name in ("mains/x.gguf", tmp_path / "maine", tmp_path / "models.tx"):  # of no use here
        error = error_of(lambda name=name: ll.load(name), InputError)
        assert error.hint == f"the current folder is {tmp_path}"
