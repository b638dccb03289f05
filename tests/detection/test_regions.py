"""Statistics of regions that can be worked out by hand."""

import numpy as np
import pytest

from napari_kpac.core.errors import ImageError
from napari_kpac.detection import components, measure_regions, region_table


@pytest.fixture
def values():
    values = np.zeros((6, 8), np.float32)
    values[1:3, 1:4] = [[0.6, 0.7, 0.8], [0.6, 0.7, 0.9]]
    values[4, 6] = values[5, 7] = 0.5
    return values


def test_connected_parts(values):
    labels = components(values > 0)
    assert labels.max() == 2
    assert labels[4, 6] == labels[5, 7] == 2
    assert not labels[0].any()


def test_statistics_of_connected_parts(values):
    first, second = measure_regions(values, values > 0, scale=(0.5, 0.2), units="micrometer")
    assert first.label == 1
    assert first.slice == ()
    assert first.area_px == 6
    assert first.area == pytest.approx(0.6)
    assert first.area_unit == "um^2"
    assert first.mean == pytest.approx(4.3 / 6)
    assert first.median == pytest.approx(0.7)
    assert first.max == pytest.approx(0.9)
    assert first.blurred == 1
    assert first.centroid == (1.5, 2.0)
    assert first.bbox == (1, 1, 3, 4)
    assert second.centroid == (4.5, 6.5)
    assert second.bbox == (4, 6, 6, 8)


def test_regions_of_labels(values):
    labels = np.zeros(values.shape, np.int64)
    labels[:, :4], labels[:, 4:] = 7, 4_000_000_000
    labels[0, 0], labels[0, 1] = 0, -3
    found = {region.label: region for region in measure_regions(values, values >= 0.7, labels)}
    assert set(found) == {7, 4_000_000_000}
    assert found[7].area_px == 22
    assert found[7].area == 22
    assert found[7].area_unit == "pixel^2"
    assert found[7].blurred == pytest.approx(4 / 22)
    assert found[4_000_000_000].blurred == 0
    everywhere = measure_regions(values, values > 0, np.ones(values.shape, bool))
    assert [region.area_px for region in everywhere] == [values.size]


def test_stacks_are_measured_slice_by_slice(values):
    stack = np.stack([values, values[::-1]])
    labels = components(stack > 0)
    assert np.unique(labels).tolist() == [0, 1, 2, 3, 4]
    found = measure_regions(stack, stack > 0, scale=(5, 0.5, 0.5), units=("um", "um", "um"))
    assert [region.slice for region in found] == [(0,), (0,), (1,), (1,)]
    assert {region.area for region in found} == {0.5, 1.5}
    shared = measure_regions(stack, stack > 0, np.ones(values.shape, int))
    assert [(region.label, region.slice) for region in shared] == [(1, (0,)), (1, (1,))]


def test_tables_suit_features_and_data_frames(values):
    import pandas

    stack = np.stack([values, values])
    columns = region_table(measure_regions(stack, stack > 0))
    frame = pandas.DataFrame(columns)
    assert list(frame["index"]) == [1, 2, 3, 4]
    assert list(frame["axis_0"]) == [0, 0, 1, 1]
    assert list(frame["bbox_right"]) == [4, 8, 4, 8]
    assert list(frame["centroid_y"]) == [1.5, 4.5, 1.5, 4.5]
    nothing = region_table(measure_regions(values, values > 2))
    assert nothing["index"] == []
    assert set(columns) - set(nothing) == {"axis_0"}


@pytest.mark.parametrize(
    ("labels", "scale", "units", "word"),
    [
        (np.zeros((6, 8)), None, None, "whole numbers"),
        (np.zeros((3, 8), int), None, None, "do not fit"),
        (None, (1, 0), None, "above 0"),
        (None, (1, 1, 1), None, "2 axes"),
        (None, None, ("um",), "2 axes"),
    ],
)
def test_bad_input(values, labels, scale, units, word):
    with pytest.raises(ImageError, match=word):
        measure_regions(values, values > 0, labels, scale, units)


def test_map_and_mask_must_agree(values):
    with pytest.raises(ImageError, match="same shape"):
        measure_regions(values, np.zeros((2, 2), bool))
