"""DMENet in NumPy, written from its description alone, and files in the layout of its authors.

Shares nothing with the package: arrays are (H, W, C), kernels [kh, kw, in, out].
"""

import numpy as np

ROOT = "main_net/defocus_net"
CONVS = (2, 2, 4, 4, 4)
LEVELS = (("u3", 4, 3), ("u2", 2, 3), ("u1", 1, 3), ("u0", 1, 1))
"""Scope, width as a multiple of the first level's, and number of convolutions."""


def random_layers(width=4, heads=True, seed=0):
    """Layers in the order in which the network is built: {name: {role: array}}."""
    rng = np.random.default_rng(seed)
    layers = {}

    def add(name, size, inputs, outputs, norm=True):
        scale = np.sqrt(2 / (size * size * inputs))
        layer = {
            "kernel": rng.normal(0, scale, (size, size, inputs, outputs)),
            "bias": rng.normal(0, 0.1, outputs),
        }
        if norm:
            layer["beta"] = rng.normal(0, 0.3, outputs)
            layer["moving_mean"] = rng.normal(0, 0.5, outputs)
            layer["moving_variance"] = rng.uniform(0.5, 2, outputs)
        layers[name] = {role: array.astype(np.float32) for role, array in layer.items()}

    def add_head(name, channels):
        if heads:
            add(f"aux/{name}/c1", 3, channels, channels // 2)
            add(f"aux/{name}/c2", 3, channels // 2, 1)

    widths = [3, *(width * factor for factor in (1, 2, 4, 8, 8))]
    for level, count in enumerate(CONVS):
        for conv in range(count):
            inputs = widths[level] if conv == 0 else widths[level + 1]
            add(f"encoder/conv{level + 1}_{conv + 1}", 3, inputs, widths[level + 1], norm=False)
    # As after standardised inputs: pixels minus the means are of the order of 100.
    layers["encoder/conv1_1"]["kernel"] /= 100
    add_head("d4", widths[-1])
    deep = widths[-1]
    for (scope, factor, count), skip in zip(LEVELS, widths[4:0:-1], strict=True):
        for conv in range(count):
            inputs = deep + skip if conv == 0 else factor * width
            add(f"decoder/{scope}/c1_{conv + 1}", 3, inputs, factor * width)
        deep = factor * width
        add_head(scope, deep)
    for block in range(7):
        add(f"decoder/r{block}/s", 1, width, width)
        add(f"decoder/r{block}/c1", 3, width, width)
        add(f"decoder/r{block}/c2", 3, width, width)
    add("decoder/o1", 3, width, width)
    add("decoder/o2", 3, width, width // 2)
    add("decoder/o3", 3, width // 2, 1, norm=False)
    return layers


def write_named(path, layers, order=None):
    """One array per name, as TensorLayer saves a dictionary."""
    arrays = {
        f"{ROOT}/{name}/{role}:0": array
        for name in order or layers
        for role, array in layers[name].items()
    }
    np.savez(path, **arrays)


def write_listed(path, layers):
    """All arrays in one object array, as TensorLayer saves a list."""
    found = [array for layer in layers.values() for array in layer.values()]
    listed = np.empty(len(found), dtype=object)
    listed[:] = found
    np.savez(path, params=listed)


def forward(layers, image):
    """Run the network on an sRGB image (H, W, 3) in 0..1; returns d (H, W)."""

    def conv(x, name, pad):
        kernel = layers[name]["kernel"].astype(np.float64)
        size = kernel.shape[0]
        edge = size // 2
        padded = np.pad(x, ((edge, edge), (edge, edge), (0, 0)), mode=pad)
        height, width = x.shape[:2]
        total = sum(
            padded[dy : dy + height, dx : dx + width] @ kernel[dy, dx]
            for dy in range(size)
            for dx in range(size)
        )
        return total + layers[name]["bias"]

    def unit(x, name):
        norm = layers[name]
        y = conv(x, name, "constant")
        y = (y - norm["moving_mean"]) / np.sqrt(norm["moving_variance"] + 1e-5) + norm["beta"]
        return np.where(y > 0, y, 0.2 * y)

    x = image[..., ::-1] * 255.0 - np.array([103.939, 116.779, 123.68])
    skips = []
    for level, count in enumerate(CONVS):
        if skips:
            height, width, channels = x.shape
            x = x.reshape(height // 2, 2, width // 2, 2, channels).max(axis=(1, 3))
        for number in range(count):
            x = np.maximum(conv(x, f"encoder/conv{level + 1}_{number + 1}", "symmetric"), 0)
        skips.append(x)
    for (scope, _, count), skip in zip(LEVELS, skips[-2::-1], strict=True):
        x = np.concatenate([x.repeat(2, axis=0).repeat(2, axis=1), skip], axis=-1)
        for number in range(count):
            x = unit(x, f"decoder/{scope}/c1_{number + 1}")
    for block in range(7):
        at = f"decoder/r{block}"
        x = unit(x, f"{at}/s") + unit(unit(x, f"{at}/c1"), f"{at}/c2")
    x = conv(unit(unit(x, "decoder/o1"), "decoder/o2"), "decoder/o3", "constant")
    return 1 / (1 + np.exp(-x[..., 0]))
