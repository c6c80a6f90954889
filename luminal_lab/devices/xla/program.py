"""A graph for XLA: each call is a program, lowered to StableHLO for sizes of its dims, and run."""

from __future__ import annotations

# What JAX makes is of any type.
# pyright: reportUnknownMemberType=false
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np

from luminal_lab.core.binding import bound_shape
from luminal_lab.core.dims import Dim
from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Reduce, size_of
from luminal_lab.core.ops import Call, Input, Pick, Stored
from luminal_lab.core.printer import print_node
from luminal_lab.devices.runtime.plan import Remembered
from luminal_lab.devices.xla.forms import Lowering, has_form
from luminal_lab.errors import ArgumentError, DeviceError, DimError, RangeError
from luminal_lab.kernels.kernel import Kernel, Kernels
from luminal_lab.kernels.launch import Argument, Launch
from luminal_lab.writing import write_bytes

PLATFORMS: Final = ("cpu", "cuda", "rocm", "tpu")
"""The platforms for which JAX exports."""
MOST_PROGRAMS: Final = 128
"""How many compiled programs are kept: one for each call, its results, and sizes of dims."""
MASK: Final = 0xFFFFFFFF
INSTALL: Final = 'pip install "luminal-lab[xla]"; other devices and the interpreter go without it'


class XLALaunch(NamedTuple):
    """A program that XLA has compiled."""

    compiled: Any
    checked: tuple[str, ...]
    """The ops whose indices it checks."""


