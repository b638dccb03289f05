import pytest
from skimage import data
from skimage.io import imsave

from napari_kpac.reproduction.variants import VariantOptions
from tests.evaluation.conftest import dpdd, folders, tiny_model  # noqa: F401 - fixtures


@pytest.fixture(scope="session")
def variant_photos(tmp_path_factory):
    """Two photographs to train with, one to judge by."""
    folder = tmp_path_factory.mktemp("large-photos")
    images = {"a": data.astronaut(), "b": data.coffee(), "c": data.astronaut()[:, ::-1]}
    for name, image in images.items():
        imsave(folder / f"{name}.png", image, check_contrast=False)
    (folder / "MANIFEST.csv").write_text("file,split\na.png,train\nb.png,val\nc.png,train\n")
    return folder


@pytest.fixture
def variant_options(variant_photos, tmp_path):
    """Tiny networks, so that everything takes seconds."""
    preset = tmp_path / "tiny.toml"
    preset.write_text(
        'kind = "synthetic"\nlearning_rate = 2e-3\nchannels = 4\nbatch_size = 1\ncrop_size = 32\n'
        "ema_decay = 0.5\n"
    )
    return VariantOptions(
        root=str(variant_photos), steps=4, photos=1, preset=str(preset), device="cpu"
    )
