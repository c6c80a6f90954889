"""What files may ask for: bytes, depth, memory; and that what others wrote is shown, not obeyed."""

import ast
import io
import json
import struct
import zlib
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from time import monotonic

import pytest

import luminal_lab as ll
from luminal_lab import cli
from luminal_lab.course.grading import ExerciseResult, Results
from luminal_lab.errors import UNSEEN, InputError, LabError, LabWarning, RecordingError, visible
from luminal_lab.io.recording import MAGIC, contents_of, recording_bytes
from luminal_lab.reading import DEEPEST_JSON, read_json, read_plain, room, shown
from luminal_lab.tables import frame
from tests.counting import peak, steps
from tests.io.recorded import written
from tests.needs import need

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m \u202egpj.exe\u2066 a\u200bb \rover\x00\x7f\ud800\U000e0041"
GRAPH = "graph g(%x: f32[2]) -> (%y) {\n  %y = sin %x : f32[2]\n}"


def document() -> dict:
    data = recording_bytes([written(ll.parse(GRAPH))])
    return json.loads(zlib.decompress(data.partition(b"\n")[2]))


def file_of(body: bytes, level: int = 9) -> bytes:
    return MAGIC + b"1\n" + zlib.compress(body, level)


# -- JSON ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [b"[],", b"{},", b"[[]],", b'{"":{}},', b"0,", b'"ab",', b"1.5,"])
@pytest.mark.parametrize("size", [20_000, 130_000])
def test_a_small_file_takes_little_memory(part: bytes, size: int):
    """What 130 kB of lists were once: 3.3 GB."""
    count = 200 * size // len(part)  # deflate makes some 1,000 bytes of one
    data = file_of(b'{"schema":1,"texts":[' + part * count + b"0]}")
    assert len(data) < size

    def refused() -> None:
        with pytest.raises(RecordingError, match=r"would take|becomes more than|it is damaged"):
            contents_of(data, "run.lab")

    assert peak(refused) < 1.5 * room(len(data))
    assert room(len(data)) == 64 << 20


COLUMNS = {
    "rows": ("rows", {"id": 0, "op": 0, "type": 1, "meta": 0, "reads": []}),
    "metas": ("metas", {"name": 0, "origin": -1, "scope": 0, "rule": -1, "parents": []}),
}


@pytest.mark.parametrize("what", COLUMNS)
def test_a_file_of_many_small_rows_takes_little_memory(what: str):
    found = document()
    place, row = COLUMNS[what]
    for name, value in row.items():
        found["subjects"][0][place][name] += [value] * 400_000
    data = file_of(json.dumps(found, separators=(",", ":")).encode())

    def look() -> None:
        with pytest.raises(RecordingError, match=r"would take|it is damaged"):
            contents_of(data, "run.lab")

    assert peak(look) < 2 * room(len(data))


def test_what_is_written_is_read_however_well_it_is_compressed():
    ir = ll.parse("graph g(%x: f32[2]) -> (%x) {\n}")
    some = written(ir)
    title = "x" * (room(1) // 2)
    (after,) = contents_of(recording_bytes([type(some)(title, some.snapshots)]), "run.lab").subjects
    assert after.title == title


def test_depth_and_numbers_have_limits():
    assert read_json("[" * DEEPEST_JSON + "]" * DEEPEST_JSON) is not None
    for text, said in {
        "[" * 65 + "]" * 65: "nested more than 64 deep",
        "[" * 100_000: "nested too deep",
        "[1e999]": "1e999 is too large for a number",
        "[NaN]": "NaN is not a number",
        "[1": "Expecting ',' delimiter",
        "9" * 5_000: "Exceeds the limit",
    }.items():
        with pytest.raises(ValueError, match=said):
            read_json(text)
    with pytest.raises(ValueError, match="byte 2 is not UTF-8"):
        read_json(b"[1\xff]")
    assert read_json('["[[{", "\\"]"]') == ["[[{", '"]']


def test_a_string_that_is_not_closed_is_gone_through_once():
    begin = monotonic()
    for text in ('"' + '\\"' * 1_000_000, '["' + "\\" * 1_000_001):
        with pytest.raises(ValueError, match="Unterminated string"):
            read_json(text)
    assert monotonic() - begin < 30  # what 40 kB took once


def test_counting_takes_little_memory_itself():
    text = '{"a":' * 1_000_000

    def refused() -> None:
        with pytest.raises(ValueError, match="would take"):
            read_json(text, 1 << 26)

    assert peak(refused) < 4 * len(text)


def test_counting_is_linear():
    small, large = (steps(lambda n=n: read_json("[" + "[1],{}," * n + "0]")) for n in (500, 1_000))
    # All of it is done by C, which goes over the text some times; what else is garbage of others.
    assert large < 1.5 * small


def test_only_plain_files_are_read(tmp_path: Path):
    (tmp_path / "large").write_bytes(b"x" * 100)
    for path, said in {
        tmp_path: "it is a folder",
        tmp_path / "large": "it has more than 10 bytes",
        Path("/dev/zero"): "it is not a plain file",
    }.items():
        with pytest.raises(OSError, match=said):
            read_plain(path, 10)
    (tmp_path / "small").write_bytes(b"x" * 100)
    assert peak(lambda: read_plain(tmp_path / "small")) < 1 << 18
    assert shown([[[[1]]]] * 99) == "[[[[…]]], [[[…]]], [[[…]]], [[[…]]], …"


@pytest.mark.needs("safetensors")
@pytest.mark.parametrize(
    "offsets", ['["a", "b"]', "[0, null]", "[0, 1.5]", "[[], {}]", "7", '"ab"']
)
def test_weights_with_odd_offsets_are_refused(offsets: str, tmp_path: Path):
    header = f'{{"w": {{"dtype": "F32", "shape": [1], "data_offsets": {offsets}}}}}'.encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 4)
    with pytest.raises(InputError, match="is not a complete safetensors file"):
        ll.nn.Linear(1, 1).load(path)


