"""Recordings: what is in a file, what is not, and what is said of one that cannot be read."""

import json
import random
import re
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, RecordingError
from luminal_lab.io import recording
from luminal_lab.io.recording import LIMIT, MAGIC, SCHEMA, contents_of, recording_bytes
from luminal_lab.passes.pipeline import PassLike
from tests.io.recorded import again, written

GOLDEN = Path(__file__).parent / "golden"


def graph(*passes: PassLike) -> ll.Graph:
    cx = ll.Graph("scores")
    x = cx.tensor((2, 3), name="x")
    with cx.scope("head"):
        (x * 1 + 0).softmax(-1).named("p").retrieve()
    cx.compile(*passes)
    return cx


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A recording of a small compile."""
    path = tmp_path_factory.mktemp("recording") / "run.lab"
    graph("simplify, dce").save(path)
    return path.read_bytes()


def document(data: bytes) -> dict:
    return json.loads(zlib.decompress(data.partition(b"\n")[2]))


def packed(document: object, schema: int = SCHEMA) -> bytes:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return MAGIC + str(schema).encode() + b"\n" + zlib.compress(body)


def refusal(data: bytes, **how: int) -> str:
    """Return what is said of a file that is refused, which has one hint."""
    with pytest.raises(RecordingError) as caught:
        contents_of(data, "run.lab", **how)
    assert caught.value.hint
    assert "\n" not in caught.value.message
    return caught.value.message


# -- as a session does it --------------------------------------------------------------------------


def test_a_compile_comes_back_with_all_its_texts(tmp_path):
    cx = graph()
    cx.save(tmp_path / "run.lab")
    run = ll.open(tmp_path / "run.lab")
    assert [str(one.ir) for one in run.snapshots] == [str(one.ir) for one in cx.snapshots]
    assert [str(one) for one in run.snapshots] == [str(one) for one in cx.snapshots]
    assert str(run.diff()) == str(ll.diff(cx.snapshots[0].ir, cx.snapshots[-1].ir))
    for old, new in zip(cx.snapshots, run.snapshots, strict=True):
        assert [str(ir) for ir in new.steps()] == [str(ir) for ir in old.steps()]
    # All but the folder of this file, which stays here.
    assert str(run.trace("%p")).splitlines()[1:] == str(cx.trace("%p")).splitlines()[1:]
    assert "test_recording.py" in str(run.trace("%p"))


def test_a_graph_that_was_not_compiled_is_kept_as_written(tmp_path):
    cx = ll.Graph("twice")
    (cx.tensor((2,), name="x") * 2).retrieve()
    cx.save(tmp_path / "run.lab")
    run = ll.open(tmp_path / "run.lab")
    assert str(run.ir) == str(cx.ir)
    assert repr(run) == "<Opened run.lab: twice, 3 nodes, not compiled>"


def test_an_op_that_is_not_defined_where_it_is_opened_keeps_its_line():
    text = "graph g(%x: f32[2]) -> (%y) {\n  %y = sin %x : f32[2]\n}"
    found = document(recording_bytes([written(ll.parse(text))]))
    place = found["texts"].index("sin")
    found["texts"][place] = 'swirl{axis = 1, how = "fast"}'
    ir = contents_of(packed(found), "run.lab").subjects[0].snapshots[0].ir
    assert str(ir) == text.replace("sin", 'swirl{axis = 1, how = "fast"}')
    assert ir["y"].op.name == "swirl"
    with pytest.raises(ll.DefinitionError, match="swirl: nobody has defined this op here"):
        ir["y"].op.eval(np.ones(2))


# -- values ----------------------------------------------------------------------------------------


def test_no_value_is_in_a_file_unless_it_is_asked_for(tmp_path):
    number = float("1234567") / 8  # as no line of this file has it
    word = "".join(["secr", "et"])
    cx = ll.Graph("g")
    x = cx.tensor((2, 2), name="x").set(np.full((2, 2), number))
    weight = ll.Parameter((2, 2), name="w")
    weight.set(np.full((2, 2), number + 1))
    hidden = {"key": word * 3}
    y = cx.function(lambda a: a + len(hidden["key"]), x @ cx.parameter(weight), shape=(2, 2))
    y.retrieve()
    cx.compile()
    cx.execute()
    cx.save(tmp_path / "run.lab", cx.time(rounds=1, warm_up=0))
    data = (tmp_path / "run.lab").read_bytes()
    text = zlib.decompress(data.partition(b"\n")[2]).decode()
    assert str(number) not in text
    assert str(number + 1) not in text
    assert word * 3 not in text
    assert np.float32(number).tobytes() not in data
    cx.save(tmp_path / "run.lab", values=True)
    values = ll.open(tmp_path / "run.lab").values
    assert float(values["x"][0, 0]) == number
    assert (values["w"] == number + 1).all()
    with pytest.raises(ValueError, match="read-only"):
        values["x"][0, 0] = 1


def test_values_of_all_dtypes_come_back(tmp_path):
    cx = ll.Graph("g")
    kinds = [dtype for dtype in ll.DType if dtype != "bool"]
    for dtype in kinds:
        cx.tensor((2, 0, 3), dtype, name=f"empty_{dtype}").set(np.zeros((2, 0, 3))).retrieve()
        cx.tensor((3,), dtype, name=f"in_{dtype}").set([1, 2, 3]).retrieve()
    cx.save(tmp_path / "run.lab", values=True)
    values = ll.open(tmp_path / "run.lab").values
    for dtype in kinds:
        assert values[f"in_{dtype}"].dtype == dtype.numpy
        assert values[f"in_{dtype}"].tolist() == [1, 2, 3]
        assert values[f"empty_{dtype}"].shape == (2, 0, 3)


def test_no_folder_of_this_machine_is_in_a_file(data):
    text = json.dumps(document(data))
    assert str(Path(__file__).parent) not in text
    assert "test_recording.py" in text


def test_the_cells_can_be_left_out(tmp_path):
    graph().save(tmp_path / "run.lab", cells=False)
    assert ll.open(tmp_path / "run.lab").facts.cells == ()
    with pytest.raises(ArgumentError, match="save: cells is 'no'"):
        graph().save(tmp_path / "run.lab", cells="no")  # pyright: ignore[reportArgumentType]  # a caller may err


# -- schemas ---------------------------------------------------------------------------------------


def test_the_first_schema_is_still_read():
    run = ll.open(GOLDEN / "schema1.lab")
    said = [str(run.written), *(str(one) for one in run.snapshots), str(run.ir)]
    said += [str(firing) for one in run.snapshots for firing in one.firings]
    said += [kernel.definition for kernel in run.facts.kernels]
    assert "\n".join(said) + "\n" == (GOLDEN / "schema1.txt").read_text(encoding="utf-8")


def test_an_older_schema_goes_through_the_table_of_migrations(data, monkeypatch):
    monkeypatch.setattr(recording, "SCHEMA", 2)
    monkeypatch.setattr(recording, "MIGRATIONS", {1: lambda old: {**old, "date": "2001"}})
    assert contents_of(data, "run.lab").date == "2001"


def test_a_newer_schema_is_refused(data):
    newer = data.replace(b"recording 1\n", b"recording 2\n", 1)
    assert refusal(newer) == (
        "recording run.lab: its schema is 2, and this version of luminal_lab reads 1 and older ones"
    )


# -- files that are none ---------------------------------------------------------------------------


def test_what_is_no_recording_is_refused(data):
    assert refusal(b"") == "recording run.lab: the file is empty"
    assert refusal(b"PK\x03\x04 a zip") == (
        "recording run.lab: this is not a recording: it begins with 'PK\\x03\\x04 a zip'"
    )
    assert refusal(MAGIC + b"one\n") == (
        "recording run.lab: it is damaged: its first line has no schema"
    )
    assert refusal(data[:-9]) == "recording run.lab: it is cut off: its end is missing"
    assert "incorrect data check" in refusal(data[:-1] + bytes([data[-1] ^ 1]))
    assert refusal(data + b"more") == "recording run.lab: it is damaged: 4 bytes come after its end"


def test_what_becomes_too_large_is_refused_before_it_does(data):
    bomb = packed(b" " * (1 << 24))
    assert len(bomb) < 20_000
    told = refusal(bomb, limit=1 << 20)
    assert told.startswith("recording run.lab: it becomes more than 1,048,576 bytes")
    assert LIMIT == 1 << 27
    assert refusal(data, limit=100).startswith("recording run.lab: it becomes more than 100 bytes")


def test_deep_and_strange_json_is_refused(data):
    for body in (b"[" * 100_000, b"{}", b"[]", b'{"schema": NaN}', b'{"schema": 1}', b"\xff", b"1"):
        assert refusal(packed(body)).startswith("recording run.lab: it is damaged: ")
    assert refusal(packed({**document(data), "schema": 7})) == (
        "recording run.lab: it is damaged: its first line and its contents have two schemas"
    )


def places(value: object, path: tuple = ()):
    """Yield the ways to all parts of a document; of long lists to the first and the last."""
    yield path
    parts = value.items() if isinstance(value, dict) else []
    if isinstance(value, list):
        parts = list(enumerate(value))
        parts = parts if len(parts) < 4 else [parts[0], parts[1], parts[-1]]
    for key, part in parts:
        yield from places(part, (*path, key))


STRANGE = [None, True, -1, 1 << 62, 0.5, "", "%x", [], [[]], {}, {"a": 1}]


def test_wrong_types_and_numbers_anywhere_are_refused_with_one_sentence(data):
    found = document(data)
    ways = list(places({**found, "texts": found["texts"][:3]}))
    assert len(ways) > 300
    drawn = random.Random(1)
    refused = 0
    for way in drawn.sample(ways[1:], 60):
        broken = document(data)
        part = broken
        for key in way[:-1]:
            part = part[key]
        part[way[-1]] = drawn.choice(STRANGE)
        with suppress(RecordingError):
            contents_of(packed(broken), "run.lab")
            continue
        refused += refusal(packed(broken)).startswith("recording run.lab: it is damaged: ")
    assert refused > 40  # the others put a text for a text, or what means the same


def test_bytes_that_are_changed_or_cut_off_are_refused(data):
    drawn = random.Random(2)
    for _ in range(300):
        broken = bytearray(data)
        for _ in range(drawn.randint(1, 4)):
            broken[drawn.randrange(len(broken))] = drawn.randrange(256)
        del broken[drawn.choice([len(broken), drawn.randrange(len(broken))]) :]
        if bytes(broken) == data:
            continue
        with pytest.raises(RecordingError):
            contents_of(bytes(broken), "run.lab")


def test_a_graph_that_breaks_a_law_is_refused():
    ir = ll.parse("graph g(%x: f32[2]) -> (%y) {\n  %y = sin %x : f32[2]\n}")
    found = document(recording_bytes([written(ir)]))
    rows = found["subjects"][0]["rows"]
    rows["reads"][1] = [-3]
    assert refusal(packed(found)) == (
        "recording run.lab: it is damaged: the file.subjects[0].snapshots[0]: g, %y: its source 4 "
        "is not in the graph"
    )
    rows["reads"][1] = [0]
    assert "it depends on itself" in refusal(packed(found))


def test_what_no_memory_holds_is_refused():
    ir = ll.parse("graph g(%x: f32[2]) -> (%y) {\n  %y = sin %x : f32[2]\n}")
    found = document(recording_bytes([written(ir)]))
    subject = found["subjects"][0]
    subject["graphs"][0]["size"] = 9_999_999
    subject["snapshots"] *= 1_000
    assert "graphs that no memory holds" in refusal(packed(found))


def test_what_a_terminal_would_obey_and_what_no_encoding_holds_comes_back_spelled():
    ir = ll.parse("graph g(%x: f32[2]) -> (%x) {\n}")
    before = written(ir)
    (after,) = again(
        type(before)("a \ud800 b\x1b[2J\x9b \u202e</script>\té", before.snapshots)
    ).subjects
    assert after.title == r"a \ud800 b\u001b[2J\u009b \u202e</script>" + "\té"


# -- writing ---------------------------------------------------------------------------------------


def test_nothing_is_not_kept():
    with pytest.raises(ArgumentError, match="recording: there is nothing to keep"):
        recording_bytes([])


def test_times_that_were_measured_are_recorded_when_opened(tmp_path):
    cx = ll.Graph("g")
    (cx.tensor((64,), name="x").set(np.ones(64)) * 2).retrieve()
    cx.compile(ll.CPUCompiler())
    cx.save(tmp_path / "run.lab", cx.time(rounds=2))
    (time,) = ll.open(tmp_path / "run.lab").facts.times
    assert time.how == "recorded"
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d", time.note)
