"""Configuration of the documentation's builder."""

import importlib.metadata
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "napari-kpac"
author = "napari-kpac developers"
copyright = "napari-kpac developers"
release = importlib.metadata.version("napari-kpac")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "kpac_reference"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "napari-kpac"
html_static_path = ["_static"]
html_css_files = ["kpac.css"]
html_show_sourcelink = False
exclude_patterns = ["_build"]
pygments_style = "tango"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
nitpicky = True
# Other projects' pages are on the network, which the build does without.
nitpick_ignore_regex = [("py:.*", r"(numpy|torch|collections\.abc)\..*")]
