"""A slow, independent forward pass in NumPy and SciPy, written from the rules alone.

It shares nothing with the package: arrays are (H, W, C), kernels are laid out as in the
authors' files, and every convolution is a sum of shifted copies.
"""

import numpy as np
from scipy.signal import correlate2d


def conv(x, w, b=None, *, dilation=1, pads=None, stride=1):
    """w is [kh, kw, in, out]; pads are ((top, bottom), (left, right)), zeros."""
    kh, kw, n_in, n_out = w.shape
    if pads is None:
        ph, pw = dilation * (kh - 1) // 2, dilation * (kw - 1) // 2
        pads = ((ph, ph), (pw, pw))
    spread = np.zeros((dilation * (kh - 1) + 1, dilation * (kw - 1) + 1, n_in, n_out))
    spread[::dilation, ::dilation] = w
    padded = np.pad(x, (*pads, (0, 0)))
    out = []
    for o in range(n_out):
        plane = sum(
            correlate2d(padded[:, :, i], spread[:, :, i, o], mode="valid") for i in range(n_in)
        )
        out.append(plane[::stride, ::stride])
    y = np.stack(out, axis=-1)
    return y if b is None else y + b


def strided(x, w, b, rule):
    before = 0 if rule == "authors" else 1
    pads = ((before, 1), (before, 1))
    return conv(x, w, b, pads=pads, stride=2)


def transposed(x, w, b):
    """w is [4, 4, out, in]; every input pixel stamps the kernel, two pixels apart."""
    h, wd, _ = x.shape
    canvas = np.zeros((2 * h + 2, 2 * wd + 2, w.shape[2]))
    for i in range(4):
        for j in range(4):
            canvas[i : i + 2 * h : 2, j : j + 2 * wd : 2] += x @ w[i, j].T
    return canvas[1:-1, 1:-1] + b


