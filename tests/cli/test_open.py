"""`luminal-lab open` and `export`: what is said, what is served and to whom, what is written."""

import http.client
import json
import os
import signal
import socket

import pytest

from luminal_lab.cli import open as opening
from luminal_lab.cli.serving import Serving
from luminal_lab.errors import ArgumentError
from tests.cli.asking import ask, recording, started
from tests.expect import error_of
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


def asked(served, path=None, host=None, method="GET"):
    """Return the status and the body of a request."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    headers = {"Host": host or f"127.0.0.1:{served.port}"}
    connection.request(method, served.path if path is None else path, headers=headers)
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
        assert asked(served, method="POST")[0] == 501
        other = Serving(PAGE)
        assert other.path != served.path
        other._server.server_close()


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
