"""A real kernel for tests: cells run in it, widgets are asked, and what came out is returned."""

from __future__ import annotations

import json
import re
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.needs import need

ROOT = Path(__file__).resolve().parents[1]
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
LIMIT = 60.0


@dataclass
class Ran:
    """What running a cell gave."""

    status: str = ""
    error: str = ""
    """What the notebook shows of an error, without its colours."""
    outputs: list[dict[str, Any]] = field(default_factory=list)
    """What it shows, as bundles by kind; printed text under "stream"."""
    updates: list[dict[str, Any]] = field(default_factory=list)
    """What outputs were replaced by."""
    comms: list[dict[str, Any]] = field(default_factory=list)
    """What went to widgets, each with its binary parts."""

    @property
    def printed(self) -> str:
        """What it printed."""
        return "".join(one.get("stream", "") for one in self.outputs)

    def kinds(self) -> list[list[str]]:
        """Return which kinds of data each output has."""
        return [sorted(one) for one in self.outputs]


class Notebook:
    """A kernel in which cells run."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, code: str, *, cell: str | None = None) -> Ran:
        """Run a cell."""
        content = {
            "code": code, "silent": False, "store_history": True, "user_expressions": {},
            "allow_stdin": False, "stop_on_error": True,
        }  # fmt: skip
        message = self._client.session.msg("execute_request", content)
        message["metadata"] = {"cellId": cell} if cell else {}
        self._client.shell_channel.send(message)
        return self._until_idle(message["header"]["msg_id"], "execute_reply")

    def ask(self, comm: str, **content: object) -> Ran:
        """Send a widget's model a message of its page's."""
        return self._to_model(comm, {"method": "custom", "content": content})

    def update(self, comm: str, **state: object) -> Ran:
        """Set traits of a widget's model, as its page does."""
        return self._to_model(comm, {"method": "update", "state": state, "buffer_paths": []})

    def value(self, expression: str) -> Any:
        """Return what an expression is there, as JSON."""
        ran = self.run(f"import json; print(json.dumps({expression}))")
        assert ran.status == "ok", ran.error
        return json.loads(ran.printed)

    def _to_model(self, comm: str, data: dict[str, Any]) -> Ran:
        message = self._client.session.msg("comm_msg", {"comm_id": comm, "data": data})
        self._client.shell_channel.send(message)
        return self._until_idle(message["header"]["msg_id"], None)

    def _until_idle(self, asked: str, reply: str | None) -> Ran:
        ran, end = Ran(), time.monotonic() + LIMIT
        while time.monotonic() < end:
            message = self._client.get_iopub_msg(timeout=LIMIT)
            if message["parent_header"].get("msg_id") != asked:
                continue
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    ran.outputs.append({"stream": content["text"]})
                case "display_data" | "execute_result" | "update_display_data" as kind:
                    known = ran.updates if kind == "update_display_data" else ran.outputs
                    known.append(content["data"])
                case "error":
                    ran.error = COLOURS.sub("", "\n".join(content["traceback"]))
                case "comm_open" | "comm_msg":
                    ran.comms.append({**content, "buffers": message["buffers"]})
                case "status" if content["execution_state"] == "idle":
                    break
                case _:
                    pass
        while reply is not None:
            message = self._client.get_shell_msg(timeout=LIMIT)
            if message["parent_header"].get("msg_id") == asked:
                ran.status = message["content"]["status"]
                break
        return ran


@contextmanager
def notebook(folder: Path) -> Iterator[Notebook]:
    """Start a kernel that works in a folder, or skip the test that asks."""
    need("ipykernel")
    client_of = need("jupyter_client")
    with warnings.catch_warnings(action="ignore"):  # of the packages' own
        manager = client_of.KernelManager()
        manager.kernel_spec.argv[0] = sys.executable
        manager.start_kernel(cwd=str(folder))
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=LIMIT)
            here = Notebook(client)
            ran = here.run(f"import sys; sys.path.insert(0, {str(ROOT)!r})")
            assert ran.status == "ok", ran.error
            yield here
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
