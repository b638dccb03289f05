"""Shared by all rooms: errors, options, progress, files and units.

Loads neither torch nor Qt. Not for: anything that knows of images or networks.
"""
