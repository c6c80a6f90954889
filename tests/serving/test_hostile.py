"""Requests that nobody well-meaning sends: each gets words, none a 500, and memory stays."""

from __future__ import annotations

import json
import random
from collections import Counter
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

from luminal_lab.serving.metrics import resident
from tests.language.decoders import published_decoder
from tests.needs import need
from tests.serving.endpoints import Endpoint, array_of, program

need("uvicorn", "cc", "tokenizers", "safetensors")
COUNT, LONG = 600, 10_000
GROWTH = 48 << 20
"""What a run of requests may leave in memory, whatever their number: pools, caches, fragments."""
ODD: list[Any] = [
    *(None, True, -1, 0, 1 << 70, 1.5, 1e308, "", "x", "\ud800", "\x00", [], {}, [[]], [[1], 2]),
    *([None], {"a": 1}, "x" * 3000, [1] * 300, [[[[[[1]]]]]], "FP32", "INT64", "NaN"),
]
PATHS = (
    *("/v2", "/v2/models/digits", "/v2/models/digits/infer", "/v2/models/%00", "/metrics"),
    *(
        "/v2/models/digits/versions/1/infer",
        "/v1/completions",
        "/v1/chat/completions",
        "/v1/models",
    ),
    *("/" + "a/" * 200, "//", "/v2/../../etc/passwd", "/v2/health/ready?x=" + "y" * 3000),
)
GOOD = {
    "infer": {"inputs": [array_of("x", "FP32", [0.5] * 4, [1, 4])]},
    "completions": {"model": "llama", "prompt": "Hi", "max_tokens": 2, "temperature": 0},
    "chat": {"model": "llama", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2},
}
METHODS = *["POST"] * 20, "GET", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"


def changed(value: Any, rng: random.Random) -> Any:
    """Return a copy in which one part is odd, or gone."""
    if rng.random() < 0.3 or not isinstance(value, (dict, list)) or not value:
        return rng.choice(ODD)
    copy = value.copy()
    at = rng.choice([*copy]) if isinstance(copy, dict) else rng.randrange(len(copy))
    if rng.random() < 0.1:
        del copy[at]
    else:
        copy[at] = changed(copy[at], rng)
    return copy


def body_of(rng: random.Random, good: Any) -> bytes:
    text = json.dumps(changed(good, rng)).encode()
    match rng.randrange(8):
        case 0:
            return text[: rng.randrange(len(text) + 1)]
        case 1:
            return bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
        case 2:
            return b"[" * rng.randrange(1, 20_000)
        case 3:
            at = rng.randrange(len(text) + 1)
            return text[:at] + rng.choice([b"NaN", b"1e999", b"\xff", b"\x00", b'"']) + text[at:]
        case _:
            return text


def attack(port: int, paths: list[str], goods: list[Any], count: int, seed: int) -> Counter[int]:
    """Send so many requests, and return how often each status came."""
    rng, statuses = random.Random(seed), Counter[int]()
    client = HTTPConnection("127.0.0.1", port, timeout=60)
    for _ in range(count):
        path = rng.choice([*paths] * (40 // len(paths)) + [*PATHS])
        headers = {"Content-Type": rng.choice(["application/json", "", "text/html"])}
        if rng.random() < 0.05:
            headers["Host"] = rng.choice(["evil.org", "", "localhost"])
        try:
            body = body_of(rng, rng.choice(goods))
            client.request(rng.choice(METHODS), path, body, headers)
            answer = client.getresponse()
            statuses[answer.status] += 1
            answer.read()
        except (HTTPException, OSError):  # the connection is cut: a new one
            statuses[0] += 1
            client.close()
    client.close()
    return statuses


def memory(process: Any) -> int:
    pages = Path(f"/proc/{process.pid}/statm").read_text().split()[1]
    return int(pages) * 4096


@pytest.fixture(scope="module")
def folders(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    llama = published_decoder(tmp_path_factory.mktemp("lm") / "llama")
    return {"digits": digits, "llama": llama}


@pytest.mark.sweep
@pytest.mark.skipif(resident() is None, reason="the system does not say what memory is taken")
@pytest.mark.parametrize("name", ["digits", "llama"])
def test_hostile_requests(folders: dict[str, Path], name: str, pytestconfig: pytest.Config) -> None:
    count = LONG if pytestconfig.getoption("long") else COUNT
    seed = int(pytestconfig.getoption("seed") or 0)
    is_lm = name == "llama"
    paths = ["/v1/completions", "/v1/chat/completions"] if is_lm else ["/v2/models/digits/infer"]
    goods = [GOOD["completions"], GOOD["chat"]] if is_lm else [GOOD["infer"]]
    with program(folders[name]) as (process, port):
        attack(port, paths, goods, count // 4, seed + 1)  # what is made once is made
        before = memory(process)
        statuses = attack(port, paths, goods, count, seed)
        growth = memory(process) - before
        there = Endpoint(port, None, None, None)  # pyright: ignore[reportArgumentType]  # elsewhere
        assert not [status for status in statuses if status >= 500], statuses
        assert statuses[400] > count // 4, statuses
        assert growth < GROWTH, f"{growth >> 20} MB"
        assert there.metric("requests_now") == 1
        assert there.metric("body_bytes") == 0
        good = there.ask(paths[0], goods[0])
        assert good[0] == 200, good
        assert process.poll() is None