class XLAProgram:
    """A graph whose calls are XLA's, compiled for sizes of dims when a run has them."""

    def __init__(self, ir: IR, platform: str | None, sizes: Mapping[str, int]) -> None:
        self.ir, self.jax = ir, _jax()
        try:
            self.device = self.jax.devices(platform)[0]
        except RuntimeError as error:
            here = ", ".join(dict.fromkeys(device.platform for device in self.jax.devices()))
            raise DeviceError(
                f"xla: JAX has no platform {platform!r} here, but {here}",
                hint="leave it out; compilation.program.export(path) makes files for others",
            ) from error
        self.sizes: Mapping[str, int] = dict(sizes)
        """The sizes of dims of the last run."""
        self._launches = Remembered[tuple[object, ...], XLALaunch](MOST_PROGRAMS)
        self._texts = Remembered[tuple[object, ...], Any](MOST_PROGRAMS)
        self._resident: dict[int, tuple[tuple[int | None, ...], Any]] = {}
        """Inputs on the device, each with its version."""

    @property
    def kind(self) -> str:
        """What the device is called; nothing for this machine's processor."""
        return "" if self.device.platform == "cpu" else self.device.device_kind

    def is_launched(self, node: Node) -> bool:
        """Return whether XLA computes a node, and not NumPy."""
        return isinstance(node.op, Call) and has_form(node.op)

    # -- running -----------------------------------------------------------------------------------

    def run(
        self,
        environment: Environment,
        wanted: Iterable[int],
        known: Mapping[int, Array],
        trace: list[NodeStep] | None = None,
    ) -> dict[int, Array]:
        """Return the values of the wanted nodes, by their ids."""
        self.sizes, wanted = environment.dims, {*wanted}
        needed = self.ir.ancestors(wanted | environment.probes.keys(), known)
        values: dict[int, Any] = dict(known)
        for node in self.ir.nodes:
            if node.id not in needed or isinstance(node.op, Pick):
                continue
            results = [(0, node.id)]
            if node.extra:
                picks = [pick for pick in self.ir.users(node) if pick.id in needed]
                results = [(pick.op.index, pick.id) for pick in picks if isinstance(pick.op, Pick)]
            made, start = [id for _, id in results], perf_counter()
            if isinstance(node.op, Input):
                values[node.id] = environment.data(node)
            elif self.is_launched(node):
                values |= self._launched(node, results, values, environment)
            else:  # a call to the host, or an op that has no form in JAX
                values |= self._by_numpy(made, values, environment)
            if trace is not None and not isinstance(node.op, Input):
                size = sum(self.jax.block_until_ready(values[id]).nbytes for id in made)
                trace.append(NodeStep(node, perf_counter() - start, size, start))
            for id in made:
                for probe in environment.probes.get(id, ()):
                    probe(_frozen(values[id]))
        return {id: known[id] if id in known else np.array(values[id]) for id in wanted}

    def _by_numpy(
        self, wanted: Sequence[int], values: Mapping[int, Any], environment: Environment
    ) -> dict[int, Array]:
        """Let the interpreter compute nodes from the values of their sources."""
        plain = environment._replace(probes={})
        needed = {id for node in wanted for id in self.ir[node].sources}
        needed |= {id for node in [*needed] for id in self.ir[node].sources}  # behind a pick
        known = {id: _frozen(values[id]) for id in needed if id in values}
        return interpret(self.ir, plain, wanted=wanted, known=known)

    def _launched(
        self,
        node: Node,
        results: Sequence[tuple[int, int]],
        values: Mapping[int, Any],
        environment: Environment,
    ) -> dict[int, Any]:
        """Run the program of a call, and return the results with their ids."""
        body = node.op.body_of()
        assert body is not None, "only calls are launched"
        sizes = {name: environment.dims[name] for name in body.symbols}
        exits = tuple(body.output_ids[index] for index, _ in results)
        key = body, exits, *sizes.items()
        with self._ready():
            launch = self._launches.get(key)
            if launch is None:
                checked: list[str] = []
                compiled = self._lowered(body, exits, sizes, checked).compile()
                launch = self._launches.keep(key, XLALaunch(compiled, tuple(checked)))
            given = [self._put(id, values[id], environment) for id in node.sources]
            made, wrong = launch.compiled(np.uint32(environment.step & MASK), given)
            is_wrong = bool(np.any(wrong)) if launch.checked else False
        if is_wrong:
            raise self._out_of_range(node, values, environment)
        return dict(zip([id for _, id in results], made, strict=True))

    def _put(self, id: int, value: Any, environment: Environment) -> Any:
        """Return a value on the device, where inputs stay until they change."""
        node = self.ir[id]
        behind = node.sources if isinstance(node.op, Stored) else (id,)
        version = tuple(environment.versions.get(source) for source in behind)
        kept, array = self._resident.get(id, (None, None))
        if None in version:
            return self.jax.device_put(value, self.device)
        if kept != version:
            array = self.jax.device_put(value, self.device)
            self._resident[id] = version, array
        return array

    def _out_of_range(
        self, node: Node, values: Mapping[int, Any], environment: Environment
    ) -> RangeError:
        """Return the interpreter's error about an index, which says where it is."""
        error = RangeError(f"{node}: an index is out of range")
        try:
            self._by_numpy([node.id], values, environment)
        except RangeError as told:
            error = told
        error.node = node.id
        return error

    @contextmanager
    def _ready(self) -> Generator[None]:
        """Let JAX have 64 bits and this device for a while, and tell its errors as ours."""
        try:
            with self.jax.enable_x64(True), self.jax.default_device(self.device):
                yield
        except self.jax.errors.JaxRuntimeError as error:
            told = str(error).splitlines()[0]
            hint = "the interpreter runs the same graph: compile it without XLACompiler()"
            raise DeviceError(f"xla: {self.device.platform}: {told}", hint=hint) from error

    # -- lowering ----------------------------------------------------------------------------------

    def _lowered(
        self, body: IR, exits: Sequence[int], sizes: Mapping[str, int], checked: list[str]
    ) -> Any:
        """Lower what a call computes, for sizes of dims; note the ops whose indices it checks."""

        def program(step: Any, given: Sequence[Any]) -> Any:
            lowering = Lowering(sizes, step)
            values = dict(zip(body.input_ids, given, strict=True))
            made = lowering.values(body, values, exits)
            checked[:] = [op for op, _ in lowering.wrong]
            return made, [flag for _, flag in lowering.wrong]

        program.__name__ = body.name
        shape, step = self.jax.ShapeDtypeStruct, np.uint32(0)
        given = [
            shape(bound_shape(str(node), node.shape, sizes), node.dtype.numpy)
            for node in body.inputs
        ]
        return self.jax.jit(program).lower(step, given)

    @property
    def stablehlo(self) -> str:
        """The programs as StableHLO's text, for the sizes of the last run.

        >>> y = (cx.tensor((2,), name="x") * 2).retrieve()
        >>> program = cx.compile(ll.GenericCompiler(), ll.XLACompiler()).program
        >>> "stablehlo.multiply" in program.stablehlo
        True
        """
        bodies = dict.fromkeys(body for _, body in self._calls())
        return "\n".join(self._text(body) for body in bodies)

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The programs of a run, in order, as kernels whose source is StableHLO."""
        kernels: dict[IR, Kernel] = {}
        launches: list[Launch] = []
        for node, body in self._calls():
            if body not in kernels:
                name = body.name if not kernels else f"{body.name}_{len(kernels) + 1}"
                kernels[body] = self._kernel(body, name)
            picks = [pick for pick in self.ir.users(node) if node.extra]
            buffers = [Argument(self.ir[id].name, self.ir[id].type, False) for id in node.sources]
            buffers += [Argument(made.name, made.type, True) for made in picks or [node]]
            scope, number = node.meta.scope, len(launches)
            launches.append(Launch(number, kernels[body], tuple(buffers), node.id, scope))
        return tuple(launches)

    @property
    def kernels(self) -> Kernels:
        """The distinct programs."""
        return Kernels(dict.fromkeys(launch.kernel for launch in self.launches))

    def _calls(self) -> Iterator[tuple[Node, IR]]:
        for node in self.ir.nodes:
            body = node.op.body_of()
            if body is not None and self.is_launched(node):
                yield node, body

    def _kernel(self, body: IR, name: str) -> Kernel:
        try:
            text = self._text(body)
        except DimError as error:
            text = f"// {error.message}: a run has the sizes, or specialise="
        flops: list[Dim] = [0]
        for node in body:
            if isinstance(node.op, Elementwise | Reduce):
                counted = body[node.sources[0]] if isinstance(node.op, Reduce) else node
                flops.append(size_of(counted.shape))
        ends = [*body.inputs, *body.outputs]
        moved = [size_of(node.shape) * node.dtype.itemsize for node in ends]
        names = tuple(node.name for node in ends)
        return Kernel(
            name,
            None,
            text,
            (),
            given_dims=tuple(body.symbols),
            given_names=names,
            cost=(sum(flops, 0), sum(moved, 0)),
            dialect="stablehlo",
        )

    def _text(self, body: IR) -> str:
        """Return a program's text, for the sizes of the last run."""
        sizes = {name: self.sizes[name] for name in body.symbols if name in self.sizes}
        key = body, *sizes.items()
        with self._ready():
            lowered = self._texts.get(key) or self._lowered(body, body.output_ids, sizes, [])
        return self._texts.keep(key, lowered).as_text()

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
        named = [platforms] if isinstance(platforms, str) else [*platforms]
        for name in named:
            fault = f"export: JAX exports for no platform {name!r}"
            ArgumentError.unless_known(name, PLATFORMS, fault, f"it has {', '.join(PLATFORMS)}")
        for node in self.ir:
            if not has_form(node.op) and node.id in self.ir.ancestors(self.ir.output_ids):
                raise DeviceError(
                    f"export: XLA has no form of {node.op.name}, which NumPy computes here",
                    where=print_node(self.ir, node),
                    hint="write it with other ops, or run the graph here",
                )
        sizes, shape = {**self.sizes, **(dims or {})}, self.jax.ShapeDtypeStruct

        def program(inputs: Mapping[str, Any], step: Any = 0) -> dict[str, Any]:
            values = {node.id: inputs[node.name] for node in self.ir.inputs}
            made = Lowering(sizes, step).values(self.ir, values, self.ir.output_ids)
            return {node.name: value for node, value in zip(self.ir.outputs, made, strict=True)}

        program.__name__ = self.ir.name
        inputs = {
            node.name: shape(bound_shape(str(node), node.shape, sizes), node.dtype.numpy)
            for node in self.ir.inputs
        }
        with self._ready():
            exporting = import_module("jax.export").export
            exported = exporting(self.jax.jit(program), platforms=named)(inputs)
        write_bytes("export", path, exported.serialize())
        return Path(path)


def _jax() -> Any:
    try:
        return import_module("jax")
    except ImportError as error:
        raise DeviceError(f"xla: JAX cannot be imported: {error}", hint=INSTALL) from error


def _frozen(value: Any) -> Array:
    """Return a value as an array that nobody may write to."""
    view = np.asarray(value).view()
    view.flags.writeable = False
    return view
