"""Run an exported model with NumPy and ctypes alone: Model(folder)(**inputs)."""

import ctypes
import hashlib
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np


class Model:
    """A model in a folder: called with arrays by name, it returns a dict of arrays by name.

    What is carried from run to run, such as a cache, is written over in the array that is given. A
    size that no input tells is given by its name, and `step` counts runs, for random numbers.
    """

    def __init__(self, folder: str | Path = Path(__file__).parent) -> None:
        folder = Path(folder).absolute()
        keys = "name", "library", "machine", "weights", "interface"
        try:
            about: Any = json.loads((folder / "model.json").read_bytes())
            self.name, code, machine, some, named = (about[key] for key in keys)
            if about["format"] != 1:
                raise ValueError(f"its format is {about['format']}")
            (self.inputs, self.outputs, self.dims), library = named, folder / code
        except (LookupError, RecursionError, TypeError, ValueError) as why:
            raise ValueError(f"{folder}/model.json is damaged, or not of format 1: {why}") from why
        kind = platform.machine().lower().replace("amd64", "x86_64").replace("arm64", "aarch64")
        here = f"{kind}-{platform.system().lower()}"
        if here != machine:
            raise OSError(
                f"{library.name} is for {machine}, and this is {here}: export it for {here}"
            )
        if not library.is_file():
            raise OSError(f"{library} is not there; make compiles it")
        code, pointer = ctypes.CDLL(str(library)), ctypes.c_void_p
        words = "open", "sizes_of", "run", "says", "interface"
        calls: list[Any] = [getattr(code, f"{self.name}_{word}", None) for word in words]
        for says in filter(None, calls[3:]):
            says.restype = ctypes.c_char_p
        known = hashlib.sha256(json.dumps(named).encode()).hexdigest()[:32]
        if not all(calls) or calls[-1]().decode() != known:
            raise OSError(f"{library.name} is not what model.json is about: export it again")
        self._open, self._sizes, self._run, self._says, _ = calls
        self._open.argtypes, self._sizes.argtypes = [pointer, ctypes.c_size_t], [pointer] * 2
        self._run.argtypes = [*[pointer] * 5, ctypes.c_uint32]
        file = folder / "weights.safetensors"
        exists = some and file.stat().st_size
        self._weights = np.memmap(file, np.uint8, "r") if exists else np.zeros(1, np.uint8)
        self._check(self._open(self._weights.ctypes.data, self._weights.size))

    def __call__(self, step: int = 0, **given: Any) -> dict[str, np.ndarray]:
        known = [one["name"] for one in self.inputs + self.dims]
        if others := ", ".join(given.keys() - known):
            raise TypeError(f"there is no input {others}: there are {', '.join(known)}")
        arrays = {one["name"]: self._array(one, given) for one in self.inputs}
        sizes = [self._size(dim, arrays, given) for dim in self.dims]
        dims = (ctypes.c_int64 * max(1, len(sizes)))(*sizes)
        axes = (ctypes.c_int64 * (1 + sum(one["rank"] for one in self.inputs + self.outputs)))()
        self._check(self._sizes(dims, axes))
        (arena, *left), outputs = axes, dict[str, np.ndarray]()
        for at, one in enumerate(self.inputs + self.outputs):
            name, shape, left = one["name"], tuple(left[: one["rank"]]), left[one["rank"] :]
            if at >= len(self.inputs):
                outputs[name] = arrays.get(one["carried"], np.empty(shape, one["numpy"]))
            elif (own := arrays[name].shape) != shape:
                raise ValueError(f"{name} has the shape {own}, and must be {shape}")
        new = [outputs[one["name"]] for one in self.outputs if not one["carried"]]
        places = [[array.ctypes.data for array in some] for some in (arrays.values(), new)]
        lists = [(ctypes.c_void_p * max(1, len(some)))(*some) for some in places]
        memory, weights = np.empty(arena, np.uint8), self._weights.ctypes.data
        self._check(self._run(dims, weights, *lists, memory.ctypes.data, step))
        return outputs

    def _array(self, one: dict[str, Any], given: dict[str, Any]) -> np.ndarray:
        if one["name"] not in given and one["start"]:  # the weight that it is at first
            begin, size, shape = one["start"]
            return self._weights[begin : begin + size].copy().view(one["numpy"]).reshape(shape)
        if one["name"] not in given:
            raise TypeError(f"{one['name']} is missing: {one['type']}")
        array = np.asarray(given.pop(one["name"]))
        if not np.can_cast(array.dtype, one["numpy"], "same_kind") or array.ndim != one["rank"]:
            raise TypeError(f"{one['name']} is {array.dtype} {array.shape}, not {one['type']}")
        return np.require(array, one["numpy"], ("C", "A", "W") if one["carried"] else ("C", "A"))

    def _size(self, dim: dict[str, Any], arrays: dict[str, Any], given: dict[str, Any]) -> int:
        size, told = given.pop(dim["name"], None), dim["from"]
        if size is None and told:
            size = (arrays[told[0]].shape[told[1]] - told[3]) // told[2]
        if not hasattr(size, "__index__") or not dim["low"] <= size <= dim["high"]:
            raise ValueError(f"{dim['name']} is {size}, and must be {dim['low']} to {dim['high']}")
        return int(size or 0)

    def _check(self, code: int) -> None:
        if code:
            kind = {3: ValueError, 4: IndexError}.get(code, OSError)
            raise kind(f"{self.name}: {self._says(code).decode()}")