def leaky(x):
    return np.where(x > 0, x, 0.2 * x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def forward(params, config, image, given=None, modulate=None):
    """Run the network on (H, W, 3) in [-1, 1]; returns a dict of everything on the way.

    ``params`` maps the authors' short names to arrays, ``config`` needs levels, blocks,
    dilations and stride_padding. ``given`` is what the network sees (default: the image).
    """
    p = params
    out = {}
    x = image if given is None else given
    outputs = []
    for level, name in enumerate(("c0", "c2", "c3", "c4")[: config.levels + 1]):
        w, b = p[f"{name}.W"], p[f"{name}.b"]
        x = conv(x, w, b) if level == 0 else strided(x, w, b, config.stride_padding)
        x = leaky(conv(leaky(x), p[f"{name}_2.W"], p[f"{name}_2.b"]))
        outputs.append(x)
    features = [out.setdefault("enc", x)]
    for k in range(config.blocks):
        h = features[-1]
        branches = []
        for i, d in enumerate(config.dilations):
            kernel = p.get(f"dc1.{k}.{i}", p.get(f"dc1.{k}.0"))
            branches.append(leaky(conv(h, kernel, dilation=d)))
        if config.scale_attention:
            a = h
            for layer in range(1, 5):
                a = leaky(conv(a, p[f"sca_dc{layer}.{k}.W"], p[f"sca_dc{layer}.{k}.b"], dilation=2))
            alpha = sigmoid(conv(a, p[f"sca_c2.{k}.W"], p[f"sca_c2.{k}.b"]))
        else:
            alpha = np.ones((*h.shape[:2], len(config.dilations)))
        if modulate is not None:
            alpha = modulate(k, alpha)
        if config.shape_attention:
            mean = h.mean(axis=(0, 1))
            hidden = leaky(mean @ p[f"sha_c1.{k}.W"][0, 0] + p[f"sha_c1.{k}.b"])
            beta = sigmoid(hidden @ p[f"sha_c2.{k}.W"][0, 0] + p[f"sha_c2.{k}.b"])
        else:
            beta = np.ones(branches[0].shape[-1])
        weighted = [alpha[:, :, i : i + 1] * beta * branch for i, branch in enumerate(branches)]
        fused = leaky(conv(np.concatenate(weighted, -1), p[f"cf.{k}.W"], p[f"cf.{k}.b"]))
        features.append(fused)
        out |= {f"alpha{k}": alpha, f"beta{k}": beta, f"cf{k}": fused}
    x = leaky(conv(np.concatenate(features, -1), p["cm_1.W"], p["cm_1.b"]))
    x = out["cm2"] = leaky(conv(x, p["cm_2.W"], p["cm_2.b"]))
    skips = outputs[:-1]
    for name, skip in zip(("d0", "d1", "d2")[3 - config.levels :], reversed(skips), strict=True):
        x = leaky(transposed(x, p[f"{name}.W"], p[f"{name}.b"]))
        x = conv(np.concatenate([x, skip], -1), p[f"{name}_2.W"], p[f"{name}_2.b"])
        if name != "d2":
            x = leaky(x)
    out["y"] = x + image
    return out


def random_params(config, seed=0):
    """Random float64 parameters by short name, laid out as in the authors' files."""
    rng = np.random.default_rng(seed)
    c, wide, n = config.channels, 2 * config.channels, len(config.dilations)
    p = {}

    def add(name, *shape):
        out = shape[2] if name[0] == "d" and not name.endswith("_2") else shape[3]
        p[f"{name}.W"] = rng.normal(0, 1.2 / np.sqrt(np.prod(shape[:2]) * shape[2]), shape)
        p[f"{name}.b"] = rng.normal(0, 0.1, out)

    widths = [3 * config.views, c, c, wide, wide][: config.levels + 2]
    for level, name in enumerate(("c0", "c2", "c3", "c4")[: config.levels + 1]):
        size = 5 if level == 0 else 3
        add(name, size, size, widths[level], widths[level + 1])
        add(f"{name}_2", 3, 3, widths[level + 1], widths[level + 1])
    a, b = max(1, 2 * c // 3), max(1, c // 3)
    for k in range(config.blocks):
        for i in range(1 if config.shared_kernels else n):
            size = config.kernel_size
            shape = (size, size, wide, c)
            p[f"dc1.{k}.{i}"] = rng.normal(0, 1 / np.sqrt(size * size * wide), shape)
        if config.scale_attention:
            for layer, (i, o) in enumerate(((wide, a), (a, a), (a, b), (b, b)), start=1):
                add(f"sca_dc{layer}.{k}", 5, 5, i, o)
            add(f"sca_c2.{k}", 5, 5, b, n)
        if config.shape_attention:
            add(f"sha_c1.{k}", 1, 1, wide, config.shape_hidden)
            add(f"sha_c2.{k}", 1, 1, config.shape_hidden, c)
        add(f"cf.{k}", 3, 3, n * c, wide)
    add("cm_1", 3, 3, wide * (1 + config.blocks), wide)
    add("cm_2", 3, 3, wide, wide)
    if config.levels == 3:
        add("d0", 4, 4, wide, wide)
        add("d0_2", 3, 3, 2 * wide, wide)
    add("d1", 4, 4, c, wide)
    add("d1_2", 3, 3, 2 * c, c)
    add("d2", 4, 4, c, c)
    add("d2_2", 5, 5, 2 * c, 3)
    return p


def authors_order(config):
    """(short name, name in the authors' graph) in the order of their files."""
    names = []

    def both(short, full, kind="conv2d"):
        names.append((f"{short}.W", f"{full}/W_{kind}:0"))
        names.append((f"{short}.b", f"{full}/b_{kind}:0"))

    for name in ("c0", "c2", "c3", "c4")[: config.levels + 1]:
        both(name, f"deblur/{name}")
        both(f"{name}_2", f"deblur/{name}_2")
    for k in range(config.blocks):
        names.append((f"dc1.{k}.0", f"dc1/{k}/filter:0"))
        for layer in range(1, 5):
            names.append((f"sca_dc{layer}.{k}.W", f"sca_dc{layer}/{k}/filter:0"))
            names.append((f"sca_dc{layer}.{k}.b", f"sca_dc{layer}/{k}/b:0"))
        for name in ("sca_c2", "sha_c1", "sha_c2", "cf"):
            both(f"{name}.{k}", f"{name}/{k}")
    for name in ("cm_1", "cm_2"):
        both(name, f"deblur/{name}")
    for name in ("d0", "d1", "d2")[3 - config.levels :]:
        both(name, f"deblur/{name}", "deconv2d")
        both(f"{name}_2", f"deblur/{name}_2")
    return [(short, f"deblur_net/{full}") for short, full in names]


def write_authors_file(path, params, config):
    """Write ``params`` the way the authors do: one pickled object array."""
    arrays = np.empty(len(authors_order(config)), dtype=object)
    for index, (short, _) in enumerate(authors_order(config)):
        arrays[index] = params[short].astype(np.float32)
    np.savez(path, params=arrays)


def write_named_file(path, params, config, prefix="main_net/"):
    """Write ``params`` as the retrained variant does: one array per name."""
    named = {
        prefix + full: params[short].astype(np.float32) for short, full in authors_order(config)
    }
    np.savez(path, **named)
