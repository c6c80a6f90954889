"""Who may ask, over real sockets: keys, hosts, pages of others, limits, slow and cut clients."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from luminal_lab.serving import http
from tests.needs import need
from tests.serving.endpoints import Endpoint, array_of, served

need("uvicorn", "cc")
KEY = "a-key-that-nobody-guesses"
INFER = "/v2/models/digits/infer"
ROW = {"inputs": [array_of("x", "FP32", [0.0] * 4, [1, 4])]}


@pytest.fixture(scope="module")
def there(digits: Path) -> Iterator[Endpoint]:
    with served(digits, largest=1 << 16) as endpoint:
        yield endpoint


def test_a_key(digits: Path) -> None:
    with served(digits, key=KEY) as there:
        for given in (None, "Bearer no", f"Bearer {KEY}x", KEY, f"Basic {KEY}", f"Bearer  {KEY}"):
            headers = {} if given is None else {"Authorization": given}
            status, answer = there.ask(INFER, ROW, **headers)
            assert status == 401
            assert answer["error"].startswith("the key is missing or wrong")
        assert there.headers(INFER)["www-authenticate"] == "Bearer"
        assert there.ask(INFER, ROW, Authorization=f"bearer {KEY}")[0] == 200
        assert there.ask(INFER, ROW, Authorization=f"Bearer {KEY}")[0] == 200
        assert there.ask(INFER, ROW, Authorization=f"Bearer {KEY}", Host="example.org")[0] == 200
        assert there.ask("/v2/health/ready")[0] == 200
        assert there.ask("/v2/models/digits")[0] == there.raw("/metrics")[0] == 401
        status, answer = there.ask("/v1/models")
        assert (status, answer["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize("place", ["example.org", "127.0.0.1.example.org:80", "", "localhost.x"])
def test_without_a_key_no_other_host_or_page_may_ask(there: Endpoint, place: str) -> None:
    assert there.ask("/v2", Host=place)[0] == 403
    assert there.ask("/v2", Origin=f"http://{place}")[0] == 403
    for own in ("localhost", "127.0.0.1:8000", "[::1]:8000"):
        assert there.ask("/v2", Host=own, Origin=f"http://{own}")[0] == 200


def test_paths_and_methods(there: Endpoint) -> None:
    for path in ("/v2/model", "/v2/models/digits/versions", "/v2/models/digits/version/1"):
        status, answer = there.ask(path)
        assert status == 404
        assert answer["error"].startswith("there is nothing at this path; there are /v2, ")
    for path in ("cats", "cats/infer", "cats/versions/1/infer"):
        words = {"error": 'there is no model "cats": there is digits'}
        assert there.ask(f"/v2/models/{path}") == (404, words)
    for path in ("10", "2/infer", "1.0/infer"):
        words = {"error": f'there is no version "{path.split("/")[0]}" of digits: there is 1'}
        assert there.ask(f"/v2/models/digits/versions/{path}") == (404, words)
    assert there.ask(INFER) == (405, {"error": "this path takes POST"})
    assert there.ask("/v2", {}) == (405, {"error": "this path takes GET"})
    assert there.ask("/v2/")[0] == 200


def test_what_was_counted(there: Endpoint) -> None:
    line = f'requests_total{{path="{INFER}",status="200"}}'
    before = there.metric(line)
    for path in (INFER, "/v2/models/digits/versions/1/infer", f"{INFER}/"):
        assert there.ask(path, ROW)[0] == 200
    assert there.metric(line) == before + 3
    status, data = there.raw("/metrics")
    assert status == 200
    text = data.decode()
    assert "# TYPE luminal_lab_requests_total counter\n" in text
    assert f'luminal_lab_request_seconds_bucket{{path="{INFER}",le="+Inf"}} ' in text
    assert "luminal_lab_requests_now 1\n" in text
    assert "process_resident_memory_bytes " in text
    assert all(line.startswith("#") or len(line.split(" ")) == 2 for line in text.splitlines())


def test_a_body_that_is_compressed(there: Endpoint) -> None:
    body = gzip.compress(json.dumps(ROW).encode())
    words = 'the body is encoded as "gzip": send it as it is, without Content-Encoding'
    assert there.ask(INFER, body, Content_Encoding="gzip") == (415, {"error": words})
    assert there.headers(INFER, body, Content_Encoding="gzip")["accept-encoding"] == "identity"
    assert there.ask(INFER, ROW, Content_Encoding="identity")[0] == 200


def test_a_body_that_is_too_large(there: Endpoint) -> None:
    words = {"error": "the body is larger than 65,536 bytes, the most here"}
    assert there.ask(INFER, b" " * 70_000) == (413, words)
    sock = there.connect()
    sock.sendall(
        f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {1 << 30}\r\n".encode()
    )
    sock.sendall(b"\r\n" + b"x" * 1000)
    assert sock.recv(100).startswith(b"HTTP/1.1 413 ")
    sock.close()
    sock = there.connect()
    head = f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    sock.sendall(head.encode())
    chunk = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
    for _ in range(6):
        sock.sendall(chunk)
    assert sock.recv(100).startswith(b"HTTP/1.1 413 ")
    sock.close()
    assert there.metric("body_bytes") == 0


def test_bodies_at_once_have_a_limit(there: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "TOGETHER", 1)
    head = f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n".encode()
    first = there.connect()
    first.sendall(head)
    wait(lambda: there.metric("body_bytes") == 60_000)
    assert there.ask(INFER, b" " * 60_000)[0] == 503
    first.close()
    wait(lambda: there.metric("body_bytes") == 0)
    assert there.ask(INFER, ROW)[0] == 200


def wait(until: object) -> None:
    assert callable(until)
    for _ in range(500):
        if until():
            return
        time.sleep(0.02)
    raise AssertionError("it has not come about")


def closed(sock: socket.socket) -> bytes:
    """Return what is said until the connection is closed."""
    said = b""
    try:
        while part := sock.recv(4096):
            said += part
    except ConnectionResetError:
        pass
    sock.close()
    return said


@pytest.fixture
def hasty(digits: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """An endpoint with little patience."""
    from luminal_lab.serving.connections import Patient  # noqa: PLC0415  # it needs uvicorn

    monkeypatch.setattr(Patient, "patience", 0.5)
    monkeypatch.setattr(http, "PATIENCE", 0.5)
    with served(digits) as endpoint:
        yield endpoint


@pytest.mark.parametrize("sent", ["", "GET /v2", "GET /v2 HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_who_asks_a_byte_a_minute_is_cut(hasty: Endpoint, sent: str) -> None:
    sock = hasty.connect()
    begin = time.monotonic()
    for letter in sent:
        sock.sendall(letter.encode())
    assert closed(sock) == b""
    assert time.monotonic() - begin < 30
    assert hasty.ask("/v2")[0] == 200


def test_a_body_a_byte_a_minute_is_answered_and_cut(hasty: Endpoint) -> None:
    sock = hasty.connect()
    sock.sendall(
        f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{{".encode()
    )
    said = closed(sock)
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b"the body took longer than" in said
    assert hasty.metric("requests_now") == 1


def test_after_an_answer_too_little_is_cut_too(hasty: Endpoint) -> None:
    sock = hasty.connect()
    sock.sendall(b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\nGET")
    assert closed(sock).startswith(b"HTTP/1.1 200 ")


def test_who_takes_nothing_is_cut(hasty: Endpoint) -> None:
    sock = hasty.connect()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    asked = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3000
    sock.settimeout(20)
    with suppress(OSError):  # a reset, a broken pipe, or no more room
        for _ in range(1000):
            sock.sendall(asked)
        raise AssertionError("everything was taken")
    sock.close()
    assert hasty.ask("/v2")[0] == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",  # TLS
        b"GET / HTTP/1.1\r\n\r\n",  # no host
        b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v2 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /v2 HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused(hasty: Endpoint, sent: bytes) -> None:
    sock = hasty.connect()
    sock.sendall(sent)
    said = closed(sock)
    assert said == b"" or said[9:10] == b"4", said
    assert hasty.ask("/v2")[0] == 200
