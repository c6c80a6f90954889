"""What tests of endpoints share: one in this process, one as a program, and plain HTTP."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from threading import Event, Thread
from typing import Any

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.serving import endpoint
from luminal_lab.serving.app import App, Served
from luminal_lab.serving.metrics import Metrics
from tests.cli.asking import started

HEADERS = {"Content-Type": "application/json"}


@dataclass
class Endpoint:
    """An endpoint that listens."""

    port: int
    app: App
    model: Served
    metrics: Metrics

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Return the status and the value of an answer."""
        status, data = self.raw(path, body, **headers)
        return status, json.loads(data)

    def raw(self, path: str, body: object = None, **headers: str) -> tuple[int, bytes]:
        """Return the status and the bytes of an answer."""
        client = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            client.request("GET" if body is None else "POST", path, data, {**HEADERS, **named})
            answer = client.getresponse()
            return answer.status, answer.read()
        finally:
            client.close()

    def headers(self, path: str, body: bytes = b"{}", **headers: str) -> dict[str, str]:
        """Return the headers of an answer to a body."""
        client = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            client.request("POST", path, body, {**HEADERS, **named})
            return {name.lower(): text for name, text in client.getresponse().getheaders()}
        finally:
            client.close()

    def metric(self, line: str) -> float:
        """Return a number of /metrics by its line; 0 if there is none."""
        text = self.raw("/metrics")[1].decode()
        found = re.search(rf"^luminal_lab_{re.escape(line)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)


@contextmanager
def serving(model: Served, metrics: Metrics, **how: Any) -> Iterator[Endpoint]:
    """Serve a model in a thread of this process."""
    from luminal_lab.serving.connections import serve  # noqa: PLC0415  # it needs uvicorn

    app = App(model, metrics, **how)
    sock = endpoint.listening("127.0.0.1", 0, None)
    ready = Event()
    server = serve(app, [sock], ready.set)
    thread = Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        assert ready.wait(30)
        yield Endpoint(sock.getsockname()[1], app, model, metrics)
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


@contextmanager
def served(path: Path, **how: Any) -> Iterator[Endpoint]:
    """Serve a folder or a file in a thread of this process."""
    metrics = Metrics()
    opening = {name: how.pop(name) for name in ("batch", "name", "trust") if name in how}
    with serving(endpoint.opened(path, metrics, **opening), metrics, **how) as found:
        yield found


@contextmanager
def program(*words: object, **how: Any) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Serve by the command, and yield the process and its port."""
    with started("serve", *words, "--port", 0, **how) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            line = process.stdout.readline()
            found = re.search(r":(\d+); Ctrl-C ends it$", line.rstrip())
            if found is None:
                raise AssertionError(line + process.stderr.read())
            yield process, int(found[1])
        finally:
            process.kill()


def exported_mlp(folder: Path, rows: int | None = None) -> Path:
    """Export a small model, whose rows have nothing to do with one another."""
    cx = ll.Graph("digits")
    layer = nn.Linear(4, 3)
    x = cx.tensor((cx.dim("rows", 1, 64) if rows is None else rows, 4), name="x")
    layer(x).sin().named("y").retrieve()
    return cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1)).export(folder)


def array_of(name: str, kind: str, data: Any, shape: list[int]) -> dict[str, Any]:
    return {"name": name, "datatype": kind, "shape": shape, "data": data}
