"""Files that bring code along: it leaves a mark on this machine as soon as it is loaded."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import luminal_lab as ll
from luminal_lab.core.ir import IR
from luminal_lab.io.recording import save_recording
from luminal_lab.passes.snapshot import Record, Snapshot
from luminal_lab.viz.live.backed import backed_compile

SOURCES = {
    "c": """\
#include <stdio.h>
__attribute__((constructor)) static void told(void) {{ fclose(fopen("{mark}", "w")); }}
void {name}(const float *x, float *y, long n) {{ for (long i = 0; i < n; i++) y[i] = 2 * x[i]; }}
""",
    "cuda": """\
extern "C" void *fopen(const char *, const char *);
extern "C" int fclose(void *);
__attribute__((constructor)) static void told() {{ fclose(fopen("{mark}", "w")); }}
extern "C" __global__ void {name}(const float *x, float *y, int n) {{
    if (threadIdx.x < n) y[threadIdx.x] = 2 * x[threadIdx.x];
}}
""",
    "metal": """\
extern "C" void *fopen(const char *, const char *);
extern "C" int fclose(void *);
__attribute__((constructor)) static void told() {{ fclose(fopen("{mark}", "w")); }}
kernel void {name}(device const float *x, device float *y, constant int &n,
                   uint i [[thread_position_in_grid]]) {{
    if (i < n) y[i] = 2 * x[i];
}}
""",
}


@dataclass(frozen=True)
class Foreign:
    """A graph that nobody here wrote, as text, as a file and as a recording."""

    folder: Path
    dialect: str = "c"
    name: str = "evil"

    @property
    def mark(self) -> Path:
        """What is there once its code was loaded."""
        return self.folder / f"{self.dialect}.mark"

    @property
    def source(self) -> str:
        """Its code."""
        return SOURCES[self.dialect].format(mark=self.mark, name=self.name)

    @property
    def text(self) -> str:
        """The graph as text."""
        tasks = "1" if self.dialect == "c" else "1 of 32"
        fields = (
            f'body = meant, header = "kernel {self.name}(x: f32[n]) -> (y: f32[n])", source = '
            f'{json.dumps(self.source)}, dialect = {self.dialect}, tasks = "{tasks}", dims = [4]'
        )
        return (
            f"graph g(%x: f32[4]) -> (%y) {{\n  %y = user_kernel{{{fields}}} %x : f32[4]\n}}\n\n"
            "graph meant(%x: f32[4]) -> (%y) {\n  %y = add %x, %x : f32[4]\n}\n"
        )

    @property
    def ir(self) -> IR:
        """The graph, read from its text."""
        return ll.parse(self.text)

    @property
    def file(self) -> Path:
        """The text in a file."""
        path = self.folder / f"{self.dialect}.ir"
        path.write_text(self.text, encoding="utf-8")
        return path

    def recording(self, pipeline: str = "generic, cpu", title: str = "dce") -> Path:
        """Return a recording of it that says that a pipeline made it."""
        path = self.folder / f"{self.dialect}.lab"
        subject = backed_compile(ll.compile_ir(self.ir, "dce")).subject
        first, last = subject.snapshots
        last = Snapshot(last.before, last.ir, Record(title, last.log), 1)
        save_recording(path, [replace(subject, pipeline=pipeline, snapshots=(first, last))])
        return path

    @property
    def was_run(self) -> bool:
        """Whether its code was loaded."""
        return self.mark.exists()
