"""GGUF files: read as their own package writes them, and refused where they are not whole."""

import random
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import UNSEEN, ArgumentError, DTypeError, InputError, ShapeError
from luminal_lab.nn.gguf import GGUF, MOST_STRINGS
from luminal_lab.nn.gguf_writing import write_gguf
from luminal_lab.tensor.blocks import FORMS, Blocks
from tests.expect import error_of
from tests.needs import need

MOST_SECONDS, MOST_MB = 5, 256
"""What a refusal may take of a processor; usually it takes a hundredth of that."""
ARRAY = np.arange(128, dtype=np.float32).reshape(2, 64)
KEYS: dict[str, Any] = {
    "general.architecture": "llama",
    "llama.rope.freq_base": 500000.0,
    "llama.block_count": 2,
    "tokenizer.ggml.tokens": ["<s>", "a", "Ġé", ""],
    "tokenizer.ggml.scores": np.array([0, -1, -2, -3], "float32"),
    "tokenizer.ggml.types": np.array([1, 2, 3, 4], "int32"),
    "tokenizer.ggml.add_bos_token": True,
    "big": -(1 << 40),
}


def written(path: Path, **more: Any) -> Path:
    rng = np.random.default_rng(0)
    blocks = {
        name: Blocks(name, rng.integers(0, 256, form.raw_shape((2, 256)), np.uint8), (2, 256))
        for name, form in FORMS.items()
        if form.dtype == "uint8"
    }
    values = {"a": ARRAY, "h": ARRAY.astype(np.float16), "i": np.array([1, 2], "int64")}
    write_gguf(path, {**values, **blocks}, {**KEYS, **more})
    return path


def text(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def file_of(
    *,
    keys: bytes = b"",
    key_count: int = 0,
    tensors: bytes = b"",
    count: int = 0,
    data: bytes = b"",
    version: int = 3,
) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, count, key_count) + keys + tensors
    return head + bytes(-len(head) % 32) + data


def tensor(name: bytes = b"w", sizes=(32,), form: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, form, offset)


def refusal(path: Path, data: bytes):
    path.write_bytes(data)
    return error_of(lambda: GGUF(path), InputError)


# -- read ------------------------------------------------------------------------------------------


def test_what_we_write_is_read(tmp_path):
    file = GGUF(written(tmp_path / "a.gguf"))
    keys = dict(file.keys)
    assert keys.pop("general.alignment") == 32
    assert keys.keys() == KEYS.keys()
    for name, value in KEYS.items():
        np.testing.assert_array_equal(keys[name], value)
    np.testing.assert_array_equal(file.value("a"), ARRAY)
    half = file.value("h")
    assert isinstance(half, Blocks)
    np.testing.assert_array_equal(half.value, ARRAY)
    assert repr(file) == "<GGUF a.gguf: version 3, 9 keys, 14 tensors>"


