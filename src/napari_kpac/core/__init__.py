"""What every room may use: errors, options, progress, files, units, optional packages.

Loads neither torch nor Qt. Not for: anything that knows of images or networks.
"""
