"""Damages valid files, the same way for the same seed.

Half of the damage knows the format: it keeps checksums and lengths right, so that it gets
past the first gate. Not for: which files there are (samples), or reading them (readers).
"""

from __future__ import annotations

import io
import json
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

INTEGERS = (0, 1, 2, 7, 8, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2**24, 2**31 - 1,
            2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 0.5, 1e-320, 1e308, float("inf"), float("nan"), 2**31, 2**63,
    10**30, 10**400, "", "x", "\0", "\x1b[31m", "\ud800", "ä" * 300, "x" * 100_000, [], {}, [[]],
    [1, 2], [None], {"a": 1}, "pickle", "alpha1", "../../outside.png", "/etc/hostname",
    "..\\outside", "\\\\host\\share\\x.npz", "http://127.0.0.1:9/x.zarr", "file:///etc/hostname",
    "~/.profile", "|O", "<M8[s]", "float128", [10**9, 10**9], [2**40], [-1, 4], [0, 4],
)  # fmt: skip
"""What a value of a table is replaced with."""
TAGS = (256, 257, 258, 259, 262, 270, 273, 274, 277, 279, 282, 320, 322, 323, 339, 34665)
"""Tags of TIFF directories that decide how pixels are read."""
DEEP = "[" * 3000 + "]" * 3000
WORDS = (b"1", b"2.5", b"-1", b"1e999", b"nan",
         b"99999999999999999999", b"\"../../x\"", b"[[", b"}", b"\0",
         b"'''", b"true", b"inf", b"1970-01-01", b"\xff\xfe", b"\"\\u0000\"")  # fmt: skip


def mutate(data: bytes, name: str, rng: random.Random) -> bytes:
    """Damage the content of a file; its name says which format to keep in view."""
    known = _BY_SUFFIX.get(Path(name).suffix.lower()) or _BY_NAME.get(Path(name).name)
    if known is not None and rng.random() < 0.6:
        try:
            return known(data, rng)
        except (
            ValueError,
            struct.error,
            KeyError,
            IndexError,
            zipfile.BadZipFile,
            zlib.error,
            RecursionError,
        ):
            pass
    return raw(data, rng)


def mutate_folder(folder: Path, rng: random.Random) -> None:
    """Damage one or two files of a folder; now and then lose one, or take one for another."""
    for _ in range(rng.choice((1, 1, 1, 2))):
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        if not files:
            return
        path = rng.choice(files)
        kind = rng.random()
        if kind < 0.04:
            path.unlink()
        elif kind < 0.08:
            path.write_bytes(rng.choice(files).read_bytes())
        elif kind < 0.12:
            path.rename(path.with_name(rng.choice(("a b", "..x", "x" * 200, "1")) + path.suffix))
        else:
            path.write_bytes(mutate(path.read_bytes(), path.name, rng))


def raw(data: bytes, rng: random.Random) -> bytes:
    """Damage bytes without looking at them; the beginning is hit more often than the rest."""
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not content:
            content = bytearray(rng.randbytes(rng.randrange(1, 64)))
        near = min(len(content), rng.choice((16, 64, 512, len(content))))
        place = rng.randrange(near)
        span = rng.choice((1, 2, 4, 8, 64, 1024))
        kind = rng.randrange(9)
        if kind == 0:
            content[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            content[place] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        elif kind == 2:
            value = _integer(rng)
            content[place : place + len(value)] = value
        elif kind == 3:
            del content[rng.randrange(len(content)) :]
        elif kind == 4:
            del content[place : place + span]
        elif kind == 5:
            content[place:place] = content[place : place + span]
        elif kind == 6:
            content[place:place] = rng.randbytes(span)
        elif kind == 7:
            other = rng.randrange(len(content))
            content[place : place + span] = content[other : other + span]
        else:
            content[place : place + span] = bytes((rng.choice((0, 255)),)) * span
    return bytes(content)


def table(values: Any, rng: random.Random) -> Any:
    """Damage one value of nested tables and lists."""
    places: list[tuple[Any, Any]] = []

    def collect(node: Any) -> None:
        inside = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in inside:
            places.append((node, key))
            if isinstance(value, dict | list):
                collect(value)

    if isinstance(values, dict | list):
        collect(values)
    if not places or rng.random() < 0.02:
        return rng.choice(VALUES)
    node, key = rng.choice(places)
    kind = rng.random()
    if kind < 0.1 and isinstance(node, dict):
        del node[key]
    elif kind < 0.2 and isinstance(node, dict):
        node[rng.choice(("x", "", "name", "path", "1"))] = node[key]
    elif kind < 0.3 and isinstance(node, list):
        node.extend([node[key]] * rng.choice((1, 5, 1000)))
    else:
        node[key] = rng.choice(VALUES)
    return values


def _json(data: bytes, rng: random.Random) -> bytes:
    text = json.dumps(table(json.loads(data), rng))
    if rng.random() < 0.05:
        text = text.replace("null", DEEP).replace("{}", DEEP, 1)
    return text.encode("utf-8", "surrogatepass")


def _toml(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines()
    number = rng.randrange(len(lines))
    key, equals, value = lines[number].partition(b"=")
    choice = rng.random()
    if choice < 0.7 and equals:
        lines[number] = key + b"= " + rng.choice((*WORDS, value * 50, DEEP.encode()))
    elif choice < 0.85:
        lines.insert(number, lines[number])
    else:
        lines[number] = rng.choice(WORDS) + b" = " + value
    return b"\n".join(lines)


def _csv(data: bytes, rng: random.Random) -> bytes:
    cells = re.split(rb"([,\n])", data)
    cells[rng.randrange(len(cells))] = rng.choice(
        (b"", b'"', b"\0", b"x" * 200_000, b"../../x.png", b"\n", b",,,", b"nan", b"\xff")
    )
    return b"".join(cells)


def _png(data: bytes, rng: random.Random) -> bytes:
    """Damage the content of one chunk, and make its checksum fit."""
    chunks, place = [], 8
    while place + 8 <= len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        chunks.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + length]))
        place += 12 + length
    number = 0 if rng.random() < 0.4 else rng.randrange(len(chunks))
    kind, content = chunks[number]
    choice = rng.random()
    if kind == b"IHDR" and choice < 0.5:
        width, height = (rng.choice(INTEGERS) % 2**31 for _ in range(2))
        content = struct.pack(">II", width, height) + content[8:]
    elif kind == b"IDAT" and choice < 0.4:
        content = zlib.compress(raw(zlib.decompress(content), rng))
    elif choice < 0.9 and content:
        content = raw(content, rng)
    else:
        kind = rng.choice((b"tRNS", b"PLTE", b"acTL", b"eXIf", b"zTXt", b"IEND"))
    chunks[number] = (kind, content)
    return data[:8] + b"".join(
        struct.pack(">I", len(inside))
        + name
        + inside
        + struct.pack(">I", zlib.crc32(name + inside))
        for name, inside in chunks
    )


