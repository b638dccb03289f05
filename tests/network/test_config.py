import json

import pytest

from napari_kpac import KPACConfig, KpacError


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("levels", 4),
        ("levels", True),
        ("levels", "3"),
        ("blocks", 0),
        ("blocks", 1.5),
        ("kernel_size", 4),
        ("kernel_size", -1),
        ("dilations", ()),
        ("dilations", (1, 1)),
        ("dilations", (0, 1)),
        ("dilations", [1, 2]),
        ("dilations", (1, 2.5)),
        ("channels", 0),
        ("channels", None),
        ("shape_hidden", 0),
        ("stride_padding", "valid"),
        ("views", 3),
        ("shared_kernels", 1),
        ("scale_attention", "yes"),
    ],
)
def test_a_wrong_value_is_named(field, value):
    with pytest.raises(KpacError) as error:
        KPACConfig(**{field: value})
    assert field in str(error.value)
    assert repr(value) in str(error.value)
    assert "must be" in str(error.value)


def test_round_trip_through_json():
    config = KPACConfig(levels=2, dilations=(1, 3), views=2, shared_kernels=False)
    assert KPACConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize("values", [{"depth": 3}, None, 7, {"dilations": "12"}])
def test_a_foreign_dictionary_is_refused(values):
    with pytest.raises(KpacError):
        KPACConfig.from_dict(values)


def test_frozen():
    with pytest.raises(AttributeError):
        KPACConfig().levels = 2
