"""An adapter of WebGPU, through wgpu: buffers, pipelines, launches, times.

wgpu is imported when something is about to run, and only here. Each function of a kernel is a
module of its own, with what it calls. Mesa's software driver ends all loops of a thread once they
have had 65,535 turns together, and says nothing: there each loop looks whether it came to its end.
"""

from __future__ import annotations

# wgpu's values are of any type.
# pyright: reportUnknownMemberType=false
import importlib
import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from typing import Any, Final

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.devices.build.located import device_error, optional, unless_forked
from luminal_lab.devices.gpu.engine import BYTE, Engine, Location, Memory, PlacedLaunch
from luminal_lab.devices.runtime.plan import Remembered
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.kernel import Kernel, Kernels
from luminal_lab.kernels.prelude.files import NAME
from luminal_lab.kernels.prelude.prelude import prelude
from luminal_lab.kernels.render.gpu.webgpu import MODULE, MOST
from luminal_lab.trust import admit

STILL: Final = "the source of kernels is available without it; ll.CPUCompiler() runs anywhere"
"""What works where nothing runs."""
SMALLER: Final = "smaller tiles in its schedule need less of what a block shares"
INSTALL: Final = f'pip install "luminal-lab[webgpu]"; {STILL}'
RENEW: Final = f'pip install -U "luminal-lab[webgpu]", and restart the kernel; {STILL}'
OLDEST: Final = (0, 32)
"""The first version of wgpu that has what is used here."""
NO_ADAPTER: Final = (
    "install a driver for Vulkan, and restart the kernel; on Debian and Ubuntu `apt install "
    f"mesa-vulkan-drivers` has those of most GPUs, and one that is software; {STILL}"
)
CHOSEN: Final = "WGPUPY_WGPU_ADAPTER_NAME"
"""The variable by which wgpu takes an adapter by its name."""
APART: Final = "a graph_break() of some of its values makes two kernels of it"
AS_BITS: Final = "WebGPUCompiler(float16=False) keeps them as bits, and computes in 32"
FLOAT16: Final = "shader-f16"
"""The feature of adapters whose kernels may have 16-bit floats as a type."""
ENABLE: Final = "enable f16;\n\n"
"""What a module begins with that has them."""
SOFTWARE: Final = ", a software adapter"
"""How the name of an adapter ends for which the processor does the work."""
WORD: Final = 16
"""Buffers are made of whole vectors of this many bytes."""
ALIGNED: Final = 64
"""Where values begin in a plan's memory: at multiples of this many bytes."""
MOST_POSITIONS: Final = (1 << 31) - (1 << 20)
"""Positions have 32 bits, and threads of the last block go beyond the end."""
MOST_BOUND: Final = 4096
"""For how many launches their bound buffers are kept."""
HEAD: Final = re.compile(r"for \((var [^{}]*?: i32 = [^{}]*)\) \{")
WATCHED: Final = re.compile(r"( *)for \((var .*?); (.*); (.*)\) \{")
"""The head of a loop, as it is broken into lines and as one."""
WANTED: Final = (
    *("max-buffer-size", "max-storage-buffer-binding-size", "max-storage-buffers-per-shader-stage"),
    *("max-compute-workgroup-storage-size", "max-compute-invocations-per-workgroup"),
    *("max-compute-workgroup-size-x", "min-storage-buffer-offset-alignment"),
)
"""The limits of the adapter that a device gets, rather than the usual ones."""


def import_wgpu() -> Any:  # noqa: ANN401  # wgpu has no types
    """Return wgpu, or say why it is not there."""
    try:
        wgpu = optional("wgpu", "webgpu: wgpu", INSTALL)
        if wgpu.version_info < OLDEST:
            fault = (
                f"webgpu: wgpu {wgpu.__version__} is too old: it must be {OLDEST[0]}.{OLDEST[1]}"
            )
            raise device_error(fault, hint=RENEW)
        _ = wgpu.gpu.request_adapter_sync  # which loads its library
    except DeviceError:
        raise
    except Exception as error:  # its library is for another system, or it is another package
        raise device_error(f"webgpu: wgpu does not start: {error}", hint=RENEW) from error
    return wgpu


