"""`luminal-lab open` and `export`: what is said, what is served and to whom, what is written."""

import http.client
import json
import os
import signal
import socket

import pytest

import luminal_lab as ll
from luminal_lab.cli import open as opening, serving
from luminal_lab.cli.serving import Serving
from luminal_lab.errors import ArgumentError, RecordingError
from luminal_lab.viz.live.export import page_of
from tests.cli.asking import ask, recording, started
from tests.expect import error_of
from tests.needs import need
from tests.viz.searches import of_a_program

PAGE = b"<!doctype html><title>run</title>"


@pytest.fixture
def run_lab(tmp_path):
    """A recording."""
    return recording(tmp_path / "run.lab")


def test_a_recording_is_told(capsys, run_lab):
    status, out, err = ask(capsys, "open", run_lab, "--text")
    assert (status, err) == (0, "")
    assert "twice, 5 → 3 nodes; 2 passes, 3 firings" in out
    assert "1  simplify" in out
    status, out, err = ask(capsys, "open", run_lab.with_name("rum.lab"))
    assert (status, out) == (2, "")
    assert err.endswith("there is no such file\nhint: did you mean 'run.lab'?\n")


def test_a_model_that_is_not_there_is_no_recording(capsys, tmp_path):
    status, _, err = ask(capsys, "open", tmp_path / "model.onnx")
    assert status == 2
    assert err.startswith(f"open: there is no {tmp_path / 'model.onnx'}\nhint: the current folder")


@pytest.mark.parametrize(
    ("command", "of"),
    [
        (["open"], "open: {path} is"),
        (["open", "--text"], "open: {path} is"),
        (["open", "--json"], "open: {path} is"),
        (["trace"], "trace: {path} is"),
        (["trace", "--trust"], "trace: {path} is"),
        (["export"], "recording g.ir: this is"),
        (["serve", "--port", "0"], "serve: {path} is"),
        (["models", "inspect"], "inspect: {path} is"),
    ],
)
def test_a_graph_as_text_is_for_another_command(capsys, tmp_path, monkeypatch, command, of):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "g.ir"
    path.write_text("# run: dce\ngraph g(%x: f32[4]) -> (%x) {\n}\n", encoding="utf-8")
    assert ask(capsys, *command, path) == (
        2,
        "",
        f"{of.format(path=path)} a graph as text: it holds the steps of a computation alone\n"
        "hint: luminal-lab run FILE prints what passes make of it; in a notebook, "
        "ll.compile_ir(ll.parse(text)) shows it\n",
    )
    assert ask(capsys, "run", path)[0] == 0
    with pytest.raises(RecordingError, match=r"^recording g\.ir: this is a graph as text"):
        ll.open(path)


def test_a_recording_is_told_to_programs(capsys, run_lab):
    status, out, _ = ask(capsys, "open", run_lab, "--json")
    found = json.loads(out)
    assert (status, found["format"], found["file"]) == (0, 1, "run.lab")
    assert found["parts"] == [
        {
            "title": "twice",
            "passes": "(simplify, dce)",
            "nodes": [5, 3],
            "snapshots": 3,
            "firings": 3,
            "kernels": [],
            "launches": 0,
            "candidates": 0,
            "times": [],
        }
    ]


def test_a_search_is_told(capsys, tmp_path):
    search = of_a_program(12)
    search.save(tmp_path / "s.lab")
    status, out, err = ask(capsys, "open", tmp_path / "s.lab", "--text")
    assert (status, err) == (0, "")
    assert f"search of head, recorded: {len(search.candidates)} candidates" in out
    _, out, _ = ask(capsys, "open", tmp_path / "s.lab", "--json")
    assert json.loads(out)["parts"][0]["candidates"] == len(search.candidates)


@pytest.mark.needs("script")
def test_a_recording_is_written_as_a_page(capsys, run_lab, monkeypatch):
    page = run_lab.with_name("page.html")
    assert ask(capsys, "export", run_lab, "-o", page) == (0, f"written to {page}\n", "")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    monkeypatch.chdir(run_lab.parent)
    assert ask(capsys, "export", "run.lab", "--theme", "dark") == (0, "written to run.html\n", "")
    assert 'data-theme="dark"' in run_lab.with_suffix(".html").read_text(encoding="utf-8")
    assert ask(capsys, "export", "run.lab", "-o", "no/page.html")[2] == (
        "export: no/page.html cannot be written: there is no folder no\n"
        "hint: make it first, or give another file\n"
    )
    assert ask(capsys, "export", "run.lab", "-o", "page.pdf")[0] == 2


def asked(served, path=None, host=None, method="GET", body=None):
    """Return the status and the body of a request."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    headers = {"Host": host or f"127.0.0.1:{served.port}"}
    connection.request(method, served.path if path is None else path, body, headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def test_only_the_page_is_served_and_only_under_its_address():
    with Serving(PAGE) as served:
        assert asked(served) == (200, PAGE)
        assert asked(served, method="HEAD") == (200, b"")
        assert asked(served, host=f"localhost:{served.port}") == (200, PAGE)
        for path in ("/", served.path[:-2] + "/", f"{served.path}../", "/favicon.ico", "//x/"):
            assert asked(served, path) == (404, b"")
        assert asked(served, host=f"example.org:{served.port}") == (404, b"")
        assert asked(served, method="POST", body=b"{}\n") == (404, b"")  # nobody answers
        assert asked(served, method="PUT")[0] == 501
        other = Serving(PAGE)
        assert other.path != served.path
        other._server.server_close()


@pytest.fixture
def live():
    cx = ll.Graph("twice")
    (cx.tensor((2,), name="x").set([1, 2]) * 2 + 0).named("y").retrieve()
    cx.compile("simplify, dce")
    return cx.workbench()


def told(served, question, data=b""):
    """Return the answer to a question of the page's."""
    status, body = asked(served, method="POST", body=json.dumps(question).encode() + b"\n" + data)
    assert status == 200
    return json.loads(body)


