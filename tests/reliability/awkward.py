"""Images that nobody expects: odd shapes, types, values, containers and options.

Not for: what must become of them (test_input).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr
import zarr
from hypothesis import strategies as st

SHAPES = [
    (1, 1), (1, 9), (9, 1), (2, 2), (7, 13), (5, 3), (3, 3, 3), (6, 7, 3), (6, 7, 4), (1, 1, 4),
    (5, 6, 1), (5, 6, 2), (2, 9, 8), (3, 5, 7), (4, 6, 5), (2, 3, 6, 5), (1, 2, 1, 5, 4),
    (2, 1, 5, 6, 3), (), (4,), (0, 5), (5, 0, 3),
]  # fmt: skip
TYPES = [
    "bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "g", "c8", "c16",
    ">u2", ">i4", ">f4", ">f8", ">u8", "M8[s]", "O", "U3",
]  # fmt: skip
VALUES = [
    "noise", "constant", "zero", "negative", "largest", "smallest", "huge range", "denormal",
    "nan", "inf", "all nan", "one hot pixel", "almost constant",
]  # fmt: skip
CONTAINERS = [
    "array", "array", "read-only", "transposed", "reversed", "every other", "fortran", "masked",
    "no mask", "dask", "zarr", "xarray", "xarray of dask", "list", "subclass", "pyramid",
]  # fmt: skip
RANGES = ["auto", "auto", "dtype", "unit", "percentile", (0.0, 1.0), (-1e300, 1e300), (5.0, 5.5),
          (0.0, 1e-305)]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Awkward:
    """An image as it is handed over, and the same as a plain array."""

    image: Any
    plain: np.ndarray[Any, Any]
    options: dict[str, Any]
    about: str

    def __repr__(self) -> str:
        return f"Awkward({self.about}, {self.options})"


@st.composite
def awkward(draw: st.DrawFn) -> Awkward:
    """Draw an image with options."""
    shape = draw(st.sampled_from(SHAPES))
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    values = draw(st.sampled_from(VALUES))
    container = draw(st.sampled_from(CONTAINERS))
    seed = draw(st.integers(0, 2**16))
    plain = pixels(shape, dtype, values, np.random.default_rng(seed))
    options: dict[str, Any] = {"range": draw(st.sampled_from(RANGES))}
    options["rgb"] = draw(st.sampled_from([None, None, None, True, False]))
    if draw(st.integers(0, 5)) == 0:
        options["channel_axis"] = draw(st.integers(-3, 3))
        options["rgb_channels"] = draw(st.sampled_from([(0, 1, 2), (2, 0, 1), (0, 0, 1), (1, 2)]))
    options["tile"] = draw(st.sampled_from(["auto", "auto", None, 8, 16]))
    about = f"{container} of {dtype} {shape}, {values}, seed {seed}"
    return Awkward(contained(plain, container), plain, options, about)


def pixels(
    shape: tuple[int, ...], dtype: np.dtype[Any], values: str, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Make an array with values of one kind, as far as its type has them."""
    noise = np.asarray(rng.random(shape))
    if dtype.kind in "bUMO":
        return np.array(np.asarray(noise * 2).astype("u1"), dtype=dtype)
    if dtype.kind in "ui":
        low, high = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
    else:
        low, high = float(np.finfo(dtype).min), float(np.finfo(dtype).max)
    found = {
        "noise": noise * min(high, 4000.0),
        "constant": np.full(shape, 7.0),
        "zero": np.zeros(shape),
        "negative": np.maximum(-noise * 100, low),
        "largest": np.full(shape, high),
        "smallest": np.full(shape, low),
        "huge range": np.where(noise < 0.5, low, high),
        "denormal": noise * 1e-310,
        "almost constant": np.where(noise < 0.5, 100.0, np.nextafter(100.0, 200.0)),
    }.get(values, noise.copy())
    if values == "one hot pixel" and found.size:
        found.flat[0] = high
    with np.errstate(all="ignore"):
        # The largest 64-bit integers are no floating-point numbers.
        made = np.asarray(np.clip(found, low, high)).astype(dtype)
        if dtype.kind in "ui":
            made = np.where(found >= high, np.iinfo(dtype).max, made).astype(dtype)
    if dtype.kind == "f" and made.size:
        if values == "all nan":
            made[...] = np.nan
        if values in ("nan", "inf"):
            made.flat[rng.integers(made.size)] = np.nan if values == "nan" else np.inf
            made.flat[0] = -np.inf if values == "inf" else np.nan
    return np.asarray(made)


def contained(plain: np.ndarray[Any, Any], container: str) -> Any:
    """Hand an array over in another form; the pixels are the same."""
    if container == "read-only":
        locked = np.array(plain)
        locked.flags.writeable = False
        return locked
    if container == "transposed":
        return np.ascontiguousarray(plain.T).T
    if container == "reversed":
        return np.ascontiguousarray(plain[::-1])[::-1] if plain.ndim else plain
    if container == "every other" and plain.ndim:
        return np.repeat(plain, 2, axis=-1)[..., ::2]
    if container == "fortran":
        return np.asfortranarray(plain)
    if container in ("masked", "no mask"):
        mask = np.zeros(plain.shape, bool)
        mask.flat[:1] = container == "masked"
        return np.ma.MaskedArray(plain, mask)
    if container == "dask":
        return da.from_array(plain, chunks=2 if plain.ndim else -1)
    if container == "zarr" and plain.dtype.kind in "uif" and plain.dtype.char != "g":
        stored = zarr.create_array(
            zarr.storage.MemoryStore(),
            shape=plain.shape,
            dtype=plain.dtype,
            chunks=tuple(max(1, n // 2) for n in plain.shape),
        )
        stored[...] = plain
        return stored
    if container in ("xarray", "xarray of dask"):
        data = da.from_array(plain, chunks=-1) if container != "xarray" else plain
        return xr.DataArray(data)
    if container == "list":
        return plain.tolist()
    if container == "subclass":
        return plain.view(_Own)
    if container == "pyramid" and plain.ndim >= 2 and plain.shape[-1] > 1:
        return [plain, plain[..., ::2]]
    return plain


class _Own(np.ndarray[Any, Any]):
    """An array of another class."""
