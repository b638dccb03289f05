"""Configuration of the documentation's builder."""

import importlib.metadata

project = "napari-kpac"
author = "napari-kpac developers"
copyright = "napari-kpac developers"
release = importlib.metadata.version("napari-kpac")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "napari-kpac"
html_static_path: list[str] = []
exclude_patterns = ["_build"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
nitpicky = False
