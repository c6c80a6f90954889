"""Folders whose files are damaged: an error of ours that names one of them, or a model."""

import json
import random
import time
from pathlib import Path

import pytest

import luminal_lab as ll
from luminal_lab.errors import LabError
from tests.damage import bytes_damaged, check_error, parts_damaged, places
from tests.language.folders import published, stacked, write
from tests.needs import need

need("tokenizers", "safetensors")
DOCUMENTS = (
    "config.json",
    "modules.json",
    "1_Pooling/config.json",
    "2_Dense/config.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "tokenizer_config.json",
    "tokenizer.json",
)
BYTES = (*DOCUMENTS, "model.safetensors", "2_Dense/model.safetensors")
NAMES = (*(Path(name).name for name in BYTES), ".weight", ".bias")
"""What an error names, besides the folder: a file of it or a tensor."""
MOST_SECONDS = 10
"""What a load may take here, in seconds of this process, whatever else the machine does."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = published(tmp_path_factory.mktemp("whole"))
    stacked(folder, "Pooling", "Dense", "Normalize")
    write(folder / "1_Pooling" / "config.json", {"pooling_mode_cls_token": True})
    write(folder / "2_Dense" / "config.json", {"in_features": 8, "out_features": 3})
    layer = ll.nn.Linear(8, 3).initialise(0)
    values = {f"linear.{name}": value for name, value in layer.state_dict().items()}
    need("safetensors.numpy").save_file(values, folder / "2_Dense" / "model.safetensors")
    about = {"prompts": {"query": "query : "}, "default_prompt_name": "query"}
    write(folder / "config_sentence_transformers.json", about)
    write(folder / "sentence_bert_config.json", {"max_seq_length": 12, "do_lower_case": True})
    write(folder / "tokenizer_config.json", {"model_max_length": 14})
    return folder


def check(folder: Path, name: str, data: bytes) -> None:
    path = folder / name
    whole = path.read_bytes()
    path.write_bytes(data)
    start = time.process_time()
    try:
        ll.load(folder)
    except LabError as error:
        check_error(error, folder)
        check_error(error, *NAMES)
    except BaseException as error:
        raise AssertionError(f"{name} with {data!r}: {error!r}") from error
    finally:
        path.write_bytes(whole)
    assert time.process_time() - start < MOST_SECONDS, (name, data)


@pytest.mark.share("name", BYTES, 4)
def test_damaged_bytes_are_an_error_of_ours(folder, name, seed, long):
    drawn = random.Random(seed)
    for _ in range(500 if long else 20):
        check(folder, name, bytes_damaged(drawn, (folder / name).read_bytes()))


@pytest.mark.share("name", DOCUMENTS, 4)
def test_damaged_documents_are_an_error_of_ours(folder, name, seed, long):
    drawn = random.Random(seed)
    for _ in range(500 if long else 20):
        document = json.loads((folder / name).read_bytes())
        parts_damaged(drawn, document, [*places(document)][1:])
        check(folder, name, json.dumps(document).encode())


def test_more_layers_than_a_model_has_are_an_error(folder):
    config = json.loads((folder / "config.json").read_bytes())
    check(folder, "config.json", json.dumps({**config, "num_hidden_layers": 1 << 30}).encode())


def test_modules_that_take_vectors_of_another_width_are_named(folder):
    path = folder / "modules.json"
    whole = path.read_bytes()
    entries = json.loads(whole)
    path.write_text(json.dumps([*entries[:3], *entries[2:]]))
    with pytest.raises(LabError) as caught:
        ll.load(folder)
    path.write_bytes(whole)
    dense = folder / "2_Dense" / "config.json"
    wanted = f"load: {dense} is for vectors of 8, and those before it have 3"
    assert caught.value.message == wanted
