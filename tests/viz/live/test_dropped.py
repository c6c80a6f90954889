"""Files that are dropped onto a live picture: in pieces, opened as more runs, or refused."""

from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

import luminal_lab as ll
from tests.importing.test_contents import TINY, onnx_file
from tests.needs import need
from tests.viz.live.test_replies import Page

PIECE = 1000


@pytest.fixture
def page() -> Page:
    cx = ll.Graph("first")
    (cx.tensor((2,), name="x") * 1).retrieve()
    cx.compile("simplify, dce")
    return Page(cx.workbench())


def dropped(page: Page, name: str, data: bytes) -> dict[str, Any]:
    """Return the answer to the last piece of a file."""
    reply: dict[str, Any] = {}
    for at in range(0, max(len(data), 1), PIECE):
        body = {"name": name, "size": len(data), "at": at, "data": data[at : at + PIECE]}
        reply = page.replies.answer({"ask": "drop", **body})
    return reply


def recording(folder: Path) -> bytes:
    cx = ll.Graph("other")
    (cx.tensor((3,), name="x") * 2 + 0).retrieve()
    cx.compile("simplify, dce")
    cx.save(folder / "run.lab")
    return (folder / "run.lab").read_bytes()


def test_a_recording_opens_beside_what_is_on_show(page, tmp_path):
    data = recording(tmp_path)
    assert len(data) > PIECE
    reply = dropped(page, "C:\\runs\\run.lab", data)
    assert reply == {"run": 1, "text": "run.lab is open beside the others: other"}
    assert page.titles == ["first", "other"]


def test_weights_open_and_can_be_looked_at(page, tmp_path):
    need("safetensors")
    ll.nn.Linear(2, 3).initialise(1).save(tmp_path / "w")
    run = dropped(page, "head.safetensors", (tmp_path / "w").read_bytes())["run"]
    assert page.titles == ["first", "head"]
    (bias, _) = page.bench.subjects[run].snapshots[0].ir
    assert page.ask("values", run=run, id=bias.id)["text"].startswith("3 numbers")


def test_what_is_no_model_is_told_by_its_name_and_forgotten(page):
    reply = dropped(page, "notes.txt", b"hello")
    told = "open: notes.txt is nothing that is known here: it begins with b'hello'\nhint: "
    assert reply["error"].startswith(told)
    assert page.shown == []
    assert page.replies._dropped is None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"at": 5, "data": b"x"}, "a piece without its beginning"),
        ({"at": 0, "name": "a", "size": 0, "data": b""}, "a has 0 bytes"),
        ({"at": 0, "name": "a", "size": 1 << 40, "data": b"x"}, "a has 1,099,511,627,776 bytes"),
        ({"at": 0, "name": "a", "size": 9, "data": "text"}, "there are no bytes"),
        ({"at": 0, "name": "a", "size": 1, "data": b"xx"}, "a piece of a was lost"),
        ({"at": 0, "name": 7, "size": 1, "data": b"x"}, "nothing answers a question"),
    ],
)
def test_questions_that_no_page_asks(page, body, why):
    assert why in page.replies.answer({"ask": "drop", **body})["error"]


def test_a_piece_that_was_lost_and_a_file_begun_anew(page, tmp_path):
    data = recording(tmp_path)
    begin = {"ask": "drop", "name": "run.lab", "size": len(data), "at": 0, "data": data[:PIECE]}
    assert page.replies.answer(begin) == {}
    late = {**begin, "at": 2 * PIECE, "data": data[2 * PIECE : 3 * PIECE]}
    assert "a piece of run.lab was lost" in page.replies.answer(late)["error"]
    assert dropped(page, "run.lab", data)["run"] == 1


def test_a_program_that_would_be_unpickled_leads_to_the_command_line(page, tmp_path):
    need("torch")
    with ZipFile(tmp_path / "net.pt2", "w") as archive:
        archive.writestr("net/archive_format", "pt2")
    reply = dropped(page, "net.pt2", (tmp_path / "net.pt2").read_bytes())
    assert "net.pt2: an exported program, which PyTorch unpickles" in reply["error"]
    assert "hint: if you know who wrote it: luminal-lab open net.pt2 --trust" in reply["error"]
    assert page.shown == []


def test_an_error_names_no_line(page, tmp_path):
    path = onnx_file(tmp_path, TINY)
    reply = dropped(page, "own.onnx", path.read_bytes())
    assert "only ONNX's own ops are known\nhint: " in reply["error"]
