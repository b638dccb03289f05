"""Lets ``python -m napari_kpac`` do what ``napari-kpac`` does."""

import sys

from napari_kpac.cli import main

if __name__ == "__main__":
    sys.exit(main())