def test_a_live_page_is_answered_at_its_own_address(live, run_lab):
    with Serving(live.served_page().encode(), live=live) as served:
        page = asked(served)[1].decode()
        assert "data-served" in page
        assert "connect-src &#x27;self&#x27;" in page or "connect-src 'self'" in page
        assert "data-served" not in page_of(live._exported("auto"))
        assert asked(served, f"{served.path}data") == (200, live.data)
        node = live.stage.ir.outputs[0].id
        assert told(served, {"ask": "values", "id": node})["text"].startswith("2 numbers")
        data = run_lab.read_bytes()
        piece = {"ask": "drop", "name": "run.lab", "size": len(data), "at": 0}
        reply = told(served, piece, data)
        assert (reply["run"], reply["changed"]) == (1, True)
        assert asked(served, f"{served.path}data") == (200, live.data)


@pytest.mark.parametrize("body", [b"", b"[]\n", b"{", b"\xff\n", b"[" * 9000, b"{}\n" * 3])
def test_a_question_that_is_none_is_answered_by_a_sentence(live, body):
    with Serving(PAGE, live=live) as served:
        status, answer = asked(served, method="POST", body=body)
        assert (status, [*json.loads(answer)]) == (200, ["error"])


def test_only_who_knows_the_address_is_answered(live, monkeypatch):
    with Serving(PAGE, live=live) as served:
        question = b'{"ask": "rest"}\n'
        for path in ("/", f"{served.path}data", f"{served.path}x"):
            assert asked(served, path, method="POST", body=question) == (404, b"")
        there = f"example.org:{served.port}"
        assert asked(served, host=there, method="POST", body=question) == (404, b"")
        monkeypatch.setattr(serving, "LARGEST", 10)
        assert asked(served, method="POST", body=question) == (413, b"")


def test_weights_are_told_and_shown(capsys, tmp_path, monkeypatch):
    need("safetensors")
    ll.nn.Linear(2, 3).save(tmp_path / "head.safetensors")
    status, out, err = ask(capsys, "open", tmp_path / "head.safetensors", "--text")
    assert (status, err) == (0, "")
    assert out.startswith("<Explorer of head: 2 nodes")
    monkeypatch.setattr(Serving, "wait", lambda self: None)
    status, out, _ = ask(capsys, "open", tmp_path / "head.safetensors", "--no-browser")
    assert (status, out.splitlines()[1][:17]) == (0, "http://127.0.0.1:")
    status, _, err = ask(capsys, "open", tmp_path / "head.safetensors", "--json")
    assert status == 2
    assert "luminal-lab models inspect" in err


def test_what_is_no_model_is_told(capsys, tmp_path):
    (tmp_path / "model.pt").write_bytes(b"\x80\x04.")
    status, out, err = ask(capsys, "open", tmp_path / "model.pt")
    assert (status, out) == (2, "")
    assert "is pickled weights of PyTorch: loading it could run whatever its author wrote" in err


def test_it_listens_on_loopback_alone():
    with Serving(PAGE) as served:
        assert served._server.server_address[0] == "127.0.0.1"


def test_a_port_in_use_gives_another():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with Serving(PAGE, port) as served:
            assert served.port != port
            assert served.note == f"port {port} is in use: this is another one"
            assert asked(served) == (200, PAGE)


def test_a_port_that_cannot_be():
    assert str(error_of(lambda: Serving(PAGE, 70_000), ArgumentError)) == (
        "open: there is no port 70000\nhint: give 1 to 65535, or none"
    )


@pytest.mark.needs("script")
def test_without_a_browser_the_address_is_said(capsys, run_lab, monkeypatch):
    opened = []
    monkeypatch.setattr(opening.webbrowser, "open", lambda address: bool(opened.append(address)))
    monkeypatch.setattr(Serving, "wait", lambda self: None)
    status, out, _ = ask(capsys, "open", run_lab)
    lines = out.splitlines()
    assert status == 0
    assert opened == [lines[2]]
    assert lines[3:] == [
        "for this machine alone; Ctrl-C ends it",
        "there is no browser here that could be opened: give one the address",
    ]


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.needs("script")
def test_it_is_served_until_ctrl_c(run_lab):
    with started("open", run_lab, "--no-browser") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        address = lines[2].strip().removeprefix("http://127.0.0.1:")
        port, _, path = address.partition("/")
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=10)
        connection.request("GET", f"/{path}")
        body = connection.getresponse().read()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert body.startswith(b"<!doctype html>")
    assert b'id="ll-data"' in body
    assert (process.returncode, err) == (130, "stopped\n")
