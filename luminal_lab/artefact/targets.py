"""The machines that models can be exported for, each with how its code is compiled."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace

from luminal_lab.devices.build.toolchain import Compiler, find_compiler
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.machines.machine import Machine

NATIVE = "native"
SUFFIXES = {"windows": ".dll", "darwin": ".dylib", "wasm": ".wasm"}


@dataclass(frozen=True)
class Target:
    """A kind of machine."""

    name: str
    machine: str
    """What run.py calls such a machine; for wasm no Python runs it."""
    zig: tuple[str, ...]
    """How zig is told."""
    vectors: int
    """The bytes of its vectors."""
    fixed: tuple[str, ...] = ()
    """What its compilers need beside the flags of all."""

    @property
    def suffix(self) -> str:
        """What its libraries' names end in."""
        return SUFFIXES.get(self.machine.partition("-")[2], ".so")

    @property
    def plans_for(self) -> Machine:
        """What plans of kernels ask about it."""
        return Machine(vector_bytes=self.vectors)


WASM_LINK = (
    *("-nostdlib", "-Wl,--no-entry", "-Wl,--export-dynamic", "-Wl,--export-memory"),
    *("-Wl,-z,stack-size=1048576",),
)
TARGETS = {
    target.name: target
    for target in (
        Target("x86_64-linux", "x86_64-linux",
               ("-target", "x86_64-linux-gnu.2.17", "-mcpu=x86_64_v3"), 32),
        Target("aarch64-linux", "aarch64-linux", ("-target", "aarch64-linux-gnu.2.17"), 16),
        Target("aarch64-macos", "aarch64-darwin", ("-target", "aarch64-macos"), 16),
        Target("x86_64-macos", "x86_64-darwin", ("-target", "x86_64-macos"), 16),
        Target("riscv64-linux", "riscv64-linux", ("-target", "riscv64-linux-musl"), 16),
        Target("x86_64-windows", "x86_64-windows",
               ("-target", "x86_64-windows-gnu", "-mcpu=x86_64_v3"), 32),
        Target("wasm32", "wasm32-wasm",
               ("-target", "wasm32-freestanding", "-mcpu=generic+simd128"), 16, WASM_LINK),
    )
}  # fmt: skip
"""The machines for which zig compiles on any other."""
EVERYWHERE = (
    *("-O3", "-fopenmp-simd", "-ffp-contract=off", "-fno-math-errno"),
    *("-fno-trapping-math", "-fwrapv"),
)
"""What the numbers depend on, as for a session's libraries."""


def native(compiler: Compiler | None) -> tuple[Target, Compiler | None]:
    """Return this machine, and how its compiler makes a library that can be given away."""
    system = platform.system().lower()
    name = platform.machine().lower().replace("amd64", "x86_64").replace("arm64", "aarch64")
    target = Target(NATIVE, f"{name}-{system}", (), 32)
    if compiler is None:
        return target, None
    flags = ["-std=c11" if flag == "-std=gnu11" else flag for flag in compiler.flags]
    return target, replace(compiler, flags=(*flags, "-fvisibility=hidden"))


def target_of(name: str) -> tuple[Target, Compiler]:
    """Return a target by its name, and zig as its compiler."""
    hint = f"choose from {', '.join([NATIVE, *TARGETS])}"
    ArgumentError.unless_known(name, TARGETS, f"export: there is no target {name!r}", hint)
    target = TARGETS[name]
    try:
        zig = find_compiler("ziglang")
    except DeviceError as error:
        raise DeviceError(
            f"export: {name} is compiled by zig, and this machine has none",
            hint='pip install ziglang; target="native" takes the compiler that is here',
        ) from error
    flags = ("-std=c11", *EVERYWHERE, "-fno-sanitize=undefined", "-fvisibility=hidden", "-w", "-s")
    link = target.fixed or ("-shared", *(() if "windows" in target.machine else ("-fPIC",)))
    command = (*zig.command, *target.zig)
    return target, replace(zig, command=command, target=name, flags=(*flags, *link))
