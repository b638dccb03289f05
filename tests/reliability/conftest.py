"""Tiny models as in the tests of batches and of training."""

from tests.batch.conftest import models, photo
from tests.training.conftest import options, photos

__all__ = ["models", "options", "photo", "photos"]
