"""The exercises of notebook 12: ops for two machines, a wrong device, an instruction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Protocol, cast

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.ir import IR
from luminal_lab.core.ops import MaxReduce
from luminal_lab.course.exercise import Exercise, Verdict
from luminal_lab.course.probing import drawn, equal, kind
from luminal_lab.nn.models.cnn import CNN
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.session import Graph
from luminal_lab.testing.conformance import Device, conformance

FLOATS = ("float64", "float32")
SIDE = 4
"""The array of which each element is one multiply and add."""
STEPS = 4
"""Three loads and what is done with them."""


class Suspect:
    """A device that is nearly right."""

    name = "suspect"

    def run(self, ir: IR, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Return the outputs of a graph; one op is not what it should be."""
        values: dict[int, Array] = {}
        for node in ir:
            if node.op.name == "input":
                values[node.id] = inputs[node.name]
                continue
            given = [values[id] for id in node.sources]
            if isinstance(node.op, MaxReduce):
                given = [_shortened(given[0], axis=node.op.axis)]
            with np.errstate(all="ignore"):
                values[node.id] = node.op.eval(*given)
        return [values[id] for id in ir.output_ids]


def _shortened(x: Array, axis: int) -> Array:
    whole = x.shape[axis] - x.shape[axis] % 8
    return x if not whole else np.take(x, range(whole), axis)


def passes_on(*ops: str, hint: str) -> Callable[[object], Verdict]:
    """Return a check of a device that is to compute ops."""

    def check(answer: object) -> Verdict:
        if isinstance(answer, type) or not _has_run(answer):
            text = f"expected a machine with a method run, got {kind(answer)}"
            return Verdict.no(text, "answer = StackMachine(…), with parentheses")
        return Verdict.all(
            *((f"it computes {op}", lambda op=op: _kit(answer, op), hint) for op in ops),
            ("what it could do before, it can still do", lambda: _kit(answer, "add", "sum_reduce")),
        )

    return check


def _has_run(answer: object) -> bool:
    try:
        return callable(getattr(answer, "run", None))
    except Exception:  # of whatever the answer does when it is asked
        return False


def _kit(answer: object, *ops: str) -> str:
    alone = ["elementwise", "reduction", "view"]
    report = conformance(cast("Device", answer), only=alone, ops=ops, dtypes=FLOATS)
    if report.unsupported:
        return report.unsupported[0].reason
    if not report.failed:
        return ""
    row = report.failed[0]
    return f"{len(report.failed)} of {len(report.rows)} cases are wrong: {row.case}: {row.reason}"


def culprit(answer: object) -> Verdict:
    """Does it name the op that the suspect gets wrong, and show it?"""
    if not isinstance(answer, tuple | list):
        hint = 'answer = ("sin", 3), say, if it is sin, on 3 numbers'
        return Verdict.no(f"expected a pair, got {kind(answer)}", hint)
    pair = list(cast("Iterable[object]", answer))
    if len(pair) != 2:
        return Verdict.no(f"expected a pair of an op and a length, got {len(pair)} things")
    op, length = pair
    name = op if isinstance(op, str) else getattr(op, "name", op)
    is_length = isinstance(length, int) and 0 < length <= 1000

    def shown() -> str:
        cx = Graph()
        cx.tensor((cast("int", length),), name="x").max(0).retrieve()
        x = np.arange(cast("int", length), dtype=np.float32)
        (got,) = Suspect().run(cx.ir, {"x": x})
        return f"the maximum of {length} numbers is right" if equal(got, x.max()) == "" else ""

    return Verdict.all(
        (
            "its first part is the name of an op that the kit blames",
            isinstance(name, str) and name == "max_reduce",
            "found = ll.devices.conformance(suspect), and then found.wrong_ops",
        ),
        (
            "its second part is a length, a number from 1 to 1,000",
            is_length,
            "print(found.failed[0]) shows the graph, and the length of its axis",
        ),
        (
            "with numbers in rising order, it is wrong at this length",
            shown,
            "which lengths have the cases that fail, and which those that pass?",
        ),
    )