def _tiff(data: bytes, rng: random.Random) -> bytes:
    """Damage one entry of a directory: its tag, type, count or value."""
    order = "<" if data[:2] == b"II" else ">"
    big = struct.unpack(order + "H", data[2:4])[0] == 43
    wide, width = ("Q", 8) if big else ("I", 4)
    (start,) = struct.unpack(order + wide, data[width : 2 * width])
    head, size = (8, 20) if big else (2, 12)
    (count,) = struct.unpack(order + ("Q" if big else "H"), data[start : start + head])
    place = start + head + size * rng.randrange(max(1, min(count, 100)))
    content = bytearray(data)
    choice = rng.random()
    if choice < 0.1:
        content[place : place + 2] = struct.pack(order + "H", rng.choice(TAGS))
    elif choice < 0.25:
        content[place + 2 : place + 4] = struct.pack(order + "H", rng.randrange(20))
    elif choice < 0.4:
        number = rng.choice(INTEGERS) % 256**width
        content[place + 4 : place + 4 + width] = struct.pack(order + wide, number)
    elif choice < 0.9:
        number = rng.choice((*INTEGERS, *range(1, 9), 32773, 34712, 50000, 7, 34925)) % 256**width
        content[place + 4 + width : place + 4 + 2 * width] = struct.pack(order + wide, number)
    else:
        content = _text(content, rng)
    return bytes(content)


def _text(content: bytearray, rng: random.Random) -> bytearray:
    """Change a number or a name in the texts of a file, without moving what is behind it."""
    places = list(re.finditer(rb'(?<=")[^"<>]{1,40}(?=")|(?<==)\d+(?=\n)', content))
    if places:
        match = rng.choice(places)
        room = match.end() - match.start()
        new = rng.choice((b"9" * 40, b"-1", b"../" * 20, b"/etc/hostname", b"nan", b"0", b"XYZTC"))
        content[match.start() : match.end()] = new[:room].ljust(room)
    return content


def _npz(data: bytes, rng: random.Random) -> bytes:
    """Damage the content of one member, and pack it again."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        names = source.namelist()
        chosen = rng.choice(names)
        for name in names:
            content = source.read(name)
            new = rng.choice(names) if rng.random() < 0.02 else name
            target.writestr(new, raw(content, rng) if name == chosen else content)
    return out.getvalue()


def _safetensors(data: bytes, rng: random.Random) -> bytes:
    """Damage the header, and make its length fit."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    inside = header.get("__metadata__", {})
    choice = rng.random()
    if choice < 0.7 and inside:
        key = rng.choice(sorted(inside))
        try:
            inside[key] = json.dumps(table(json.loads(inside[key]), rng))
        except ValueError:
            inside[key] = rng.choice(("", "[" * 100_000, "2", "x" * 1000))
        if rng.random() < 0.05:
            inside[key] = rng.choice(("", "[" * 100_000, "null"))
    else:
        header = table(header, rng)
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def _integer(rng: random.Random) -> bytes:
    order, kind = rng.choice("<>"), rng.choice("BHIQ")
    size = struct.calcsize(kind)
    return struct.pack(order + kind, rng.choice(INTEGERS) % 256**size)


_BY_SUFFIX: dict[str, Callable[[bytes, random.Random], bytes]] = {
    ".json": _json,
    ".toml": _toml,
    ".csv": _csv,
    ".png": _png,
    ".tif": _tiff,
    ".dng": _tiff,
    ".npz": _npz,
    ".safetensors": _safetensors,
}
_BY_NAME = dict.fromkeys((".zarray", ".zattrs", ".zgroup"), _json)


def scramble(path: Path, rng: random.Random) -> None:
    """Damage a file, or a folder of files."""
    if path.is_dir():
        mutate_folder(path, rng)
    else:
        beside = sorted(each for each in path.parent.iterdir() if each.is_file())
        chosen = path if rng.random() < 0.7 else rng.choice(beside)
        chosen.write_bytes(mutate(chosen.read_bytes(), chosen.name, rng))


def list_files(folder: Path) -> set[str]:
    """List everything below a folder."""
    return {str(path) for path in folder.rglob("*")}
