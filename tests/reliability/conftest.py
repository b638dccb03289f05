"""Tiny models as in the tests of batches, of training and of the paper's variants."""

from tests.batch.conftest import models, photo
from tests.reproduction.conftest import variant_options, variant_photos
from tests.training.conftest import options, photos

__all__ = ["models", "options", "photo", "photos", "variant_options", "variant_photos"]
