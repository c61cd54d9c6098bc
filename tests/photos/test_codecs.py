"""TIFF files of rare compressions and odd numbers of bits: read through imagecodecs, or a sentence without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tifffile

from diffbcp_cli.photos.photo import read_photo

pytest.importorskip("imagecodecs")
RARE = ["zstd", "jpeg2000", "png", "jpegxr", "lerc", "jpegxl"]
_WITHOUT = """
import sys
sys.modules["imagecodecs"] = None  # as if it were not installed
from pathlib import Path
from diffbcp_cli.errors import InputError
from diffbcp_cli.photos.photo import read_photo
for name in sys.argv[1:]:
    try:
        print(float(read_photo(Path(name)).pixels.astype("f8").sum()))
    except InputError as error:
        print(error.message, "|", error.hint)
"""


def samples(kind: str, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, np.iinfo(kind).max + 1, (24, 20, 3)).astype(kind)


@pytest.mark.parametrize("kind", ["uint8", "uint16"])
@pytest.mark.parametrize("compression", [*RARE, "lzw", "lzma"])
def test_every_lossless_compression_gives_the_stored_samples(tmp_path, compression, kind):
    stored = samples(kind)
    tifffile.imwrite(tmp_path / "a.tiff", stored, photometric="rgb", compression=compression)
    photo = read_photo(tmp_path / "a.tiff")
    assert photo.depth == kind
    assert np.array_equal(photo.pixels, stored.astype(np.float32) / np.float32(np.iinfo(kind).max))


@pytest.mark.parametrize("bits", [2, 4, 5, 7, 9, 10, 12, 14, 15])
def test_any_number_of_bits_runs_from_black_to_white(tmp_path, bits):
    kind = "uint8" if bits < 8 else "uint16"
    stored = samples("uint16") >> (16 - bits)
    stored[0, 0] = 2**bits - 1
    tifffile.imwrite(tmp_path / "a.tiff", stored.astype(kind), photometric="rgb", bitspersample=bits)
    photo = read_photo(tmp_path / "a.tiff")
    assert photo.depth == kind
    top = np.iinfo(kind).max
    assert np.abs(photo.pixels - stored / (2**bits - 1)).max() <= 0.51 / top
    assert photo.pixels.max() == 1


def test_without_imagecodecs_each_is_a_sentence_and_the_usual_ones_are_read(tmp_path):
    stored, files = samples("uint16"), []
    for compression in (*RARE, "lzw"):
        files.append(tmp_path / f"{compression}.tiff")
        tifffile.imwrite(files[-1], stored, photometric="rgb", compression=compression)
    files.append(tmp_path / "bits.tiff")
    tifffile.imwrite(files[-1], stored >> 4, photometric="rgb", bitspersample=12)
    files.append(tmp_path / "webp.tiff")
    tifffile.imwrite(files[-1], samples("uint8"), photometric="rgb", compression="webp")
    command = [sys.executable, "-c", _WITHOUT, *map(str, files)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for path, line in zip(files, said, strict=True):
        if path.stem == "lzw":
            assert float(line) == pytest.approx((stored / 65535).sum())
        else:
            assert "which needs imagecodecs | pip install imagecodecs" in line, line


def test_one_of_them_that_is_damaged_is_a_sentence(tmp_path):
    path = Path(tmp_path / "a.tiff")
    tifffile.imwrite(path, samples("uint16"), photometric="rgb", compression="zstd")
    with tifffile.TiffFile(path) as tif:
        at = tif.pages[0].dataoffsets[0]
    data = bytearray(path.read_bytes())
    data[at : at + 40] = bytes(40)
    path.write_bytes(data)
    with pytest.raises(Exception, match=r"a\.tiff cannot be decoded"):
        read_photo(path)
