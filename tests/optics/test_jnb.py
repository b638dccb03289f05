"""JNB: sparse coding against a plain reference, its filters against their definitions."""

import json

import numpy as np
import pytest
from safetensors import safe_open
from scipy.ndimage import gaussian_filter
from skimage import data

from napari_kpac.core.errors import ImageError
from napari_kpac.core.progress import finish
from napari_kpac.optics import defocus, jnb, sparsity_map
from napari_kpac.optics.edge_aware import average_along, bilateral

RNG = np.random.default_rng(0)


def reference_count(patch, atoms):
    """Orthogonal matching pursuit in pixels: a basis of the atoms in use, orthogonalised anew.

    No Gram matrix and no updates: the residual is computed from the patch in every step.
    """
    patch = patch - patch.mean()
    basis, residual = np.zeros((len(patch), 0)), patch
    while np.sum(residual**2) > jnb.MAX_ERROR**2 and basis.shape[1] < jnb.MAX_ATOMS:
        new = atoms[:, np.argmax(np.abs(atoms.T @ residual))]
        for _ in range(3):
            new = new - basis @ (basis.T @ new)
        basis = np.column_stack([basis, new / np.linalg.norm(new)])
        residual = patch - basis @ (basis.T @ patch)
    return basis.shape[1]


def counts_and_reference(grey, step):
    """Return both counts of every ``step``-th patch along both axes."""
    atoms = jnb.load_dictionary().atoms
    counts = finish(jnb.count_atoms_steps(grey, atoms))
    assert counts.shape == grey.shape
    assert (counts[0] == counts[3]).all()  # the border takes the nearest patch
    assert (counts[:, -1] == counts[:, -5]).all()
    exact = atoms.astype(np.float64)
    exact -= exact.mean(axis=0)
    pairs = [
        (counts[y + 3, x + 3], reference_count(grey[y : y + 8, x : x + 8].ravel(), exact))
        for y in range(0, grey.shape[0] - 7, step)
        for x in range(0, grey.shape[1] - 7, step)
    ]
    return np.array(pairs, int).T


def test_counts_are_those_of_the_reference():
    photo = data.camera()[100:164, 200:270].astype(np.float32)
    grey = np.concatenate([photo, gaussian_filter(photo, 0.6)], axis=1)
    found, expected = counts_and_reference(grey, 3)
    for low, high in ((0, 10), (10, 20), (20, 30), (30, 40), (40, 50), (50, 56), (56, 64)):
        here = (expected > low) & (expected <= high)
        assert here.sum() >= 15, (low, high)
        # Where two atoms fit equally well, rounding chooses.
        assert (found[here] == expected[here]).mean() >= 0.95, (low, high)
        assert np.abs(found[here] - expected[here]).max() <= 1, (low, high)


def test_counts_of_noise_are_those_of_the_reference():
    # The most atoms that a patch can need: 63, since the mean is removed. The last ones differ from
    # those before them in the seventh digit, so rounding can cost or save one or two.
    noise = RNG.integers(0, 256, (40, 60)).astype(np.float32)
    found, expected = counts_and_reference(noise, 2)
    assert expected.min() > 55
    assert expected.max() == 63
    assert (found == expected).mean() > 0.8
    assert np.abs(found - expected).max() <= 2


def test_the_dictionary_is_a_dictionary_and_has_a_card():
    found = jnb.load_dictionary()
    assert found.atoms.shape == (64, 128)
    np.testing.assert_allclose(np.linalg.norm(found.atoms, axis=0), 1, atol=1e-5)
    np.testing.assert_allclose(found.atoms.mean(axis=0), 0, atol=1e-6)
    assert (np.diff(found.counts) > 0).all()
    assert (np.diff(found.sigmas) <= 0).all()
    assert 0 < found.sigmas[-1] < found.sigmas[0] < 6
    with safe_open(jnb.DICTIONARY, framework="numpy") as file:
        card = json.loads(file.metadata()["card"])
    assert card["licence"] == "BSD-3-Clause"
    assert "photographs" in card["training_data"]
    assert card["figures"]


def test_normalised_convolution_is_the_mean_of_what_is_near():
    guide = np.zeros((1, 40), np.float32)
    guide[:, 20:] = 1
    values = RNG.normal(size=(1, 40, 1)).astype(np.float32)
    found = average_along(values, guide, space=4, range_=0.1, iterations=1)
    radius = 4 * np.sqrt(3) * np.sqrt(3) / np.sqrt(3)  # one iteration has all of the variance
    for i in range(40):
        near = [
            j
            for j in range(40)
            if (i < 20) == (j < 20) and abs(i - j) <= radius  # the step is 40 pixels wide
        ]
        assert found[0, i, 0] == pytest.approx(values[0, near, 0].mean(), abs=1e-5)
    columns = average_along(
        values.swapaxes(0, 1), guide.T.copy(), space=4, range_=0.1, iterations=1
    )
    np.testing.assert_allclose(columns[:, 0, 0], found[0, :, 0], atol=1e-6)


def test_the_bilateral_filter_is_close_to_its_definition():
    values = np.clip(gaussian_filter(RNG.normal(size=(40, 40)), 3) * 4 + 0.5, 0, 1)
    values = values.astype(np.float32)
    found = bilateral(values, space=2.0, range_=0.1)
    y, x = np.mgrid[:40, :40]
    for row, column in ((20, 20), (12, 28), (25, 15)):
        weight = np.exp(-((y - row) ** 2 + (x - column) ** 2) / 8)
        weight = weight * np.exp(-0.5 * ((values - values[row, column]) / 0.1) ** 2)
        expected = (weight * values).sum() / weight.sum()
        assert found[row, column] == pytest.approx(expected, abs=0.02)
    flat = np.full((5, 5), 0.3, np.float32)
    assert np.array_equal(bilateral(flat, space=2, range_=0.1), flat)


def test_more_blur_reads_as_more_blur_and_in_its_place():
    sharp = data.camera()[100:260, 150:350]
    means = [float(sparsity_map(defocus(sharp, radius).image).mean()) for radius in (0, 1.5, 4)]
    assert means == sorted(means)
    assert means[2] > means[0] + 0.5
    radius = np.zeros(sharp.shape, np.float32)
    radius[:, 100:] = 4
    found = sparsity_map(defocus(sharp, radius).image)
    assert found[:, 116:].mean() > found[:, :84].mean() + 0.5


@pytest.mark.parametrize("shape", [(2, 2), (3, 20), (7, 7), (8, 8), (9, 5, 3), (64, 2)])
def test_images_smaller_than_a_patch_work(shape):
    image = RNG.integers(0, 256, shape).astype(np.uint8)
    found = sparsity_map(image)
    assert found.shape == shape[:2]
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    assert found.min() >= 0


def test_constant_16_bit_and_bad_images():
    assert not sparsity_map(np.full((20, 30), 77, np.uint8)).any()
    image = data.camera()[:60, :70]
    deep = sparsity_map(image.astype(np.uint16) * 257)
    np.testing.assert_allclose(deep, sparsity_map(image), atol=1e-3)
    with pytest.raises(ImageError, match="NaN"):
        sparsity_map(np.full((20, 20), np.nan))
    with pytest.raises(ImageError, match="shape"):
        sparsity_map(np.zeros((20, 20, 4), np.uint8))


def test_it_yields_and_can_be_cancelled():
    steps = jnb.sparsity_map_steps(data.camera())
    first, second = next(steps), next(steps)
    assert (first.done, second.done) == (1, 2)
    assert first.total > 10
    steps.close()
