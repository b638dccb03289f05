"""The authors' ``.npz`` weight files: their layout, read safely, as our networks.

Not for: our own format (store.py), or DMENet's layout (authors_dmenet.py). KPAC's
authors' files are AGPL-3.0 and not part of this package; users bring their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from napari_kpac.core.errors import ConfigError, WeightsError
from napari_kpac.network import KPACConfig, KPACNet
from napari_kpac.weights.archive import read_archive
from napari_kpac.weights.authors_dmenet import dmenet_of, is_dmenet
from napari_kpac.weights.store import Network
from napari_kpac.weights.unpickle import FloatArray

ROOT = "deblur_net/"


class _Slot(NamedTuple):
    """One parameter: its name in the authors' graph and in ours, and how to turn it."""

    theirs: str
    ours: str
    turn: Callable[[Tensor], Tensor]


def _kernel(array: Tensor) -> Tensor:
    # [kh, kw, in, out] of a convolution and [kh, kw, out, in] of a transposed one both turn so.
    return array.permute(3, 2, 0, 1)


def _linear(array: Tensor) -> Tensor:
    if array.shape[:2] != (1, 1):
        raise WeightsError(f"a 1x1 convolution has a kernel of {tuple(array.shape[:2])}")
    return array[0, 0].T


def _as_is(array: Tensor) -> Tensor:
    return array


def slots(config: KPACConfig) -> list[_Slot]:
    """List the parameters in the order in which the authors' graph creates them."""

    def conv(scope: str, ours: str, kind: str = "conv2d") -> list[_Slot]:
        return [
            _Slot(f"{scope}/W_{kind}:0", f"{ours}.weight", _kernel),
            _Slot(f"{scope}/b_{kind}:0", f"{ours}.bias", _as_is),
        ]

    def atrous(scope: str, ours: str) -> list[_Slot]:
        return [
            _Slot(f"{scope}/filter:0", f"{ours}.weight", _kernel),
            _Slot(f"{scope}/b:0", f"{ours}.bias", _as_is),
        ]

    found: list[_Slot] = []
    for level, scope in enumerate(("c0", "c2", "c3", "c4")[: config.levels + 1]):
        found += conv(f"deblur/{scope}", f"encoder.levels.{level}.enter")
        found += conv(f"deblur/{scope}_2", f"encoder.levels.{level}.refine")
    for block in range(config.blocks):
        ours = f"blocks.{block}"
        found.append(_Slot(f"dc1/{block}/filter:0", f"{ours}.atrous.0.weight", _kernel))
        for hidden in range(4):
            found += atrous(f"sca_dc{hidden + 1}/{block}", f"{ours}.scale.hidden.{hidden}")
        found += conv(f"sca_c2/{block}", f"{ours}.scale.head")
        for scope, name in (("sha_c1", "squeeze"), ("sha_c2", "expand")):
            weight, bias = conv(f"{scope}/{block}", f"{ours}.shape.{name}")
            found += [weight._replace(turn=_linear), bias]
        found += conv(f"cf/{block}", f"{ours}.fusion")
    found += conv("deblur/cm_1", "decoder.gather")
    found += conv("deblur/cm_2", "decoder.refine")
    for level, scope in enumerate(("d0", "d1", "d2")[3 - config.levels :]):
        found += conv(f"deblur/{scope}", f"decoder.levels.{level}.up", "deconv2d")
        found += conv(f"deblur/{scope}_2", f"decoder.levels.{level}.merge")
    return [slot._replace(theirs=ROOT + slot.theirs) for slot in found]


def read_authors(path: str | os.PathLike[str]) -> Network:
    """Load a network from a file of KPAC's or DMENet's authors.

    Arrays are read in order, or one array per name.
    """
    path = Path(path)
    try:
        content = read_archive(path)
        if is_dmenet(content):
            return dmenet_of(content)
        layout = _layout(len(content))
        names = [slot.theirs for slot in slots(layout)]
        if isinstance(content, list):
            arrays = dict(zip(names, content, strict=True))
        else:
            arrays = {name: _by_name(content, name) for name in names}
        return _network(_config(layout, arrays), arrays)
    except (WeightsError, ConfigError) as error:
        raise WeightsError(f"{path}: {error}") from error


def _network(config: KPACConfig, arrays: Mapping[str, FloatArray]) -> KPACNet:
    with torch.device("meta"):
        net = KPACNet(config)
    expected = net.state_dict()
    state: dict[str, Tensor] = {}
    for slot in slots(config):
        array = arrays[slot.theirs]
        if slot.turn is not _as_is and array.ndim != 4:
            raise WeightsError(f"{slot.theirs} has {array.ndim} axes, needs 4")
        tensor = slot.turn(torch.from_numpy(array.astype(np.float32))).contiguous()
        wanted = expected[slot.ours].shape
        if tensor.shape != wanted:
            raise WeightsError(
                f"{slot.theirs} has shape {array.shape}; as {slot.ours} it must give "
                f"{tuple(wanted)}. Is this a KPAC file?"
            )
        if not torch.isfinite(tensor).all():
            raise WeightsError(f"{slot.theirs} holds NaN or infinite values")
        state[slot.ours] = tensor
    net.load_state_dict(state, assign=True)
    return net.requires_grad_(False).eval()


def _layout(count: int) -> KPACConfig:
    """Infer the levels and blocks from the number of arrays."""
    for levels in (2, 3):
        blocks, rest = divmod(count - 8 - 8 * levels, 17)
        if blocks >= 1 and rest == 0:
            return KPACConfig(levels=levels, blocks=blocks)
    raise WeightsError(
        f"{count} arrays; the authors' files have 58 (2-level) or 66 (3-level, dual)"
    )


def _config(layout: KPACConfig, arrays: Mapping[str, FloatArray]) -> KPACConfig:
    """Infer the rest of the configuration from the shapes of four arrays."""

    def shape(name: str) -> tuple[int, ...]:
        found = arrays[ROOT + name].shape
        if len(found) != 4:
            raise WeightsError(
                f"{ROOT}{name} has shape {found}, needs four axes. Is this a KPAC file?"
            )
        return found

    first, atrous = shape("deblur/c0/W_conv2d:0"), shape("dc1/0/filter:0")
    if first[2] not in (3, 6):
        raise WeightsError(f"the first convolution takes {first[2]} channels; 3 or 6 are known")
    return replace(
        layout,
        kernel_size=atrous[0],
        dilations=tuple(range(1, shape("sca_c2/0/W_conv2d:0")[3] + 1)),
        channels=first[3],
        shape_hidden=shape("sha_c1/0/W_conv2d:0")[3],
        views=first[2] // 3,
    )


def _by_name(arrays: Mapping[str, FloatArray], name: str) -> FloatArray:
    for key, array in arrays.items():
        if key == name or key.endswith("/" + name):
            return array
    raise WeightsError(f"no array is called {name}. Is this a KPAC file?")