@cache
def webgpu_device() -> tuple[Any, Any]:
    """Return wgpu and a device of the best adapter, or raise a DeviceError."""
    unless_forked("wgpu")
    # Mesa's choice among devices asks the X server, by a library that is not the one of pygraphviz;
    # where both are loaded, the process ends.
    if "MESA_VK_DEVICE_SELECT" not in os.environ:
        os.environ.setdefault("NODEVICE_SELECT", "1")
    wgpu = import_wgpu()
    with suppress(Exception):  # without OpenGL, which complains about missing displays
        extras = importlib.import_module("wgpu.backends.wgpu_native.extras")
        extras.set_instance_extras(backends=["Vulkan", "Metal", "DX12"])
    try:
        adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    except OSError as error:
        raise device_error(f"webgpu: wgpu does not start: {error}", hint=RENEW) from error
    except Exception as error:
        fault = f"webgpu: there is no adapter for WebGPU here: {_first(error)}"
        by_name = f"{CHOSEN} in os.environ names one that is not here: take it out; {STILL}"
        hint = by_name if CHOSEN in os.environ else NO_ADAPTER
        raise device_error(fault, hint=hint) from error
    if adapter is None:
        raise device_error("webgpu: there is no adapter for WebGPU here", hint=NO_ADAPTER)
    limits = {name: adapter.limits[name] for name in WANTED if name in adapter.limits}
    if limits["min-storage-buffer-offset-alignment"] > ALIGNED:
        fault = f"webgpu: buffers of {name_of(adapter)} begin at multiples of "
        fault += f"{limits['min-storage-buffer-offset-alignment']} bytes, and a plan's of {ALIGNED}"
        raise device_error(fault, hint=STILL)
    try:
        features = [FLOAT16] if FLOAT16 in adapter.features else []
        return wgpu, adapter.request_device_sync(required_limits=limits, required_features=features)
    except Exception as error:
        fault = f"webgpu: {name_of(adapter)} gives no device: {_first(error)}"
        raise device_error(fault, hint=STILL) from error


def has_float16() -> bool:
    """Return whether there is an adapter here that has 16-bit floats."""
    try:
        return FLOAT16 in webgpu_device()[1].features
    except DeviceError:
        return False


def name_of(adapter: Any) -> str:  # noqa: ANN401  # wgpu's
    """Return the name of an adapter, which says if it is software."""
    info = adapter.info
    return info["device"] + SOFTWARE * (info["adapter_type"] == "CPU")


class WebGPUBuffer(Memory):
    """Bytes on a device, which the host does not see."""

    counted = count(1)

    def __init__(self, buffer: Any, size: int) -> None:  # noqa: ANN401  # wgpu's
        self.buffer, self.bytes = buffer, size
        self.address = next(self.counted) << 48


