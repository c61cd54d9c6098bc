"""Hostile inputs, each a kind of its own: `make(number, folder)` writes one and returns the command that meets it.

A kind is what is attacked (a picture, mask, record, model, configuration or list), in which format, and by which
mutation. The same number always gives the same bytes.
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image
from safetensors.numpy import save as save_tensors

Mutation = Callable[[bytes, np.random.Generator], bytes]


def _at(data: bytes, rng: np.random.Generator) -> int:
    return int(rng.integers(0, max(1, len(data) if rng.random() < 0.5 else min(len(data), 200))))


def _put(data: bytes, rng: np.random.Generator, new: bytes) -> bytes:
    at = _at(data, rng)
    return data[:at] + new + data[at + len(new) :]


MUTATIONS: dict[str, Mutation] = {
    "whole": lambda d, r: d,
    "empty": lambda d, r: b"",
    "cut": lambda d, r: d[: _at(d, r)],
    "last byte": lambda d, r: d[:-1],
    "first byte": lambda d, r: d[1:],
    "bit": lambda d, r: _put(d, r, bytes([int(r.integers(0, 256))])),
    "ones": lambda d, r: _put(d, r, b"\xff" * 4),
    "zeros": lambda d, r: _put(d, r, bytes(4)),
    "largest": lambda d, r: _put(d, r, b"\x7f\xff\xff\xff"),
    "noise": lambda d, r: _put(d, r, r.bytes(30)),
    "insert": lambda d, r: d[: (at := _at(d, r))] + r.bytes(20) + d[at:],
    "delete": lambda d, r: d[: (at := _at(d, r))] + d[at + 10 :],
    "twice": lambda d, r: d + d,
    "tail": lambda d, r: d + r.bytes(500),
    "text": lambda d, r: b"this is not what it says",
    "random": lambda d, r: r.bytes(400),
    "nuls": lambda d, r: bytes(400),
    "deep": lambda d, r: b"[" * 20_000,
    "numbers": lambda d, r: d.replace(b"1", b"99999999999999999999"),
    "minus": lambda d, r: d.replace(b": ", b": -"),
    "strings": lambda d, r: d.replace(b"1", b'"1"'),
    "nan": lambda d, r: d.replace(b"1", b"NaN"),
}


def _pixels(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 256, (18, 17, 3)).astype(np.uint8)


def _pillow(form: str) -> Callable[[np.random.Generator], bytes]:
    def encode(rng: np.random.Generator) -> bytes:
        file = io.BytesIO()
        Image.fromarray(_pixels(rng)).save(file, form)
        return file.getvalue()

    return encode


def _tiff(kind: str, **options) -> Callable[[np.random.Generator], bytes]:
    def encode(rng: np.random.Generator) -> bytes:
        file, values = io.BytesIO(), _pixels(rng)
        values = values / np.float32(255) if kind == "float32" else values.astype(kind) * 257
        tifffile.imwrite(file, values.astype(kind), photometric="rgb", **options)
        return file.getvalue()

    return encode


def _npy(rng: np.random.Generator) -> bytes:
    file = io.BytesIO()
    np.save(file, _pixels(rng))
    return file.getvalue()


PICTURES = {
    "png": ("png", _pillow("PNG")),
    "jpeg": ("jpg", _pillow("JPEG")),
    "webp": ("webp", _pillow("WEBP")),
    "bmp": ("bmp", _pillow("BMP")),
    "npy": ("npy", _npy),
    "tiff16": ("tiff", _tiff("uint16")),
    "deflate": ("tiff", _tiff("uint16", compression="zlib")),
    "lzma": ("tiff", _tiff("uint16", compression="lzma")),
    "float": ("tiff", _tiff("float32")),
}
RECORD = {
    "options": {"prior": "none", "iterations": 1, "burn_in": 0, "rank": 2, "seed": 1},
    "name": "a",
    "photo": "x",
}
CONFIG = b'prior = "none"\niterations = 1\nburn-in = 0\nrank = 2\nsigma = 0.1\nseed = 1\nsave = ["mean"]\n'
SHAPE = {"architecture": "natural", "channels": [8, 8], "blocks": [1, 1], "image_channels": 3}
TARGETS = [
    *(f"picture {form}" for form in PICTURES),
    *(f"mask {form}" for form in PICTURES),
    *("record", "config", "list", "shape", "weights"),
]
KINDS = list(itertools.product(TARGETS, MUTATIONS))


@dataclass(frozen=True)
class Case:
    """name: the kind in words. command: what to run. listed: what stands on stdin."""

    name: str
    command: list[str]
    out: Path
    listed: bytes = b""


def make(number: int, place: Path) -> Case:
    """Write the case of a number below `place`; beyond the number of kinds, the same kinds with other seeds."""
    (target, mutation), rng = KINDS[number % len(KINDS)], np.random.default_rng(number)
    place.mkdir(parents=True)
    photo, mask, config, out = (place / name for name in ("photo.png", "mask.png", "run.toml", "out"))
    photo.write_bytes(_pillow("PNG")(rng))
    hole = np.zeros((18, 17), np.uint8)
    hole[3:6, 4:9] = 255
    Image.fromarray(hole).save(mask)
    config.write_bytes(CONFIG)
    what, _, form = target.partition(" ")
    suffix, encode = PICTURES.get(form, ("png", None))
    good = {"record": json.dumps(RECORD).encode(), "config": CONFIG, "shape": json.dumps(SHAPE).encode()}.get(
        what
    )
    if encode is not None:
        good = encode(rng)
    elif what == "list":
        good = f"{photo}\n".encode()
    elif what == "weights":
        good = save_tensors({"enter.weight": np.zeros((8, 12, 3, 3), np.float32)})
    bad = MUTATIONS[mutation](good or b"", rng)
    more, listed = ["--config", str(config)], b""
    if what == "picture":
        photo = place / f"photo.{suffix}"
        photo.write_bytes(bad)
    elif what == "mask":
        mask = place / f"mask.{suffix}"
        mask.write_bytes(bad)
    elif what in ("record", "config"):
        config = place / ("run.json" if what == "record" else "run.toml")
        config.write_bytes(bad)
        more = [
            "--config",
            str(config),
            "--prior",
            "none",
            "--iterations",
            "1",
            "--burn-in",
            "0",
            "--rank",
            "2",
        ]
    elif what == "list":
        listed = bad
    else:
        (place / "model").mkdir()
        (place / "model" / "config.json").write_bytes(bad if what == "shape" else json.dumps(SHAPE).encode())
        (place / "model" / "model.safetensors").write_bytes(bad if what == "weights" else b"")
        return Case(f"{number}: {target}, {mutation}", ["models", "verify", str(place / "model")], out)
    inputs = ["-"] if what == "list" else [str(photo)]
    command = ["inpaint", *inputs, "--mask", str(mask), "-o", str(out), *more, "--quiet"]
    return Case(f"{number}: {target}, {mutation}", [*command, "--jobs", "1"], out, listed)
