"""A real JupyterLab for tests: started once, and driven through a page of a real browser."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.needs import need

STARTING = 90
"""Seconds that the server may take, on a machine that does other things."""
LONG = 60_000
"""Milliseconds that a kernel and a page may take."""
TOKEN = "for-tests"


@dataclass
class Server:
    """A JupyterLab of this run's own: its folders, settings and trust are nobody else's."""

    process: subprocess.Popen[bytes]
    folder: Path
    port: int

    def write(self, name: str, cells: Sequence[str]) -> Path:
        """Write a notebook of code cells."""
        nbformat = need("nbformat")
        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        made.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3 (ipykernel)",
            "language": "python",
        }
        made.metadata["language_info"] = {"name": "python"}
        path = self.folder / name
        nbformat.write(made, path)
        return path

    def receive(self, own: Path, name: str) -> Path:
        """Write a notebook as from somebody else: the same outputs, which nobody has signed."""
        nbformat = need("nbformat")
        # What is signed is the content, and not its name.
        found = nbformat.read(own, 4)
        found.cells.append(nbformat.v4.new_code_cell("# received"))
        path = self.folder / name
        nbformat.write(found, path)
        return path

    def address(self, name: str) -> str:
        """Return where a notebook opens."""
        # A workspace of its own, so that no tab of an earlier test comes back.
        space = Path(name).stem
        return (
            f"http://127.0.0.1:{self.port}/lab/workspaces/{space}/tree/{name}?token={TOKEN}&reset"
        )


def start(folder: Path) -> Server:
    """Start a server and wait until it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {
        name: str(folder / place)
        for name, place in (
            ("JUPYTER_CONFIG_DIR", "config"),
            ("JUPYTER_DATA_DIR", "data"),
            ("JUPYTER_RUNTIME_DIR", "runtime"),
            ("JUPYTERLAB_SETTINGS_DIR", "settings"),
            ("JUPYTERLAB_WORKSPACES_DIR", "workspaces"),
            ("IPYTHONDIR", "ipython"),
        )
    }
    notebooks = folder / "notebooks"
    notebooks.mkdir()
    news = folder / "settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    news.parent.mkdir(parents=True, exist_ok=True)
    news.write_text('{"fetchNews": "false", "checkForUpdates": false}', "utf-8")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root",
                f"--ServerApp.root_dir={notebooks}", f"--ServerApp.port={port}",
                "--ServerApp.ip=127.0.0.1", f"--IdentityProvider.token={TOKEN}",
                "--LabApp.expose_app_in_browser=True",
            ],
            stdout=log,
            stderr=log,
            env={**os.environ, **own},
        )  # fmt: skip
    server = Server(process, notebooks, port)
    end = time.monotonic() + STARTING
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError, urllib.error.URLError):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=2) as answer:
                json.load(answer)
            return server
        time.sleep(0.2)
    process.kill()
    raise AssertionError("JupyterLab did not start:\n" + (folder / "log").read_text()[-2000:])


class Notebook:
    """A notebook that is open in JupyterLab."""

    def __init__(self, page: Any, server: Server, name: str) -> None:
        self.page = page
        self.path = server.folder / name
        page.goto(server.address(name), timeout=LONG)
        page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell", timeout=LONG)
        page.wait_for_function(
            "document.querySelectorAll('.jp-NotebookPanel .jp-Cell').length > 0", timeout=LONG
        )

    def do(self, command: str, **given: Any) -> None:
        """Run one of JupyterLab's commands."""
        self.page.evaluate(
            "([command, given]) => window.jupyterapp.commands.execute(command, given)",
            [command, given],
        )

    def run(self, timeout: int = LONG) -> None:
        """Run all cells, and wait until the last one is done."""
        self.ready()
        self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells') }")
        self.page.wait_for_function(
            """() => {
              const cells = [...document.querySelectorAll(
                '.jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell')];
              const done = (cell) =>
                /\\[\\d+\\]/.test(cell.querySelector('.jp-InputPrompt')?.textContent ?? '');
              return cells.length > 0 && cells.every(done);
            }""",
            timeout=timeout,
        )

    def run_cell(self, number: int) -> None:
        """Run one cell, and wait until it is done."""
        self.page.evaluate(
            """async (number) => {
              window.jupyterapp.shell.currentWidget.content.activeCellIndex = number;
              await window.jupyterapp.commands.execute('notebook:run-cell');
            }""",
            number,
        )

    def ready(self) -> None:
        """Wait until the kernel is there and idle."""
        self.page.evaluate(
            """async () => {
              const context = window.jupyterapp.shell.currentWidget.context;
              await context.ready;
              await context.sessionContext.ready;
              await context.sessionContext.session.kernel.info;
            }"""
        )
        self.page.wait_for_function(
            """() => {
              const {kernel} = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
              return kernel.connectionStatus === 'connected' && kernel.status === 'idle';
            }""",
            timeout=LONG,
        )

    @property
    def is_trusted(self) -> bool:
        """Whether JupyterLab trusts all that its cells put out."""
        return self.page.evaluate(
            """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
              .every((cell) => cell.trusted)"""
        )

    def cells(self) -> list[str]:
        """Return the sources of its cells as they are now."""
        return self.page.evaluate(
            """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
              .map((cell) => cell.sharedModel.source)"""
        )

    def scrolled(self) -> int:
        """Return how far down it is scrolled."""
        return self.page.evaluate(
            """() => [...document.querySelectorAll('.jp-WindowedPanel-outer')]
              .reduce((most, one) => Math.max(most, one.scrollTop), 0)"""
        )

    def restart(self) -> None:
        """Start the kernel anew, and wait until it is there."""
        session = "window.jupyterapp.shell.currentWidget.context.sessionContext.session"
        self.page.evaluate(f"() => {session}.kernel.restart()")
        self.ready()

    def save(self) -> dict[str, Any]:
        """Save it, and return what the file has."""
        before = self.path.stat().st_mtime_ns
        self.do("docmanager:save")
        end = time.monotonic() + 20
        while self.path.stat().st_mtime_ns == before and time.monotonic() < end:
            time.sleep(0.1)
        return json.loads(self.path.read_text("utf-8"))

    def python(self, source: str) -> str:
        """Run a line in the notebook's kernel, and return what it prints."""
        return self.page.evaluate(
            """async (code) => {
              const panel = window.jupyterapp.shell.currentWidget;
              const future = panel.context.sessionContext.session.kernel.requestExecute({code});
              let text = '';
              future.onIOPub = (message) => {
                text += message.content.text ?? '';
                if (message.content.ename) text += message.content.evalue;
              };
              await future.done;
              return text;
            }""",
            source,
        ).strip()
