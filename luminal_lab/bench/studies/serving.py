"""Endpoints: how soon one is ready, and what batches gain.

    python -m luminal_lab.bench.studies.serving [--rounds 5] [--seconds 4] [--only start|batches]

`ready` is the time from the start of the command to the first answer that says so, of an exported
MLP; beside it an import of ONNX Runtime in a process of its own, and uvicorn's own start until an
application of two lines answers. All three in turns, the least of each.

Batches: 16 clients, each with a connection of its own, ask for one row at a time; once the endpoint
may join rows, once it may not (`--batch 1`). Clients and endpoint share this machine.
"""
# pyright: basic

import argparse
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import quantiles
from time import perf_counter, sleep

import luminal_lab as ll
from luminal_lab import nn

PLAIN = """
async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})
"""
CLIENTS = 16
WIDE = 4096


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="of each start")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each load")
    parser.add_argument("--only", choices=("start", "batches"))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if asked.only != "batches":
            starts(exported(folder / "small", (784, 1024, 10)), folder, asked.rounds)
        if asked.only != "start":
            for title, widths in {"small": (784, 1024, 10), "wide": (784, WIDE, WIDE, 10)}.items():
                batches(exported(folder / title, widths), title, asked.seconds)


def exported(folder: Path, widths: Sequence[int]) -> Path:
    """Export an MLP, and return its folder."""
    if folder.exists():
        return folder
    cx = ll.Graph("digits")
    y = cx.tensor((cx.dim("rows", 1, 64), widths[0]), name="x")
    for before, after in pairwise(widths):
        y = nn.Linear(before, after)(y.relu())
    y.named("y").retrieve()
    compiled = cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    return compiled.export(folder)


def starts(model: Path, folder: Path, rounds: int) -> None:
    """Print how soon an endpoint is ready, beside what others take."""
    (folder / "plain.py").write_text(PLAIN, "utf-8")
    ours, uvicorn, runtime = [], [], []
    for _ in range(rounds):
        ours.append(ready(["-m", "luminal_lab", "serve", str(model)]))
        plain = ["-m", "uvicorn", "plain:app", "--app-dir", str(folder), "--lifespan", "off"]
        uvicorn.append(ready(plain))
        begin = perf_counter()
        subprocess.run([sys.executable, "-c", "import onnxruntime"], check=True)
        runtime.append(perf_counter() - begin)
    us, them, other = min(ours), min(uvicorn), min(runtime)
    print(f"ready            {us:.3f} s")
    print(f"import onnxruntime {other:.3f} s, uvicorn's own start {them:.3f} s")
    print(f"ready / (both)   {us / (other + them):.2f}")
    print(f"ready / (half of the import, and uvicorn) {us / (other / 2 + them):.2f}")


@contextmanager
def running(words: Sequence[str]) -> Iterator[int]:
    """Run a server, and yield its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, *words, "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.kill()
        process.wait()


def ready(words: Sequence[str]) -> float:
    """Return the seconds until a server says that it is ready."""
    begin = perf_counter()
    with running(words) as port:
        wait(port)
        return perf_counter() - begin


def wait(port: int) -> None:
    """Return when a server says that it is ready."""
    for _ in range(30_000):
        with suppress(OSError):
            client = HTTPConnection("127.0.0.1", port, timeout=30)
            client.request("GET", "/v2/health/ready")
            if client.getresponse().status == 200:
                return
        sleep(0.001)
    raise SystemExit("it does not become ready")


def batches(model: Path, title: str, seconds: float) -> None:
    """Print what 16 clients get with batches and without."""
    rates = {}
    for name, batch in {"alone": 1, "joined": 32}.items():
        with running(["-m", "luminal_lab", "serve", str(model), "--batch", str(batch)]) as port:
            wait(port)
            spawn = get_context("spawn")
            with spawn.Pool(CLIENTS) as pool:
                said = pool.starmap(ask, [(port, model.name, seconds)] * CLIENTS)
        times = sorted(time for each in said for time in each)
        cuts = quantiles(times, n=100)
        rates[name] = len(times) / seconds
        print(
            f"{title:6} {name:7} {rates[name]:8.0f} a second; p50 {1e3 * cuts[49]:.1f} ms, p99 "
            f"{1e3 * cuts[98]:.1f} ms: {cuts[98] / cuts[49]:.1f} times"
        )
    print(f"{title:6} joined / alone: {rates['joined'] / rates['alone']:.1f}")


def ask(port: int, name: str, seconds: float) -> list[float]:
    """Ask for a row at a time, and return what each took."""
    row = {"name": "x", "datatype": "FP32", "shape": [1, 784], "data": [0.5] * 784}
    body = json.dumps({"inputs": [row]}).encode()
    client = HTTPConnection("127.0.0.1", port, timeout=60)
    path, headers = f"/v2/models/{name}/infer", {"Content-Type": "application/json"}
    sleep(1.0)  # so that all have begun
    times, end = [], perf_counter() + seconds
    while (begin := perf_counter()) < end:
        client.request("POST", path, body, headers)
        answer = client.getresponse()
        answer.read()
        assert answer.status == 200
        times.append(perf_counter() - begin)
    return times


if __name__ == "__main__":
    main()
