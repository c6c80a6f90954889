"""A graph for XLA: each call is a program, lowered to StableHLO for sizes of its dims, and run."""

from __future__ import annotations

# What JAX makes is of any type.
# pyright: reportUnknownMemberType=false
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from typing_extensions import override

from luminal_lab.core.binding import bound_shape
from luminal_lab.core.ir import IR
from luminal_lab.devices.runtime.plan import Remembered
from luminal_lab.devices.runtime.whole import WholeProgram
from luminal_lab.devices.xla.forms import Lowering, has_form
from luminal_lab.errors import ArgumentError, DeviceError, LabError
from luminal_lab.passes.sizes import asked_sizes
from luminal_lab.writing import write_bytes

PLATFORMS: Final = ("cpu", "cuda", "rocm", "tpu")  # for which JAX exports
MOST_PROGRAMS: Final = 128  # that are kept: one for each call, its results, and sizes of dims
OLDEST: Final = (0, 10)
ELSEWHERE: Final = '"cpu" runs here unless JAX_PLATFORMS is set; program.export(path) is for others'
OTHERS: Final = "the interpreter runs the same graph: compile it without XLACompiler()"
INSTALL: Final = 'pip install "luminal-lab[xla]"; other devices and the interpreter go without it'


class XLAProgram(WholeProgram):
    """A graph whose calls are XLA's, compiled for sizes of dims when a run has them."""

    dialect = "stablehlo"
    library = "JAX"

    def __init__(self, ir: IR, platform: str | None, sizes: Mapping[str, int] | None) -> None:
        super().__init__(ir, has_form, sizes)
        self.jax, self.device = jax_device(platform)
        self._lowered, self._compiled = (Remembered[Any, Any](MOST_PROGRAMS) for _ in range(2))

    @property
    def kind(self) -> str:
        """What the device is called; nothing for this machine's processor."""
        return "" if self.device.platform == "cpu" else self.device.device_kind

    @override
    def put(self, values: Sequence[Any]) -> Sequence[Any]:
        with self._ready():
            return self.jax.device_put([*values], self.device)

    @override
    def launch(
        self, body: IR, exits: Sequence[int], given: Sequence[Any], over: Sequence[bool], step: int
    ) -> tuple[Sequence[Any], bool]:
        with self._ready():
            lowered = self.lowered(body, exits, over)
            run = self._compiled.get(lowered) or self._compiled.keep(lowered, lowered.compile())
            made, wrong = self.jax.block_until_ready(run(np.uint32(step & 0xFFFFFFFF), *given))
            return made, any(map(bool, wrong))

    @contextmanager
    def _ready(self) -> Generator[None]:
        """Let JAX have 64 bits and this device for a while, and tell its errors as ours."""
        try:
            with self.jax.enable_x64(True), self.jax.default_device(self.device):
                yield
        except LabError:
            raise
        except (self.jax.errors.JaxRuntimeError, NotImplementedError, TypeError) as error:
            told = str(error).partition("\n")[0]
            out = MemoryError(told) if told.startswith("RESOURCE_EXHAUSTED") else None
            raise out or DeviceError(f"xla: {self.device.platform}: {told}", hint=OTHERS) from error

    # -- lowering ----------------------------------------------------------------------------------

    def lowered(self, body: IR, exits: Sequence[int], over: Sequence[bool] = ()) -> Any:
        """Lower what a call computes for the sizes of the last run; see `launch`."""
        sizes = self.sizes_of(body, {}, "specialise")
        key = body, tuple(exits), tuple(over), *sizes.items()

        def program(step: Any, *given: Any) -> Any:
            lowering = Lowering(sizes, step)
            made = lowering.values(body, dict(zip(body.input_ids, given, strict=True)), exits)
            return made, lowering.wrong

        if key not in self._lowered:
            program.__name__ = body.name
            jitted = self.jax.jit(program, donate_argnums=np.flatnonzero([False, *over]).tolist())
            self._lowered.keep(key, jitted.lower(np.uint32(0), *self._shapes(body, sizes).values()))
        return self._lowered[key]

    def _shapes(self, ir: IR, sizes: Mapping[str, int]) -> dict[str, Any]:
        """Return the inputs of a graph as JAX knows them, by their names."""
        shape = self.jax.ShapeDtypeStruct
        return {
            node.name: shape(bound_shape(str(node), node.shape, sizes), node.dtype.numpy)
            for node in ir.inputs
        }

    @override
    def text_of(self, body: IR) -> str:
        with self._ready():
            return self.lowered(body, body.output_ids).as_text()

    @property
    def stablehlo(self) -> str:
        """The programs as StableHLO's text, for the sizes of the last run.

        >>> y = (cx.tensor((2,), name="x") * 2).retrieve()
        >>> program = cx.compile(ll.GenericCompiler(), ll.XLACompiler()).program
        >>> "stablehlo.multiply" in program.stablehlo
        True
        """
        return "\n".join(map(self.text_of, dict.fromkeys(self.calls.values())))

    def export(
        self,
        path: str | Path,
        platforms: Sequence[str] = PLATFORMS,
        *,
        dims: Mapping[str, int] | None = None,
    ) -> Path:
        """Write the whole graph as a file that JAX runs on these platforms, without this package.

        In there, `jax.export.deserialize(data).call(inputs)` takes arrays by the names of inputs,
        and returns those of the outputs by their names. `dims` are the sizes that no run has set.

        >>> y = (cx.tensor((2,), name="x") * 2).named("y").retrieve()
        >>> program = cx.compile(ll.GenericCompiler(), ll.XLACompiler()).program
        >>> program.export(folder / "twice.jax", ["cpu", "tpu"]).name
        'twice.jax'
        """
        ir, asked = self.ir, asked_sizes(self.ir, dims or {}, "export: dims")
        named = platforms if platforms and isinstance(platforms, list | tuple) else [platforms]
        for name in named:
            if name not in PLATFORMS:
                has = f"it has {', '.join(PLATFORMS)}"
                raise ArgumentError(f"export: JAX exports for no platform {name!r}", hint=has)
        self.unless_whole("export: XLA")
        sizes = self.sizes_of(ir, asked, "dims")

        def program(inputs: Mapping[str, Any], step: Any = 0) -> dict[str, Any]:
            values = {node.id: inputs[node.name] for node in ir.inputs}
            made = Lowering(sizes, step).values(ir, values, ir.output_ids)
            return {node.name: value for node, value in zip(ir.outputs, made, strict=True)}

        program.__name__ = ir.name
        with self._ready():
            exporting = import_module("jax.export").export
            exported = exporting(self.jax.jit(program), platforms=named)(self._shapes(ir, sizes))
        write_bytes("export", path, exported.serialize())
        return Path(path)


def jax_device(platform: str | None) -> tuple[Any, Any]:
    """Return JAX and its device, or say what is missing."""
    try:
        jax = import_module("jax")
        if jax.__version_info__ < OLDEST:
            raise ImportError(f"{jax.__version__} is too old: it must be {OLDEST[0]}.{OLDEST[1]}")
        return jax, jax.devices(platform)[0]
    except (ImportError, AttributeError) as error:
        raise DeviceError(f"xla: JAX cannot be imported: {error}", hint=INSTALL) from error
    except (RuntimeError, AssertionError) as error:  # the latter if JAX_PLATFORMS names none here
        told = f"xla: JAX cannot run on {platform or 'its own platform'} here: "
        told += str(error).partition("\n")[0] or "it finds no device"
        raise DeviceError(told, hint=ELSEWHERE) from error
