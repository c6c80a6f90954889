"""The assembly of a GPU's kernel: SASS if NVIDIA's disassembler is there, and PTX otherwise."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from luminal_lab.errors import DeviceError
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.machines.assembly import Assembly

SECONDS = 60.0
"""The seconds that a tool may take."""
TOOLS = {"nvdisasm": ("-c",), "cuobjdump": ("-sass",)}
"""NVIDIA's disassemblers, and their arguments."""
NONE = {
    "metal": (
        "Metal's language, and Apple documents no assembly",
        "print(kernel.source) shows the Metal; Xcode profiles what runs",
    ),
    "webgpu": ("WGSL, which each driver compiles by itself", "print(kernel.source) shows the WGSL"),
}
"""The languages whose machine code nobody shows: why, and what there is."""


def gpu_assembly(kernel: Kernel) -> Assembly:
    """Return the SASS of a kernel, or its PTX if nothing here can read machine code."""
    if kernel.dialect in NONE:
        why, hint = NONE[kernel.dialect]
        raise DeviceError(f"assembly: {kernel.name} is in {why}", hint=hint)
    compiled = kernel.compiled
    for tool, options in TOOLS.items():
        path = shutil.which(tool)
        text = None if path is None else _disassembled([path, *options], compiled.cubin)
        if text:
            return Assembly(text, (), tool)
    missing = " and no ".join(TOOLS)
    return Assembly(compiled.ptx, (), f"NVRTC: PTX, as there is no {missing} to read SASS with")


def _disassembled(command: list[str], cubin: bytes) -> str | None:
    with TemporaryDirectory(prefix="luminal-lab-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        try:
            done = subprocess.run(
                [*command, str(path)], capture_output=True, check=True, timeout=SECONDS
            )
        except (OSError, subprocess.SubprocessError):
            return None
    return done.stdout.decode("utf-8", "replace")