def one_instruction(answer: object) -> Verdict:
    """Does a device compute x · y + z with one instruction?"""
    if not isinstance(answer, Pipeline):
        hint = "answer = StackCompiler(a machine, a pass)"
        return Verdict.no(f"expected a device's pipeline, got {kind(answer)}", hint)
    x, y, z = (drawn((SIDE, SIDE), seed) for seed in range(3))
    pipeline, counted = answer, _counter(answer) is not None
    steps: list[int] = []

    def computed() -> str:
        cx = Graph()
        a, b, c = (cx.tensor((SIDE, SIDE)).set(array) for array in (x, y, z))
        result = (a * b + c).retrieve()
        cx.compile(pipeline)
        before = _total(pipeline)
        cx.execute()
        steps.append(_total(pipeline) - before)
        return equal(result.numpy(), np.add(np.multiply(x, y), z))

    def few() -> str:
        each = steps[0] / SIDE**2
        return "" if 0 < each <= STEPS else f"expected at most {STEPS:g} for each, got {each:g}"

    def right() -> str:
        report = conformance(
            pipeline,
            only=["elementwise", "chain"],
            dtypes=FLOATS,
            unsupported=dict.fromkeys(LATER, "later"),
        )
        return "" if report.ok else f"{report.failed[0].case}: {report.failed[0].reason}"

    return Verdict.all(
        ("its machine counts what it executes", counted, "keep .machine, and its .executed"),
        ("x * y + z is right", computed),
        (
            f"it takes at most {STEPS} instructions for each element",
            few,
            "three loads, and one instruction that takes all three from the stack",
        ),
        ("the kit finds nothing wrong", right, "does anybody else read the product?"),
    )


LATER = ("mod", "where", "cast", "pad", "flip", "window", "iota", "gather", "scatter", "symbolic")


def runs_images(answer: object) -> Verdict:
    """Does a device compute windows, and a small convolutional network?"""
    if isinstance(answer, type) or not _has_run(answer):
        text = f"expected a machine with a method run, got {kind(answer)}"
        return Verdict.no(text, "answer = SmallXLA(…), with parentheses")
    device = cast("Device", answer)

    def windows() -> str:
        report = conformance(device, only="view", ops="window")
        rows = report.failed or report.unsupported
        return f"{rows[0].case}: {rows[0].reason}" if rows else ""

    def network() -> str:
        cx = Graph()
        images = cx.tensor((2, 8, 8), name="images").set(drawn((2, 8, 8), 0))
        logits = CNN(channels=(4, 8)).initialise(seed=1)(images).retrieve()
        cx.execute()
        wanted = logits.numpy()
        ir = cx.compile(GenericCompiler(), "inline", "dce").ir
        (got,) = device.run(ir, {node.name: cx[node.name].numpy() for node in ir.inputs})
        return equal(got, wanted)

    return Verdict.all(
        ("JAX is installed", find_spec("jax") is not None, 'pip install "luminal-lab[xla]"'),
        (
            "it computes window",
            windows,
            "window w of axis has the elements w · stride + k · dilation, for each k below size",
        ),
        (
            "a small convolutional network is right",
            network,
            "SmallXLA(IN_JAX | …) keeps the rest",
        ),
    )


class _Counting(Protocol):
    def total(self) -> int: ...


def _counter(pipeline: Pipeline) -> _Counting | None:
    executed = getattr(getattr(pipeline, "machine", None), "executed", None)
    return cast("_Counting", executed) if hasattr(executed, "total") else None


def _total(pipeline: Pipeline) -> int:
    counter = _counter(pipeline)
    return 0 if counter is None else counter.total()


