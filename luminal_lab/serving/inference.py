"""The Open Inference Protocol, version 2, as JSON: what a model takes, and runs of it.

GET  /v2                        the server, and what it speaks
GET  /v2/health/live, ready     200
GET  /v2/models/NAME            inputs and outputs: names, datatypes, shapes
GET  /v2/models/NAME/ready      200
POST /v2/models/NAME/infer      {"inputs": [{"name", "shape", "datatype", "data"}, …]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from luminal_lab.reading import shown_json as shown
from luminal_lab.serving.app import Route
from luminal_lab.serving.batching import Batches
from luminal_lab.serving.http import Answer, ProblemError, Request, as_json
from luminal_lab.serving.library import Exported, Port, Value
from luminal_lab.serving.tensors import count_of, flat, packed, unpacked

MOST: Final = 1000
"""The most arrays that a request may name."""
LIKE: Final = '{"name": …, "datatype": …, "shape": …, "data": …}'


class Inference:
    """A model that answers with arrays."""

    platform = "luminal_lab_c"

    def __init__(self, name: str, model: Exported, batches: Batches) -> None:
        self.name, self.model, self._batches = name, model, batches
        self._inputs = {port.name: at for at, port in enumerate(model.inputs)}

    def routes(self) -> dict[str, Route]:
        """Return its routes."""
        return {f"/v2/models/{self.name}/infer": ("POST", self.infer)}

    def close(self) -> None:
        """End what is under way."""
        self._batches.close()

    def metadata(self) -> dict[str, object]:
        """Return what the model takes and returns."""
        told = [
            [self._told(port) for port in ports]
            for ports in (self.model.inputs, self.model.outputs)
        ]
        dims = {dim.name: None for dim in self.model.dims if dim.told is None}
        more = {"parameters": {"dims": [*dims]}} if dims else {}
        return {
            "name": self.name,
            "versions": ["1"],
            "platform": self.platform,
            "inputs": told[0],
            "outputs": told[1],
            **more,
        }

    def _told(self, port: Port) -> dict[str, object]:
        shape = [-1 if axis.size is None else axis.size for axis in port.axes]
        if isinstance(self.model.batch, int):
            shape[0] = -1
        return {"name": port.name, "datatype": port.kind.name, "shape": shape}

    async def infer(self, request: Request) -> Answer:
        """Run it once, with whoever else waits."""
        asked = await request.json()
        id = asked.get("id", "")
        if not isinstance(id, str) or len(id) > 200:
            raise ProblemError(400, "id is no text of at most 200 letters")
        wanted = self._wanted(asked.get("outputs"))
        given, step = self._parameters(asked.get("parameters"))
        if "inputs" not in asked:
            raise ProblemError(400, f"inputs is missing: it is a list of {LIKE}")
        try:
            inputs = self._values(asked["inputs"], given)
        except ValueError as error:
            raise ProblemError(400, str(error)) from None
        del asked
        job = self._batches.submit(inputs, given, step)
        try:
            outputs: list[Value] = await request.unless_gone(job.done)
        except ValueError as error:  # an index out of range
            raise ProblemError(400, str(error)) from None
        answer = [
            {
                "name": port.name,
                "datatype": port.kind.name,
                "shape": [*value.shape],
                "data": unpacked(value.data, port.kind),
            }
            for port, value in zip(self.model.outputs, outputs, strict=True)
            if wanted is None or port.name in wanted
        ]
        named = {"id": id} if id else {}
        return as_json({"model_name": self.name, "model_version": "1", **named, "outputs": answer})

    def _wanted(self, outputs: object) -> set[str] | None:
        if outputs is None or outputs == []:
            return None
        known, names = [port.name for port in self.model.outputs], set[str]()
        for one in _objects("outputs", outputs):
            if one.get("name") not in known:
                raise ProblemError(
                    400,
                    f"there is no output {shown(one.get('name'))}: there are {', '.join(known)}",
                )
            names.add(one["name"])
        return names

    def _parameters(self, given: object) -> tuple[dict[str, int], int]:
        """Return the sizes of dims that no input tells, and the number of runs before."""
        if given is None:
            return {}, 0
        if not isinstance(given, dict):
            raise ProblemError(400, "parameters is no object")
        named = cast("dict[str, object]", given)
        sizes, step = dict[str, int](), 0
        known = [dim.name for dim in self.model.dims if dim.told is None]
        for name, value in named.items():
            if name in known or name == "step":
                if (
                    not isinstance(value, int)
                    or isinstance(value, bool)
                    or not 0 <= value < 1 << 32
                ):
                    raise ProblemError(400, f"{name} is {shown(value)}, and must be a whole number")
                if name == "step":
                    step = value
                else:
                    sizes[name] = value
        return sizes, step

    def _values(self, inputs: object, given: Mapping[str, int]) -> list[Value]:
        """Return the arrays, whose shapes are looked at before their numbers are."""
        model = self.model
        asked: dict[str, Mapping[str, Any]] = {}
        for one in _objects("inputs", inputs):
            name = _known(one, self._inputs)
            if name in asked:
                raise ValueError(f"inputs has {name} twice")
            asked[name] = one
        shapes: dict[str, tuple[int, ...]] = {}
        for port in model.inputs:
            if port.name in asked:
                shapes[port.name] = _shape(port, asked[port.name], is_open=self._is_open)
            elif port.start is not None:
                shapes[port.name] = port.start[2]
            else:
                raise ValueError(f"the input {port.name} is missing: {port.type}")
        whole = self._whole(shapes)
        wanted = model.need(model.sizes(whole, given))
        for port, shape in zip(model.inputs, wanted, strict=False):
            if whole[port.name] != shape:
                raise ValueError(
                    f"{port.name} has the shape {[*shapes[port.name]]}, and must be {[*shape]}"
                )
        return [
            _value(port, asked[port.name], shapes[port.name])
            if port.name in asked
            else model.start_of(port)
            for port in model.inputs
        ]

    @property
    def _is_open(self) -> bool:
        """Whether the number of rows is open though the export has fixed it."""
        return isinstance(self.model.batch, int)

    def _whole(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the run in which these rows are."""
        if self.model.batch is None:
            return {**shapes}
        counts = {shape[0] for shape in shapes.values()}
        if len(counts) > 1:
            raise ValueError(f"the inputs have {sorted(counts)} rows, and must have equally many")
        (rows,) = counts
        if not rows >= 1:
            raise ValueError("there are no rows")
        whole = self._batches.whole(rows)
        return {name: (whole, *shape[1:]) for name, shape in shapes.items()}


