"""Our network with the authors' weight files against tensors of the authors' own graph."""

import numpy as np
import pytest
import torch

import napari_kpac as kpac

TOLERANCE = 1e-4


@pytest.mark.parametrize("size", ["64x96", "128x80"])
@pytest.mark.parametrize(
    ("weights", "data"),
    [
        ("gold_3level", "gold_3level_io"),
        ("gold_2level", "gold_2level_io"),
        ("gold_dual", "gold_dual_io"),
        ("py2/gold_3level", "gold_3level_io"),
    ],
)
def test_every_tensor_of_the_authors_graph(golden, weights, data, size):
    net = kpac.load(golden / f"{weights}.npz")
    stored = np.load(golden / f"{data}.npz")

    def image(key):
        return torch.from_numpy(stored[f"{key}_{size}"]).permute(0, 3, 1, 2)

    dual = "dual" in weights
    call = (image("xc"), (image("xl"), image("xr"))) if dual else (image("x"), None)
    x, _ = net.join(*call)
    encoded = net.encode(x)
    first = net.step(0, encoded.features)
    second = net.step(1, first.fused)
    actual = {
        "y": net(*call),
        "enc": encoded.features,
        "alpha0": first.alpha,
        "alpha1": second.alpha,
        "beta0": first.beta,
        "beta1": second.beta,
        "cf0": first.fused,
        "cf1": second.fused,
        "cm2": net.decoder.enter([encoded.features, first.fused, second.fused]),
    }
    stored_names = {key.split("_")[0] for key in stored.files}
    assert set(actual) == stored_names - {"x", "xc", "xl", "xr"}
    for name, value in actual.items():
        expected = stored[f"{name}_{size}"]
        if value.ndim == 4:
            value = value.permute(0, 2, 3, 1)
        np.testing.assert_allclose(
            value.numpy(), expected.reshape(value.shape), atol=TOLERANCE, rtol=0, err_msg=name
        )