EXERCISES = (
    Exercise(
        "12.1",
        "Make a machine that has mod as well: answer is a StackMachine that passes all of its "
        "cases in float64 and float32.",
        (
            "mod is elementwise, so it needs an entry in the table of the arithmetic, and one in "
            "that of the writers.",
            "Python's a % b has the sign of b, as it should; but what of b = 0, of infinity?",
            "A remainder by 0, and one of an infinity, are NaN.",
        ),
        '''def remainder(a, b):
    """a modulo b with the sign of b; NaN where there is none."""
    return a % b if b and math.isfinite(a) else NAN


answer = StackMachine(
    CAREFUL | {"mod": remainder}, WRITERS | {"mod": elementwise}
)''',
        passes_on("mod", hint="print(ll.devices.conformance(answer, ops='mod')) shows the data"),
    ),
    Exercise(
        "12.2",
        "Two more views are two more addresses: make a machine that has flip and pad.",
        (
            "flip: along op.axes the last element comes first. pad: an element of the result is "
            "one of the source, op.before further on; or it is 0.",
            "moved(…) takes a function of (op, old, new, place); pad needs a writer of its own, "
            "which pushes 0.0 where there is no source.",
            "The place in the source is k - before on each axis, and it is outside if it is "
            "below 0, or not below the source's size.",
        ),
        """def flipped(op, old, new, place):
    return tuple(
        size - 1 - k if axis in op.axes else k
        for axis, (size, k) in enumerate(zip(old, place))
    )


def padded(node, shapes, place):
    (source,) = node.sources
    at = tuple(k - before for k, before in zip(place, node.op.before))
    if all(0 <= k < size for k, size in zip(at, shapes[source])):
        yield "load", (source, at)
    else:
        yield "push", 0.0


answer = StackMachine(CAREFUL, WRITERS | {"flip": moved(flipped), "pad": padded})""",
        passes_on("flip", "pad", hint="write down where element 0 of a small array comes from"),
    ),
    Exercise(
        "12.3",
        "A colleague's device, suspect, gets one op wrong: answer is a pair of the op's name and "
        "a length of an axis at which it is wrong.",
        (
            "The kit takes any device: found = ll.devices.conformance(suspect).",
            "found.wrong_ops says which op; the cases of found.failed have their graphs.",
            "Look at which lengths fail: 7 does not, 9 does.",
        ),
        """found = ll.devices.conformance(suspect, dtypes="float32", only="reduction")
op = found.wrong_ops[0]
lengths = [row.case.ir.inputs[0].shape for row in found.failed if row.blamed == op]
print(op, lengths)
answer = (op, 9)""",
        culprit,
    ),
    Exercise(
        "12.4",
        "Give the machine one more fast op: answer is a device, a StackCompiler, that computes "
        "x * y + z with one load for each source and one instruction.",
        (
            "As with mac: an op, a pass that finds an add of a product that nobody else reads, and "
            "an entry in each of the tables.",
            "The op has three sources and is elementwise, so that its writer exists already.",
            "The product may be either source of the add; and it must not be an output.",
        ),
        '''@dataclass(frozen=True, slots=True)
class MulAdd(ll.Op):
    """x times y, plus z."""

    name: ClassVar[str] = "mul_add"

    def infer(self, x, y, z):
        return x

    def eval(self, x, y, z):
        return x * y + z


@dataclass(frozen=True)
class FuseSums(ll.Pass):
    """Write a product that something is added to as one op."""

    name: ClassVar[str] = "fuse-sums"

    def run(self, ir, edit):
        for node in ir:
            if node.op.name != "add" or not node.dtype.is_float:
                continue
            first, second = (ir[id] for id in node.sources)
            for product, other in ((first, second), (second, first)):
                alone = len(ir.users(product)) == 1 and not ir.is_output(product)
                if product.op.name == "mul" and alone and first is not second:
                    with edit.firing("mul-add", "nobody else reads the product"):
                        x, y = (ir[id] for id in product.sources)
                        made = edit.insert(MulAdd(), x, y, other, like=node)
                        edit.replace(node, made)
                    break


answer = StackCompiler(
    StackMachine(
        CAREFUL | {"mul_add": lambda x, y, z: x * y + z},
        WRITERS | {"mul_add": elementwise},
    ),
    FuseSums(),
)''',
        one_instruction,
    ),
    Exercise(
        "12.5",
        "Give XLA the view that images need: answer is a SmallXLA that has window as well, and "
        "with which a small convolutional network runs.",
        (
            'window is one more entry of the table: SmallXLA(IN_JAX | {"window": …}), a function '
            "of op and x.",
            "There are (length - dilation · (size - 1) - 1) // stride + 1 windows. Make an array "
            "of the positions that each of them reads, [windows, size].",
            "jnp.take(x, positions, op.axis) has both axes in place of the one; the second of them "
            "must become the last, and jnp.moveaxis does that.",
        ),
        """def window(op, x):
    span = op.dilation * (op.size - 1) + 1
    first = jnp.arange(0, x.shape[op.axis] - span + 1, op.stride)
    positions = first[:, None] + op.dilation * jnp.arange(op.size)
    return jnp.moveaxis(jnp.take(x, positions, op.axis), op.axis + 1, -1)


answer = SmallXLA(IN_JAX | {"window": window})""",
        runs_images,
        forks=False,
    ),
)