class WebGPUEngine(Engine):
    """The adapter on which one program runs."""

    clock = "perf_counter, from submitting to the end"
    sees_all = False
    can_share = False

    def __init__(self, source: str, kernels: Kernels) -> None:
        admit(source)
        unless_forked("wgpu")
        self.wgpu, self.device = webgpu_device()
        self.queue = self.device.queue
        self.name = name_of(self.device.adapter)
        self.is_cut = "llvmpipe" in self.name
        """Whether the driver ends long loops early."""
        self._end = self.reserve(WORD)
        self.pipelines: dict[str, tuple[Any, Any]] = {}
        for kernel in kernels:
            with self._told(f"kernel {kernel.name} is not compiled", SMALLER):
                for function, text in modules(kernel).items():
                    buffers = text.count("var<storage, read_write>")
                    most = self.device.limits["max-storage-buffers-per-shader-stage"]
                    if buffers > most:
                        fault = f"webgpu: kernel {kernel.name} has {buffers} buffers, and the "
                        fault += f"adapter allows {most}: {self.name}"
                        raise device_error(fault, hint=f"{APART}; {STILL}")
                    if text.startswith(ENABLE) and FLOAT16 not in self.device.features:
                        fault = f"webgpu: kernel {kernel.name} has 16-bit floats as a type, and "
                        fault += f"the adapter has none: {self.name}"
                        raise device_error(fault, hint=AS_BITS)
                    self.pipelines[function] = self._pipeline(text, buffers)
        self._bound = Remembered[object, Any](MOST_BOUND)

    def _pipeline(self, text: str, buffers: int) -> tuple[Any, Any]:
        kinds = ["storage"] * buffers + ["uniform"]
        if self.is_cut:
            text = watched(text, len(kinds))
            kinds.append("storage")
        entries = [
            {"binding": at, "visibility": self.wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}}
            for at, kind in enumerate(kinds)
        ]
        layout = self.device.create_bind_group_layout(entries=entries)
        module = self.device.create_shader_module(code=text)
        made = self.device.create_compute_pipeline(
            layout=self.device.create_pipeline_layout(bind_group_layouts=[layout]),
            compute={"module": module, "entry_point": "main"},
        )
        return made, layout

    @contextmanager
    def _told(self, what: str, hint: str) -> Generator[None]:
        """Say in our words what wgpu refuses."""
        unless_forked("wgpu")
        try:
            yield
        except self.wgpu.GPUOutOfMemoryError as error:
            raise MemoryError(str(error)) from error
        except DeviceError:
            raise
        except (self.wgpu.GPUError, self.wgpu.GPUPipelineError, RuntimeError) as error:
            webgpu_device.cache_clear()  # it may be lost; another compile gets another one
            told = _first(error)
            hint = LOST if "device is lost" in told else hint
            raise device_error(f"webgpu: {what}: {told}", hint=hint) from error

    # -- memory ------------------------------------------------------------------------------------

    @override
    def reserve(self, size: int) -> WebGPUBuffer:
        whole = max(WORD, -(-size // WORD) * WORD)
        if whole > self.device.limits["max-buffer-size"]:
            raise MemoryError(f"{size:,} bytes")
        usage = self.wgpu.BufferUsage
        with self._told(f"a buffer of {size:,} bytes is not made", "use smaller sizes"):
            flags = usage.STORAGE | usage.COPY_SRC | usage.COPY_DST
            return WebGPUBuffer(self.device.create_buffer(size=whole, usage=flags), size)

    @override
    def free_bytes(self) -> int | None:
        return None

    @override
    def upload(self, location: Location, array: Array) -> None:
        data = array.reshape(-1).view(BYTE)
        data = np.pad(data, (0, -data.size % 4)) if data.size % 4 else data
        if data.size:
            with self._told("data are not copied", LOST):
                self.queue.write_buffer(_buffer(location), location.offset, data)

    @override
    def download(self, location: Location, array: Array) -> None:
        if array.nbytes:
            with self._told("results are not copied", LOST):
                whole = -(-array.nbytes // 4) * 4
                data = self.queue.read_buffer(_buffer(location), location.offset, whole)
                array.reshape(-1).view(BYTE)[...] = np.frombuffer(data, BYTE)[: array.nbytes]

    # -- launches ----------------------------------------------------------------------------------

    @override
    def commit(self, launches: Sequence[PlacedLaunch]) -> None:
        names = dict.fromkeys(launch.kernel.name for launch in launches)
        with self._told(f"of {', '.join(names)} one is not run", LOST):
            self._submit(launches)

    def _submit(self, launches: Sequence[PlacedLaunch]) -> None:
        encoder = self.device.create_command_encoder()
        compute = encoder.begin_compute_pass()
        for launch in launches:
            pipeline, _ = self.pipelines[launch.phase.function]
            compute.set_pipeline(pipeline)
            compute.set_bind_group(0, self._group(launch))
            compute.dispatch_workgroups(min(launch.blocks, MOST), -(-launch.blocks // MOST))
        compute.end()
        self.queue.submit([encoder.finish()])

    def _group(self, launch: PlacedLaunch) -> Any:  # noqa: ANN401  # wgpu's
        """Return what a launch binds: its buffers, and its numbers."""
        given = [argument for argument in launch.arguments if isinstance(argument, Location)]
        known = tuple((place.address, place.bytes) for place in given)
        numbers = [int(x) for x in launch.arguments if isinstance(x, np.generic)]
        if launch.phase.faults:
            given[-1], at = _from_start(given[-1])
            numbers.append(at)
        numbers.append(launch.blocks)
        key = launch.phase.function, known, tuple(numbers)
        return self._bound.get(key) or self._bound.keep(key, self._bind(launch, given, numbers))

    def _bind(self, launch: PlacedLaunch, given: Sequence[Location], numbers: list[int]) -> Any:  # noqa: ANN401  # wgpu's
        name, limits = launch.kernel.name, self.device.limits
        most = min(limits["max-storage-buffer-binding-size"], MOST_POSITIONS)
        large = max([launch.blocks * launch.phase.threads, *numbers])
        for size, what in ((max(place.bytes for place in given), "bytes"), (large, "positions")):
            allowed = most if what == "bytes" else MOST_POSITIONS
            if size > allowed:
                raise device_error(
                    f"webgpu: kernel {name} has a buffer of {size:,} {what}, and the adapter "
                    f"allows {allowed:,}: {self.name}",
                    hint="use smaller sizes, or ll.CPUCompiler()",
                )
        data = np.array([number & 0xFFFFFFFF for number in numbers], np.uint32)
        data = np.pad(data, (0, -len(data) % 4))
        uniform = self.device.create_buffer_with_data(
            data=data, usage=self.wgpu.BufferUsage.UNIFORM
        )
        bound = [
            {
                "buffer": _buffer(place),
                "offset": place.offset,
                "size": -(-max(1, place.bytes) // WORD) * WORD,
            }
            for place in given
        ]
        bound.append({"buffer": uniform, "offset": 0, "size": data.nbytes})
        bound += [{"buffer": self._end.buffer, "offset": 0, "size": WORD}] * self.is_cut
        return self.device.create_bind_group(
            layout=self.pipelines[launch.phase.function][1],
            entries=[{"binding": at, "resource": what} for at, what in enumerate(bound)],
        )

    @override
    def wait(self) -> None:
        with self._told("the device does not answer", LOST):
            # In order, so after everything else.
            (cut, *_) = np.frombuffer(self.queue.read_buffer(self._end.buffer), np.uint32)
        if cut:
            self.upload(Location(self._end, 0, WORD), np.zeros(4, np.uint32))
            raise device_error(
                f"webgpu: loops of a kernel end too early: a thread has more turns than "
                f"{self.name} runs, so the results are wrong",
                hint="bind more loops to threads in its schedule, or take ll.CPUCompiler()",
            )


LOST: Final = "compile again: if the device was lost, that finds another; restart the kernel if not"


def modules(kernel: Kernel) -> dict[str, str]:
    """Return the module of each function of a kernel, with what it calls."""
    made: dict[str, str] = {}
    for text in kernel.source.split(MODULE)[1:]:
        called = prelude("webgpu", {*NAME.findall(text)})
        enabled = ENABLE * (re.search(r"\bf16\b", text) is not None)
        made[text.partition("\n")[0]] = f"{enabled}{called}\n\n{MODULE}{text}"
    return made


def watched(text: str, number: int) -> str:
    """Return a module in which each loop looks whether it came to its end."""
    text = HEAD.sub(lambda match: f"for ({' '.join(match[1].split())}) {{", text)
    head = [ENABLE] * text.startswith(ENABLE)
    text = text.removeprefix(ENABLE)
    lines = [*head, f"@group(0) @binding({number}) var<storage, read_write> lab_cut: array<u32>;"]
    loops: list[tuple[str, str]] = []
    for line in text.split("\n"):
        if match := WATCHED.fullmatch(line):
            indent, start, condition, step = match.groups()
            lines += [f"{indent}{{ {start};", f"{indent}for (; {condition}; {step}) {{"]
            loops.append((indent, condition))
        elif loops and line == f"{loops[-1][0]}}}":
            indent, condition = loops.pop()
            lines.append(f"{line} if ({condition}) {{ lab_cut[0] = 1u; }} }}")
        else:
            lines.append(line)
    return "\n".join(lines)


def _buffer(location: Location) -> Any:  # noqa: ANN401  # wgpu's
    assert isinstance(location.memory, WebGPUBuffer)
    return location.memory.buffer


def _from_start(location: Location) -> tuple[Location, int]:
    """Return the memory in which a word lies, and where it does."""
    return Location(location.memory, 0, location.offset + 4), location.offset // 4


def _first(error: Exception) -> str:
    """Return the lines of an error that say what is wrong."""
    lines = [line.strip().removesuffix("Validation Error") for line in str(error).splitlines()]
    told = [line.rstrip(": ") for line in lines if line and line != "Caused by:"]
    return "; ".join(told[:6]) or type(error).__name__
