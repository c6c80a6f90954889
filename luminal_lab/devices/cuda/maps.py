"""Tensor maps: how a kernel's bulk copy finds tiles of a matrix; NVIDIA's driver makes them."""

from __future__ import annotations

import functools
import importlib
from typing import Any, Final

import numpy as np

from luminal_lab.core.dtypes import Array, DType
from luminal_lab.devices.build.located import device_error
from luminal_lab.kernels.tile_map import BYTES, TileMap

KINDS: Final = {DType.float16: "FLOAT16", DType.bfloat16: "BFLOAT16"}
"""How CUtensorMapDataType calls what is copied."""


@functools.lru_cache(maxsize=4096)
def tensor_map(address: int, tile: TileMap) -> Array:
    """Return the map of a matrix that lies at an address of the GPU's, as a kernel is given it.

    CuPy passes an array of one element by its bytes.
    """
    driver: Any = importlib.import_module("cuda.bindings.driver")
    kinds, swizzles = driver.CUtensorMapDataType, driver.CUtensorMapSwizzle
    status, encoded = driver.cuTensorMapEncodeTiled(
        getattr(kinds, f"CU_TENSOR_MAP_DATA_TYPE_{KINDS[tile.dtype]}"),
        2,
        address,
        [driver.cuuint64_t(tile.width), driver.cuuint64_t(tile.height)],
        [driver.cuuint64_t(tile.pitch)],
        [driver.cuuint32_t(tile.columns), driver.cuuint32_t(tile.rows)],
        [driver.cuuint32_t(1), driver.cuuint32_t(1)],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        swizzles.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if int(status):
        raise device_error(
            f"cuda: the driver makes no tensor map of {tile.buffer}, {tile.height:,} rows of "
            f"{tile.width:,}: status {int(status)}",
            hint='arch="sm_90" has kernels that need none',
        )
    words = np.array([int(word) for word in encoded.opaque], np.uint64)
    return words.view(np.dtype((np.void, BYTES)))
