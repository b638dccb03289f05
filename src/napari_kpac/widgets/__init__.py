"""Everything that is napari or Qt: thin windows over the engine.

Not for: computing anything.
"""