def test_the_packages_writer_is_read(tmp_path):
    gguf: Any = need("gguf")
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    for number, value in enumerate([255, -128, 65535, -32768, 1 << 31, -5, 1 << 63, -(1 << 63)]):
        add = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"][number]
        getattr(writer, f"add_{add}")(f"n.{add}", value)
    writer.add_float64("n.f64", 0.1)
    writer.add_float32("n.f32", 0.5)
    writer.add_bool("n.yes", True)
    writer.add_array("n.flags", [True, False])
    writer.add_array("n.words", ["a", "ü", ""])
    writer.add_array("n.numbers", [1, 2, 3])
    writer.add_tensor("plain", ARRAY)
    writer.add_tensor("half", ARRAY.astype(np.float16))
    kind = gguf.GGMLQuantizationType.Q5_1
    packed = gguf.quants.quantize(ARRAY, kind)
    writer.add_tensor("packed", packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = GGUF(tmp_path / "a.gguf")
    assert [file.keys[f"n.{name}"] for name in ("uint8", "int8", "uint64", "int64")] == [
        *(255, -128, 1 << 63, -(1 << 63)),
    ]
    assert (file.keys["n.f64"], file.keys["n.f32"], file.keys["n.yes"]) == (0.1, 0.5, True)
    assert file.keys["n.words"] == ["a", "ü", ""]
    assert np.asarray(file.keys["n.flags"]).tolist() == [True, False]
    assert np.asarray(file.keys["n.numbers"]).tolist() == [1, 2, 3]
    np.testing.assert_array_equal(file.value("plain"), ARRAY)
    blocks = file.value("packed")
    assert isinstance(blocks, Blocks)
    np.testing.assert_array_equal(blocks.raw, packed)


def test_the_package_reads_what_we_write(tmp_path):
    gguf: Any = need("gguf")
    path = written(tmp_path / "a.gguf")
    reader, ours = gguf.GGUFReader(path), GGUF(path)
    assert reader.fields["tokenizer.ggml.tokens"].contents() == KEYS["tokenizer.ggml.tokens"]
    assert reader.fields["llama.block_count"].contents() == 2
    for theirs in reader.tensors:
        value = ours.value(theirs.name)
        raw = value.raw if isinstance(value, Blocks) else value
        assert tuple(reversed(theirs.shape.tolist())) == ours.tensors[theirs.name].shape
        assert theirs.data.tobytes() == raw.tobytes()


@pytest.mark.parametrize("version", [1, 2])
def test_older_versions_are_read(version, tmp_path):
    word = "<I" if version == 1 else "<Q"

    def counted(data: bytes) -> bytes:
        return struct.pack(word, len(data)) + data

    head = b"GGUF" + struct.pack("<I", version) + 2 * struct.pack(word, 1)
    head += counted(b"k") + struct.pack("<II", 9, 8) + struct.pack(word, 2)
    head += counted(b"one") + counted(b"two")
    head += counted(b"w") + struct.pack("<I", 1) + struct.pack(word, 32) + struct.pack("<IQ", 0, 0)
    (tmp_path / "old.gguf").write_bytes(head + bytes(-len(head) % 32) + ARRAY.tobytes())
    file = GGUF(tmp_path / "old.gguf")
    assert file.keys["k"] == ["one", "two"]
    np.testing.assert_array_equal(file.value("w"), ARRAY.reshape(-1)[:32])


def test_a_large_vocabulary_is_walked_over_and_read_on_demand(tmp_path):
    words = [f"word {number}" for number in range(128_000)]
    merges = [f"wo rd{number}" for number in range(280_000)]
    write_gguf(tmp_path / "a.gguf", {}, {"tokens": words, "merges": merges})
    start = time.process_time()
    file = GGUF(tmp_path / "a.gguf")
    assert file.keys["merges"] == merges
    assert time.process_time() - start < MOST_SECONDS
    assert file.keys["tokens"] == words


def test_a_module_is_saved_and_loaded(tmp_path):
    layer, other = (ll.nn.Linear(64, 4).initialise(seed) for seed in (0, 1))
    blocks = Blocks("f16", layer.weight.value.astype(np.float16), (4, 64))
    layer.weight.set(blocks)
    layer.save(tmp_path / "layer.gguf")
    other.load(tmp_path / "layer.gguf")
    assert other.weight.blocks is not None
    np.testing.assert_array_equal(other.weight.value, blocks.value)
    np.testing.assert_array_equal(other.state_dict()["bias"], layer.state_dict()["bias"])
    halves = ll.nn.Linear(64, 4, bias=False).to("float16")
    halves.load(tmp_path / "layer.gguf", strict=False)
    np.testing.assert_array_equal(halves.weight.value, blocks.raw)
    error = error_of(lambda: ll.nn.Linear(32, 4).load(tmp_path / "layer.gguf"), InputError)
    assert "weight: is (4, 64) float32, and must be (4, 32) float32" in error.message


def test_what_gguf_does_not_have_is_refused(tmp_path):
    path = tmp_path / "a.gguf"
    error = error_of(lambda: write_gguf(path, {"m": np.zeros(2, bool)}, {}), DTypeError)
    assert error.message == "save: m is bool, which GGUF does not have"
    error = error_of(lambda: write_gguf(path, {"m": np.zeros((1,) * 5, "f4")}, {}), ShapeError)
    assert error.message == ("save: m is (1, 1, 1, 1, 1), and tensors in GGUF have 4 axes at most")
    error = error_of(lambda: write_gguf(path, {}, {"k": object()}), ArgumentError)
    assert error.message == "save: the key k is a object, and GGUF has none"
    error = error_of(lambda: write_gguf(tmp_path / "no" / "a.gguf", {}, {}), InputError)
    assert f"there is no folder {tmp_path / 'no'}" in error.message
    assert not list(tmp_path.iterdir())


# -- refused ---------------------------------------------------------------------------------------

NUMBER = struct.pack("<II", 4, 7)
HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "it has 0 bytes, which is no GGUF file"),
    "another format": (lambda: b"PNG?" + bytes(60), r"it begins with b'PNG?', and GGUF with"),
    "a later version": (lambda: file_of(version=9), "it is version 9, and 1 to 3 are known"),
    "big-endian": (
        lambda: b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
        "it is version 3 for big-endian machines",
    ),
    "10^18 tensors": (
        lambda: file_of(count=10**18),
        "it says that it has 1,000,000,000,000,000,000 tensors, and has 32 bytes",
    ),
    "10^18 keys": (
        lambda: file_of(key_count=10**18),
        "it says that it has 1,000,000,000,000,000,000 keys, and has 32 bytes",
    ),
    "many tensors": (
        lambda: file_of(count=100_000, data=bytes(2_000_000)),
        "it has 100,000 tensors, and 16,384 are the most",
    ),
    "cut off": (
        lambda: file_of(keys=text(b"k") + NUMBER, key_count=2)[:40],
        "it ends at 40 bytes, within the key 'k'",
    ),
    "a long name": (
        lambda: file_of(keys=struct.pack("<Q", 1 << 63) + bytes(64), key_count=1),
        "the name of key 1 should have 9,223,372,036,854,775,808 bytes, and 1,024 are the most",
    ),
    "a name beyond the end": (
        lambda: file_of(keys=struct.pack("<Q", 900), key_count=1),
        "it ends at 32 bytes, within the name of key 1",
    ),
    "a name that is no text": (
        lambda: file_of(keys=text(b"\xff\xfe") + NUMBER, key_count=1),
        "the name of key 1, at byte 32, is not UTF-8",
    ),
    "a key twice": (
        lambda: file_of(keys=2 * (text(b"k") + NUMBER), key_count=2),
        "the key 'k' is there twice",
    ),
    "a string of 10^18 bytes": (
        lambda: file_of(keys=text(b"k") + struct.pack("<IQ", 8, 10**18) + b"x", key_count=1),
        "it ends at 64 bytes, within the key 'k'",
    ),
    "a type that is none": (
        lambda: file_of(keys=text(b"k") + struct.pack("<II", 13, 0), key_count=1),
        "the key 'k' has the type 13, and there are 0 to 12",
    ),
    "a string beyond the end": (
        lambda: file_of(keys=text(b"k") + struct.pack("<IQ", 8, 1 << 40) + b"x", key_count=1),
        "it ends at 64 bytes, within the key 'k'",
    ),
    "strings beyond the end": (
        lambda: file_of(
            keys=text(b"k") + struct.pack("<IIQQ", 9, 8, 2, (1 << 64) - 1) + bytes(20), key_count=1
        ),
        "it ends at 96 bytes, within the key 'k', which should have 2 entries",
    ),
    "10^18 strings": (
        lambda: file_of(keys=text(b"k") + struct.pack("<IIQ", 9, 8, 10**18), key_count=1),
        "within the key 'k', which should have 1,000,000,000,000,000,000 entries",
    ),
    "very many strings": (
        lambda: file_of(
            keys=text(b"k") + struct.pack("<IIQ", 9, 8, 1 << 22) + bytes(8 << 22), key_count=1
        ),
        f"the key 'k' has 4,194,304 strings, and {MOST_STRINGS:,} are the most",
    ),
    "10^18 numbers": (
        lambda: file_of(keys=text(b"k") + struct.pack("<IIQ", 9, 12, 10**18), key_count=1),
        "within the key 'k', which should have 1,000,000,000,000,000,000 entries",
    ),
    "arrays of arrays": (
        lambda: file_of(keys=text(b"k") + struct.pack("<II", 9, 9) * 500, key_count=1),
        "the key 'k' is an array of arrays, which is not read here",
    ),
    "an alignment that is none": (
        lambda: file_of(keys=text(b"general.alignment") + struct.pack("<II", 4, 0), key_count=1),
        "the key general.alignment is 0, and no number of bytes",
    ),
    "an odd alignment": (
        lambda: file_of(keys=text(b"general.alignment") + struct.pack("<II", 4, 24), key_count=1),
        "the key general.alignment is 24, which is no power of two",
    ),
    "an alignment in words": (
        lambda: file_of(
            keys=text(b"general.alignment") + struct.pack("<I", 8) + text(b"32"), key_count=1
        ),
        "the key general.alignment is '32', and no number of bytes",
    ),
    "a tensor twice": (
        lambda: file_of(tensors=tensor() * 2, count=2, data=bytes(256)),
        "the tensor 'w' is there twice",
    ),
    "many axes": (
        lambda: file_of(tensors=tensor(sizes=(1,) * 9), count=1),
        "the tensor 'w' has 9 axes, and 8 are the most",
    ),
    "2^64 axes": (
        lambda: file_of(tensors=text(b"w") + b"\xff" * 4, count=1),
        "the tensor 'w' has 4,294,967,295 axes, and 8 are the most",
    ),
    "huge sizes": (
        lambda: file_of(tensors=tensor(sizes=(1 << 60, 1 << 60)), count=1),
        "and the tensor 'w' should have the sizes (1152921504606846976, 1152921504606846976)",
    ),
    "nothing of a huge size": (
        lambda: file_of(tensors=tensor(sizes=(0, 1 << 60)), count=1),
        "and the tensor 'w' should have the sizes (1152921504606846976, 0)",
    ),
    "a form that is none": (
        lambda: file_of(tensors=tensor(form=99), count=1, data=bytes(128)),
        "the tensor 'w' has form 99, which is not known here",
    ),
    "rows that are no blocks": (
        lambda: file_of(tensors=tensor(form=12), count=1, data=bytes(256)),
        "the tensor 'w' is q4_k, in blocks of 256, and its rows have 32 values",
    ),
    "data beyond the end": (
        lambda: file_of(tensors=tensor(), count=1, data=bytes(127)),
        "it ends at 191 bytes, and the tensor 'w' goes on to 192",
    ),
    "an offset beyond the end": (
        lambda: file_of(tensors=tensor(offset=1 << 63), count=1, data=bytes(128)),
        "and the tensor 'w' goes on to 9,223,372,036,854,776,000",
    ),
    "an offset that is not aligned": (
        lambda: file_of(tensors=tensor(offset=8), count=1, data=bytes(256)),
        "the tensor 'w' begins at 8, which is no multiple of 32",
    ),
    "tensors that overlap": (
        lambda: file_of(tensors=tensor() + tensor(b"v", offset=96), count=2, data=bytes(512)),
        "the tensor 'v' and 'w' overlap",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_not_whole_is_refused(name, tmp_path):
    make, said = HOSTILE[name]
    data, path = make(), tmp_path / "a.gguf"
    tracemalloc.start()
    start = time.process_time()
    error = refusal(path, data)
    seconds, (_, peak) = time.process_time() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert error.message.startswith(f"open: {path}: ")
    assert said in error.message
    assert error.hint
    assert seconds < MOST_SECONDS
    assert peak < MOST_MB << 20


def test_a_value_that_is_no_text_is_named_when_it_is_read(tmp_path):
    path = tmp_path / "a.gguf"
    keys = text(b"k") + struct.pack("<IIQ", 9, 8, 2) + text(b"a") + text(b"\xff")
    path.write_bytes(file_of(keys=keys, key_count=1))
    error = error_of(lambda: GGUF(path).keys["k"], InputError)
    assert error.message == f"open: {path}: entry 1 of the key 'k' is not UTF-8"


def test_a_form_that_is_not_read_is_named_when_it_is_read(tmp_path):
    path = tmp_path / "a.gguf"
    path.write_bytes(file_of(tensors=tensor(sizes=(256,), form=16), count=1, data=bytes(66)))
    file = GGUF(path)
    assert file.tensors["w"].form == "iq2_xxs"
    error = error_of(lambda: file.value("w"), InputError)
    assert error.message == f"open: {path}: 'w' is iq2_xxs, a form that is not read here"
    assert error.hint.startswith("the forms that are: f16, bf16, q4_0")
    assert error_of(lambda: file.value("v"), InputError).message == (
        f"open: {path}: there is no tensor 'v'"
    )


def test_what_is_not_there_is_said(tmp_path):
    error = error_of(lambda: GGUF(tmp_path / "none.gguf"), InputError)
    assert error.message == (
        f"open: {tmp_path / 'none.gguf'}: it cannot be read: No such file or directory"
    )
    assert "cannot be read" in error_of(lambda: GGUF(tmp_path), InputError).message


# -- mutants ---------------------------------------------------------------------------------------


def mutated(drawn: random.Random, data: bytes) -> bytes:
    """Return a file with a few changes: bytes, whole numbers, cuts, and parts put elsewhere."""
    mutant, head = bytearray(data), 1200
    for _ in range(drawn.randint(1, 4)):
        at = drawn.randrange(min(len(mutant), drawn.choice([head, len(data)])))
        match drawn.randrange(6):
            case 0:
                mutant[at] = drawn.randrange(256)
            case 1:
                mutant[at] ^= 1 << drawn.randrange(8)
            case 2:
                size = drawn.choice([4, 8])
                number = drawn.choice([0, 1, (1 << 8 * size) - 1, 1 << (8 * size - 1), 1 << 20, 9])
                mutant[at : at + size] = number.to_bytes(size, "little")
            case 3:
                del mutant[drawn.randrange(24, len(mutant)) :]
            case 4:
                del mutant[at : at + drawn.randint(1, 16)]
            case _:
                begin = drawn.randrange(len(mutant))
                mutant[at:at] = mutant[begin : begin + drawn.randint(1, 64)]
        if len(mutant) < 25:
            break
    return bytes(mutant)


@pytest.mark.sweep
def test_a_mutated_file_is_refused_or_read(tmp_path, seed: int, long: bool):
    count = 10_000 if long else 300
    whole, path = written(tmp_path / "a.gguf").read_bytes(), tmp_path / "mutant.gguf"
    found = {"refused": 0, "read": 0}
    for case in range(count):
        data = mutated(random.Random(f"{seed} {case}"), whole)
        path.write_bytes(data)
        tracemalloc.start()
        start = time.process_time()
        try:
            file = GGUF(path)
            dict(file.keys)
            for name in file.tensors:
                value = file.value(name)
                size = value.value.nbytes if isinstance(value, Blocks) else value.nbytes
                assert size <= 64 * len(data)
            found["read"] += 1
        except InputError as refused:
            said = str(refused)
            assert str(path) in said, f"--seed {seed}, case {case}"
            assert "hint: " in said, f"--seed {seed}, case {case}"
            assert len(said) < 1_000, f"--seed {seed}, case {case}"
            assert not UNSEEN.search(said), f"--seed {seed}, case {case}"
            found["refused"] += 1
        except Exception as error:
            error.add_note(f"--seed {seed}, case {case}")
            raise
        finally:
            (_, peak) = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert time.process_time() - start < MOST_SECONDS, f"--seed {seed}, case {case}"
        assert peak < max(64 * len(data), 1 << 20), f"--seed {seed}, case {case}"
    assert found["refused"] > count // 5
    assert found["read"] > count // 20
