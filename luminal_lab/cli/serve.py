"""`luminal-lab serve`: a model as an endpoint that existing clients talk to."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.saying import say
from luminal_lab.errors import ArgumentError
from luminal_lab.serving.app import App
from luminal_lab.serving.batching import BATCH
from luminal_lab.serving.endpoint import HOST, LARGEST, PORT, SHORTEST, listening, opened, run
from luminal_lab.serving.metrics import Metrics

ABOUT = """\
Serve a model until Ctrl-C: an exported folder by the Open Inference Protocol, and a model of
language by OpenAI's routes. What was counted is at /metrics. Only this machine may ask, unless
there is a key."""
EXAMPLES = """\
luminal-lab serve digits                          a folder of export-model
luminal-lab serve digits.onnx                     a graph, which is exported first
luminal-lab serve model.gguf --port 9000          a model of language
luminal-lab serve digits --host 0.0.0.0           others may ask who have LUMINAL_LAB_KEY"""
KEY = "LUMINAL_LAB_KEY"


def options(reader: OptionReader) -> None:
    """Declare the options."""
    reader.add_argument(
        "model", metavar="MODEL", help="a folder of export-model, a graph, or a model of language"
    )
    reader.add_argument("--host", metavar="HOST", default=HOST, help="default: this machine alone")
    reader.add_argument(
        "--port",
        metavar="N",
        type=int,
        default=PORT,
        help=f"default: {PORT}; 0 is any that is free",
    )
    reader.add_argument(
        "--name", metavar="NAME", help="what clients call it; default: the folder's"
    )
    reader.add_argument(
        "--key",
        metavar="KEY",
        help=f"what clients must send; better: set {KEY}, which no list shows",
    )
    reader.add_argument(
        "--batch", metavar="N", type=int, default=BATCH, help=f"rows of a run; default: {BATCH}"
    )
    reader.add_argument(
        "--largest", metavar="MB", type=int, default=LARGEST >> 20, help="of a body; default: 16"
    )
    reader.add_argument(
        "--texts", metavar="N", type=int, default=4, help="that take turns; default: 4"
    )
    reader.add_argument("--context", metavar="N", type=int, help="the tokens there is room for")
    reader.add_argument("--trust", action="store_true", help="run the library of the folder")


def run_command(given: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    for name in ("batch", "largest", "texts"):
        if getattr(given, name) < 1:
            raise ArgumentError(f"serve: {name} is {getattr(given, name)}", hint="give 1 or more")
    key = key_of(given.key)
    sock = listening(given.host, given.port, key)
    metrics = Metrics()
    try:
        model = opened(
            Path(given.model),
            metrics,
            name=given.name,
            batch=given.batch,
            texts=given.texts,
            context=given.context,
            trust=given.trust,
        )
        app = App(model, metrics, key=key, largest=given.largest << 20)
    except BaseException:
        sock.close()
        raise
    port = sock.getsockname()[1]
    host = f"[{given.host}]" if ":" in given.host else given.host

    def ready() -> None:
        say(f"{model.name} is served at http://{host}:{port}; Ctrl-C ends it", flush=True)

    run(app, sock, ready)
    return 0


def key_of(given: str | None) -> str | None:
    """Return the key, if there is one."""
    key = os.environ.get(KEY) if given is None else given
    if key is None or (given is None and not key):
        return None
    if len(key) < SHORTEST or not key.isascii() or not key.isprintable() or " " in key:
        raise ArgumentError(
            f"serve: the key has {len(key)} letters, or some that no header can have",
            hint=f"give at least {SHORTEST} that nobody guesses, as `openssl rand -hex 32` makes",
        )
    return key


COMMAND = Command("serve", ABOUT, EXAMPLES, options, run_command)
