"""Lets ``python -m napari_kpac`` do what ``napari-kpac`` does."""

import sys

from napari_kpac.cli import main

sys.exit(main())