def _objects(what: str, given: object) -> list[Mapping[str, Any]]:
    if not isinstance(given, list):
        raise ProblemError(400, f"{what} is {shown(given)}, and must be a list")
    if (count := len(cast("list[object]", given))) > MOST:
        raise ProblemError(400, f"{what} has {count:,} entries, and may have {MOST:,}")
    for one in cast("list[object]", given):
        if not isinstance(one, dict):
            raise ProblemError(400, f"{what} has {shown(one)}, which is no object")
    return cast("list[Mapping[str, Any]]", given)


def _known(one: Mapping[str, Any], known: Mapping[str, int]) -> str:
    name = one.get("name")
    if not isinstance(name, str) or name not in known:
        there = ", ".join(known) or "none"
        raise ProblemError(400, f"there is no input {shown(name)}: there are {there}")
    return name


def _shape(port: Port, one: Mapping[str, Any], *, is_open: bool) -> tuple[int, ...]:
    """Return the shape that a client says, as far as it is one for this input."""
    kind: object = one.get("datatype")
    given: object = one.get("shape")
    refusal = f"{port.name} has the shape {shown(given)}, and must be {port.type}"
    for word, wanted in (("datatype", port.kind.name), ("shape", port.type)):
        if word not in one:
            raise ValueError(f"{port.name} has no {word}, and must be {wanted}")
    if kind != port.kind.name:
        raise ValueError(f"{port.name} is of {shown(kind)}, and must be of {port.kind.name}")
    if not isinstance(given, list) or len(cast("list[object]", given)) != len(port.axes):
        raise ValueError(refusal)
    for at, (size, axis) in enumerate(zip(cast("list[object]", given), port.axes, strict=True)):
        fits = isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 40
        is_fixed = axis.size is not None and not (is_open and at == 0)
        if not fits or (is_fixed and size != axis.size):
            raise ValueError(refusal)
    return tuple(cast("list[int]", given))


def _value(port: Port, one: Mapping[str, Any], shape: Sequence[int]) -> Value:
    """Return an array of JSON's numbers."""
    if "data" not in one:
        raise ValueError(f"{port.name} has no data; binary data are not taken, JSON is")
    try:
        return Value(tuple(shape), packed(flat(one["data"], shape), port.kind))
    except ValueError as error:
        raise ValueError(f"{port.name}: {error}; it must be {count_of(shape):,} numbers") from None
