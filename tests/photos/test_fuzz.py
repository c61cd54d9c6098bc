"""Mutated pictures and masks through the command line: no traceback, no partial output, documented exit codes.

The mutations are seeded, so a failure can be run again: the assertion names the case.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from diffbcp_cli.cli.app import run
from diffbcp_cli.errors import InputError
from diffbcp_cli.photos.photo import read_photo

CASES = 300
CODES = {0, 1, 2, 3, 4, 5, 130}
FORMATS = ("png", "jpg", "webp", "tiff", "bmp", "npy", "png16", "tiff16", "float")


def encoded(form: str, rng: np.random.Generator) -> tuple[str, bytes]:
    """A good little picture in one of the formats: its suffix and its bytes."""
    pixels = rng.integers(0, 256, (18, 17, 3)).astype(np.uint8)
    file = io.BytesIO()
    if form == "npy":
        np.save(file, pixels)
    elif form == "tiff16":
        tifffile.imwrite(file, pixels.astype(np.uint16) * 257, photometric="rgb", compression="zlib")
    elif form == "float":
        tifffile.imwrite(file, pixels[..., 0].astype(np.float32) / 255)
    elif form == "png16":
        Image.fromarray(pixels[..., 0].astype(np.uint16) * 257).save(file, "PNG")
    else:
        kind = {"jpg": "JPEG"}.get(form, form.upper())
        exif = Image.Exif()
        exif[0x0112] = 6
        Image.fromarray(pixels).save(file, kind, **({} if form == "bmp" else {"exif": exif}))
    return {"png16": "png", "tiff16": "tiff", "float": "tiff"}.get(form, form), file.getvalue()


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Flip, overwrite, cut, repeat or insert, mostly where headers are."""
    body = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        if not body:
            break
        end = len(body) if rng.random() < 0.5 else min(len(body), 200)
        at = int(rng.integers(0, end))
        match int(rng.integers(0, 6)):
            case 0:
                body[at] ^= 1 << int(rng.integers(0, 8))
            case 1:
                body[at : at + 4] = rng.choice(
                    [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\0\0\1\0"]
                )
            case 2:
                del body[at:]
            case 3:
                body[at:at] = rng.bytes(int(rng.integers(1, 40)))
            case 4:
                body[at:at] = body[at : at + int(rng.integers(1, 400))]
            case 5:
                del body[at : at + int(rng.integers(1, 30))]
    return bytes(body)


def check(case: str, out: Path, code: int, said: str) -> None:
    assert code in CODES, case
    assert "Traceback" not in said, (case, said)
    assert "unexpected" not in said, (case, said)
    present = {path.name for path in out.iterdir()} if out.exists() else set()
    assert not {name for name in present if name.endswith((".tmp", ".lock"))}, case
    if code == 0:
        assert set(json.loads((out / "photo.json").read_text())["files"]) == present - {"photo.json"}, case
    else:
        assert not present, case
        assert said.startswith("error: "), case
        assert len(said.splitlines()) <= 3, (case, said)  # a sentence and a hint


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_mutated_pictures_and_masks_end_in_a_result_or_in_one_sentence(tmp_path, capfd):
    config = tmp_path / "run.toml"
    config.write_text('prior = "none"\niterations = 1\nburn-in = 0\nrank = 2\nsave = ["mean"]\n')
    hole = np.zeros((18, 17), np.uint8)
    hole[3:6, 4:9] = 255
    Image.fromarray(hole).save(tmp_path / "mask.png")
    codes: dict[int, int] = {}
    for number in range(CASES):
        rng = np.random.default_rng(number)
        suffix, data = encoded(FORMATS[number % len(FORMATS)], rng)
        place = tmp_path / str(number)
        place.mkdir()
        photo, mask = place / f"photo.{suffix}", tmp_path / "mask.png"
        photo.write_bytes(data if number % 3 == 0 else mutated(data, rng))
        if number % 3 == 0:
            mask = place / f"mask.{suffix}"
            mask.write_bytes(mutated(data, rng))
        arguments = ["--mask", str(mask), "-o", str(place / "out"), "--config", str(config), "--quiet"]
        code = run(["inpaint", str(photo), *arguments])
        check(f"case {number}", place / "out", code, capfd.readouterr().err)
        codes[code] = codes.get(code, 0) + 1
    assert set(codes) == {0, 3}
    assert min(codes.values()) > CASES // 10


def test_a_tiff_that_claims_pages_without_end_is_refused_at_once(tmp_path):
    rng = np.random.default_rng(3723)  # found by more of the above; reading it took for ever
    path = tmp_path / "endless.tiff"
    path.write_bytes(mutated(encoded("tiff16", rng)[1], rng))
    with pytest.raises(InputError, match="64 pages"):
        read_photo(path)
