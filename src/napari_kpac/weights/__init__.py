"""Model files and the model catalogue: safetensors, the authors' .npz, model cards.

Not for: what the networks compute (network), or images (engine).
"""

from napari_kpac.weights.authors import read_authors
from napari_kpac.weights.card import ModelCard, tensors_sha256
from napari_kpac.weights.catalogue import (
    DEFAULT,
    ModelEntry,
    find,
    import_weights,
    install,
    is_file_name,
    load,
    models,
    remove,
    user_folder,
)
from napari_kpac.weights.store import describe, read_network, save_network

__all__ = [
    "DEFAULT",
    "ModelCard",
    "ModelEntry",
    "describe",
    "find",
    "import_weights",
    "install",
    "is_file_name",
    "load",
    "models",
    "read_authors",
    "read_network",
    "remove",
    "save_network",
    "tensors_sha256",
    "user_folder",
]