# -- logs ------------------------------------------------------------------------------------------


def test_a_snapshot_has_its_place():
    found = document()
    found["subjects"][0]["snapshots"][0]["index"] = 7
    with pytest.raises(RecordingError, match=r"snapshots\[0\].index is 7, and not 0"):
        contents_of(file_of(json.dumps(found).encode()), "run.lab")


def test_a_snapshot_begins_with_the_nodes_that_the_last_one_left():
    found = document()
    subject = found["subjects"][0]
    rows = subject["graphs"][0]
    subject["signatures"].append([[0], [0], [], []])
    subject["graphs"].append({**rows, "rows": rows["rows"][:1], "signature": 1, "size": 1})
    subject["snapshots"].append({**subject["snapshots"][0], "index": 1, "before": 1})
    with pytest.raises(RecordingError, match="begins with other nodes than the one before it left"):
        contents_of(file_of(json.dumps(found).encode()), "run.lab")


def test_graphs_that_come_and_go_are_not_looked_at_without_end():
    found = document()
    subject = found["subjects"][0]
    one = subject["snapshots"][0]
    subject["graphs"].append({**subject["graphs"][0], "size": 9})
    subject["snapshots"] = [
        {**one, "index": k, "before": k % 2, "after": 1 - k % 2} for k in range(40)
    ]
    few = steps(lambda: contents_of(file_of(json.dumps(found).encode()), "run.lab"))
    subject["snapshots"] = [
        {**one, "index": k, "before": k % 2, "after": 1 - k % 2} for k in range(80)
    ]
    many = steps(lambda: contents_of(file_of(json.dumps(found).encode()), "run.lab"))
    assert many < 2.3 * few


# -- what a terminal obeys -------------------------------------------------------------------------


def test_what_a_terminal_would_obey_is_spelled():
    assert not UNSEEN.search(visible(EVIL))
    assert visible("a\tb\nc\r\nd é 😀 שלום") == "a\tb\nc\r\nd é 😀 שלום"
    assert json.loads(visible(json.dumps(EVIL, ensure_ascii=False))) == EVIL
    assert visible(visible(EVIL)) == visible(EVIL)


def hostile() -> bytes:
    """Return a recording that has odd letters in each text that may have some."""
    found = document()
    texts = found["texts"]
    subject = found["subjects"][0]
    subject["title"] = found["made"] = found["date"] = f"run {EVIL}"
    subject["snapshots"][0]["title"] = f"written {EVIL}"
    texts += [f"cell {EVIL}", f"y = {EVIL}", f"rule {EVIL}"]
    subject["origins"] = [[len(texts) - 3, 1, len(texts) - 2]]
    subject["metas"]["origin"] = [0] * len(subject["metas"]["origin"])
    subject["metas"]["rule"] = [len(texts) - 1] * len(subject["metas"]["rule"])
    subject["facts"]["environment"] = {EVIL: EVIL}
    return file_of(json.dumps(found).encode())


def test_nothing_of_a_recording_reaches_a_terminal_unspelled(tmp_path: Path):
    path = tmp_path / "run\x1b[2J.lab"
    path.write_bytes(hostile())
    run = ll.open(path)
    shown = [str(run), repr(run), run.title, run.display().text, str(run.trace("%y"))]
    shown += [str(run.why("%y")), str(run.compilation), repr(run.facts)]
    for how in ((), ("--json",), ("--text",)):
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(out):
            assert cli.main(["open", str(path), *how]) == 0 if how else True
        shown.append(out.getvalue())
    assert not [text for text in shown if UNSEEN.search(text)]
    assert any(r"\u001b[2J" in text for text in shown)
    need("pandas")
    assert not UNSEEN.search(str(run.to_pandas()))


def test_the_text_of_a_graph_keeps_its_origins_and_shows_them_spelled():
    place = json.dumps(f"model{EVIL}.py")
    text = GRAPH.replace("f32[2]\n}", f"f32[2] @ 1 {place}:3 {json.dumps(EVIL)} via {place}(0)\n}}")
    ir = ll.parse(text)
    assert ir["y"].meta.origin is not None
    assert ir["y"].meta.origin.text == EVIL
    assert not UNSEEN.search(f"{ir['y'].meta.origin}{ir.text(origins=True)}")


def test_errors_warnings_tables_and_results_are_spelled():
    error = LabError(f"a {EVIL}", where=EVIL, hint=EVIL)
    error.add_note(EVIL)
    results = Results(
        ("01.1",), {f"ann {EVIL}": {"01.1": ExerciseResult("right")}}, (f"note {EVIL}",)
    )
    for text in (str(error), error._render_traceback_()[0], str(LabWarning(EVIL)), str(results)):
        assert not UNSEEN.search(text)
    need("pandas")
    assert not UNSEEN.search(str(frame("t", ["name"], [[EVIL]])["name"][0]))


def test_commands_print_in_one_place():
    for path in Path(cli.__file__).parent.glob("*.py"):
        calls = [
            node.lineno
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ]
        assert not calls or path.name == "saying.py", path
