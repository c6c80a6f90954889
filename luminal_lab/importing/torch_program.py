"""An exported program as a module of ours: its values, its arguments and results, its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from luminal_lab.core.op import TensorType
from luminal_lab.errors import ModelError
from luminal_lab.importing.aten import OPS
from luminal_lab.importing.imported import Imported, Ref, Structure, named
from luminal_lab.importing.torch_sizes import Torch, array_of, dtype_of, sizes_of, type_of
from luminal_lab.importing.torch_steps import Reading, matrices, needed, refuse
from luminal_lab.importing.torch_trial import tried
from luminal_lab.tensor.parameter import Parameter


def as_module(
    torch: Torch, program: Torch, kind: str, dynamic: Mapping[str, Any] | None, is_live: bool
) -> Imported:
    """Return an exported program as a module of ours."""

    names = _argument_names(program)
    program = program.run_decompositions(decompositions(torch, OPS))
    signature = program.graph_signature
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    sizes = sizes_of(torch, program, placeholders, names, dynamic or {})
    renamed, parameters, constants, numbers = _values_of(torch, program)
    taken = {*renamed.values(), *constants}
    for node in program.graph.nodes:
        if node.op != "placeholder" and node.name in taken:
            renamed[node.name] = f"{node.name}_"
    reading = Reading(torch, renamed, numbers, is_live)
    user = [spec.arg for spec in signature.input_specs if spec.kind.name == "USER_INPUT"]
    types = {
        arg.name: type_of(torch, placeholders[arg.name].meta["val"], sizes, arg.name)
        for arg in user
        if isinstance(placeholders[arg.name].meta.get("val"), torch.Tensor)
    }
    steps, missing = reading.steps(program.graph, OPS)
    refuse(missing)
    outputs, updates = _outputs_of(program, reading)
    parts: dict[str, Any] = {
        "inputs": _inputs_of(program, names, user, types),
        "types": types,
        "steps": needed(steps, (outputs, [Ref(name) for name in updates.values()])),
        "outputs": outputs,
        "parameters": parameters,
        "constants": constants,
        "updates": updates,
        "matrices": matrices(steps, parameters),
        "kinds": reading.kinds,
    }
    tried(torch, program, kind, parts, sizes, reading)
    return named(kind, **parts)


def decompositions(torch: Torch, ops: Iterable[str]) -> Torch:
    """Return what torch takes apart: all that the table has nothing for."""
    table = torch.export.default_decompositions()
    for name in ops:
        family, _, rest = name.partition(".")
        packet, _, overload = rest.partition(".")
        if family == "aten":
            op = getattr(getattr(torch.ops.aten, packet, None), overload, None)
            if op is not None:
                table.pop(op, None)
    return table


def _argument_names(program: Torch) -> list[str]:
    """Return the names of the arguments of a program's forward."""
    signature = program.module_call_graph[0].signature
    positional, words = signature.in_spec.children()
    given: list[str] = list(signature.forward_arg_names or ())
    count = len(positional.children())
    names = given[:count] if len(given) >= count else [f"x{k}" for k in range(count)]
    return [*names, *words.context]


def _values_of(
    torch: Torch, program: Torch
) -> tuple[dict[str, str], dict[str, Parameter], dict[str, Parameter], dict[str, Structure]]:
    """Return the names of inputs that are values, the parameters, the hidden ones, the numbers."""
    renamed: dict[str, str] = {}
    parameters: dict[str, Parameter] = {}
    constants: dict[str, Parameter] = {}
    numbers: dict[str, Structure] = {}
    shared: dict[object, Parameter] = {}
    for spec in program.graph_signature.input_specs:
        kind, target = spec.kind.name, spec.target
        if kind not in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            if kind != "USER_INPUT":
                raise ModelError(
                    f"from_torch: the program has an input of the kind {kind.lower()}",
                    hint="export a module whose arguments and values are tensors",
                )
            continue
        value = program.state_dict.get(target)
        value = program.constants.get(target) if value is None else value
        if kind == "CONSTANT_TENSOR" and value.dim() == 0:
            numbers[spec.arg.name] = value.item(), dtype_of(value.dtype, target)
            continue
        key = value.data_ptr(), tuple(value.shape), value.stride(), value.dtype, value.numel() > 0
        parameter = shared.get(key) if value.numel() else None
        if parameter is None:
            dtype = dtype_of(value.dtype, target)
            trained = kind == "PARAMETER" and dtype.is_float
            parameter = shared[key] = Parameter(
                tuple(value.shape), dtype, value=array_of(torch, value), trainable=trained
            )
        is_saved = kind == "PARAMETER" or (kind == "BUFFER" and spec.persistent is not False)
        (parameters if is_saved else constants)[target] = parameter
        renamed[spec.arg.name] = target
    return renamed, parameters, constants, numbers


# -- arguments and results -------------------------------------------------------------------------


def _inputs_of(
    program: Torch, names: Sequence[str], user: Sequence[Torch], types: Mapping[str, TensorType]
) -> dict[str, Structure]:
    """Return where tensors are in the arguments of forward."""
    spec = program.module_call_graph[0].signature.in_spec
    leaves = iter([_leaf(arg, types) for arg in user])
    arguments = [*spec.child(0).children(), *spec.child(1).children()]
    return {
        name: _structure(argument, leaves) for name, argument in zip(names, arguments, strict=True)
    }


def _leaf(arg: Torch, types: Mapping[str, TensorType]) -> Structure:
    """Return an argument as a reference, or as the constant that it was exported with."""
    if arg.name in types or not hasattr(arg, "value"):
        return Ref(arg.name)
    return arg.value


def _structure(spec: Torch, leaves: Iterator[Structure]) -> Structure:
    """Return the structure that torch describes, with leaves of ours."""
    if spec.is_leaf():
        return next(leaves)
    parts = [_structure(child, leaves) for child in spec.children()]
    kind, context = spec.type, spec.context
    if issubclass(kind, Mapping) or (
        isinstance(context, (list, tuple))
        and len(cast("list[object]", context)) == len(parts)
        and all(isinstance(key, str) for key in cast("list[object]", context))
    ):
        keys = cast("Iterable[Any]", context if isinstance(context, (list, tuple)) else context[1])
        return dict(zip(keys, parts, strict=True))
    return parts if kind is list else tuple(parts)


def _outputs_of(program: Torch, reading: Reading) -> tuple[Structure, dict[str, str]]:
    """Return what forward returns, and the buffers that it changes."""
    leaves: list[Structure] = []
    updates: dict[str, str] = {}
    (output,) = [node for node in program.graph.nodes if node.op == "output"]
    nodes = dict(enumerate(cast("Sequence[Torch]", output.args[0])))
    for at, spec in enumerate(program.graph_signature.output_specs):
        kind, node = spec.kind.name, nodes.get(at)
        if kind == "USER_OUTPUT":
            is_node = isinstance(node, reading.torch.fx.Node)
            leaves.append(Ref(reading.name_of(node)) if is_node else node)
        elif kind == "BUFFER_MUTATION":
            updates[spec.target] = reading.name_of(node)
        elif kind != "TOKEN":
            raise ModelError(
                f"from_torch: forward writes into its argument {spec.target}",
                hint="return the changed value, or keep it in a buffer of the module",
            )
    spec = program.module_call_graph[0].signature.out_spec
    return _structure(spec, iter(leaves)), updates
