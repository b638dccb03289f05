"""The napari widgets: everything that uses Qt or napari.

Not for: computing anything.
"""
