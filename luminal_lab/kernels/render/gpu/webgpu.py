"""A phase of a kernel as a module of WGSL: its buffers and numbers, and its one entry point.

    kernel 64 f(                   @group(0) @binding(0) var<storage, read_write> x: array<f32>;
        const float *x,            @group(0) @binding(1) var<storage, read_write> y: array<f32>;
        float *y,             →    struct Numbers { n: i32, lab_blocks: i32 }
        const lab_i64 n            @group(0) @binding(2) var<uniform> lab_numbers: Numbers;
    ) {                            @compute @workgroup_size(64)
        …                          fn main(…) { … }

A launch has at most 65,535 blocks along an axis, so blocks lie in rows of that many. All buffers
may be written: parts of one memory may be bound side by side only if they are used alike.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial

from luminal_lab.kernels.prelude.prelude import signature_in
from luminal_lab.kernels.prelude.wgsl import Array, NeedsBitsError, Wgsl, held, is_packed, renamed
from luminal_lab.kernels.render.code import SourceLine, printed
from luminal_lab.kernels.render.rendered import RenderedPhase

MODULE = "// module "
"""What the first line of a module starts with; the name of its function follows."""
MOST = 65535
"""The most blocks along one axis of a launch."""
LAST = "lab_blocks"
"""The last number of each launch."""


def wgsl(function: RenderedPhase) -> list[SourceLine]:
    """Return a phase as a module; where it wants bits of 16-bit floats, they stay bits."""
    if function.code.dialect.has_float16:
        with suppress(NeedsBitsError):
            return _module(function, has_float16=True)
    return _module(function, has_float16=False)


def _module(function: RenderedPhase, *, has_float16: bool) -> list[SourceLine]:
    spelling = Wgsl(partial(signature_in, "webgpu"), has_float16=has_float16)
    head = " ".join(line.strip() for line in function.head)
    match = re.fullmatch(r"kernel (\d+) (\w+)\((.*?),? ?\) \{", head)
    assert match is not None, head
    threads, name, given = match.groups()
    bound, numbers = list[str](), list[str]()
    for part in filter(None, map(str.strip, given.split(","))):
        *words, param = part.split()
        if param.startswith("*"):
            param, type = param[1:], spelling.words[words[-1]]
            is_written = "const" not in words
            spelling.names[param] = Array(type, is_buffer=True, is_written=is_written)
            word = "atomic<u32>" if is_written else "u32"
            word = word if is_packed(type) else held(type)
            bound.append(f"var<storage, read_write> {renamed(param)}: array<{word}>;")
        else:
            spelling.names[param] = type = "u32" if param == "lab_step" else "i32"
            numbers.append(f"{renamed(param)}: {type}")
    fault = ["lab_fault_at: i32"] * ("lab_fault" in spelling.names)
    lines = [*printed(function.code.block, function.code.dialect, 1, spelling.line)]
    text = "\n".join(line.text for line in lines)
    bound.append("var<uniform> lab_numbers: Numbers;")
    top = [
        f"{MODULE}{name}",
        f"struct Numbers {{ {', '.join([*numbers, *fault, f'{LAST}: i32'])} }}",
        *(f"@group(0) @binding({number}) {what}" for number, what in enumerate(bound)),
        *spelling.shared.values(),
        "",
        f"@compute @workgroup_size({threads})",
        "fn main(",
        "    @builtin(workgroup_id) lab_group: vec3<u32>,",
        "    @builtin(local_invocation_index) lab_index: u32,",
        ") {",
        "    lab_thread = lab_index;",
        "    lab_zero = lab_group.z;",
        f"    let lab_block = i32(lab_group.x + {MOST}u * lab_group.y);",
        f"    if (lab_block >= lab_numbers.{LAST}) {{ return; }}",
    ]
    names = (number.partition(":")[0] for number in numbers)
    used = [n for n in names if re.search(rf"\b{n}\b", text)]
    top += [f"    let {n} = lab_numbers.{n};" for n in used]
    return [*map(SourceLine, top), *lines, SourceLine("}")]
