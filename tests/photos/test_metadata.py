"""Resolution, XMP, IPTC, texts and times stay with the photograph, or a note says which are lost."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from photo_files import make_photo
from PIL import Image, IptcImagePlugin, PngImagePlugin

from diffbcp_cli.cli.app import run
from diffbcp_cli.errors import InputError
from diffbcp_cli.photos.codecs import jpeg, metadata, png
from diffbcp_cli.photos.codecs.described import NOTHING, Metadata
from diffbcp_cli.photos.photo import SUFFIXES, losses, read_photo, write_photo

XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF>\xc3\xa9</rdf:RDF></x:xmpmeta>'
IPTC = b"\x1c\x02\x50\x00\x04Anna\x1c\x02\x78\x00\x03Sea"  # By-line, Caption
EVERYTHING = Metadata(
    dpi=(300.0, 150.0),
    xmp=XMP,
    iptc=IPTC,
    texts=(png.text("Author", b"Anna"), png.text("Title", "Düne".encode()), png.text("Comment", b"scan 7")),
    time=bytes.fromhex("07e50102030405"),
)
KEPT = {
    ".png": {"dpi", "xmp", "iptc", "Author", "Title", "Comment", "time"},
    ".jpg": {"dpi", "xmp", "iptc", "Comment"},
    ".jpeg": {"dpi", "xmp", "iptc", "Comment"},
    ".tif": {"dpi", "xmp", "iptc"},
    ".tiff": {"dpi", "xmp", "iptc"},
    ".webp": {"dpi", "xmp"},
    ".bmp": {"dpi"},
    ".npy": set(),
}


def kept(found: Metadata) -> set[str]:
    """What of EVERYTHING is there, with the same values."""
    words = {png.keyword(one) for one in found.texts if one in EVERYTHING.texts}
    close = found.dpi is not None and np.allclose(found.dpi, EVERYTHING.dpi, rtol=1e-4)
    same = {name for name in ("xmp", "iptc", "time") if getattr(found, name) == getattr(EVERYTHING, name)}
    return words | same | ({"dpi"} if close else set())


@pytest.mark.parametrize("depth", ["uint8", "uint16"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_keeps_what_it_can_and_says_what_it_cannot(suffix, depth, tmp_path):
    photo = make_photo(more=EVERYTHING, depth=depth)
    found = read_photo(write_photo(tmp_path / f"a{suffix}", photo.pixels, photo))
    assert kept(found.more) == KEPT[suffix]
    said = " ".join(losses(Path(f"a{suffix}"), photo))
    words = {"dpi": "DPI", "xmp": "XMP", "iptc": "IPTC", "time": "time of change"}
    for name in KEPT[".png"]:
        assert (words.get(name, name) in said) == (name not in KEPT[suffix]), (name, said)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tiff", ".webp"])
def test_other_programs_find_it_too(suffix, tmp_path):
    """Pillow's own readers are the other program."""
    photo = make_photo(more=EVERYTHING)
    with Image.open(write_photo(tmp_path / f"a{suffix}", photo.pixels, photo)) as image:
        image.load()
        assert image.info["xmp"] == XMP
        if suffix != ".webp":
            assert tuple(map(round, image.info["dpi"])) == (300, 150)
            found = IptcImagePlugin.getiptcinfo(image)
            assert suffix == ".png" or found == {(2, 80): b"Anna", (2, 120): b"Sea"}
        if suffix == ".png":
            assert image.text["Title"] == "Düne"
        if suffix == ".jpg":
            assert image.info["comment"] == b"scan 7"


def test_what_other_programs_wrote_is_read(tmp_path):
    texts = PngImagePlugin.PngInfo()
    texts.add_text("Author", "Anna", zip=True)
    texts.add_itxt("Titre", "Düne", lang="fr", zip=True)
    texts.add_itxt("XML:com.adobe.xmp", XMP.decode(), zip=True)
    digits = f"\niptc\n{len(IPTC):8}\n{IPTC.hex()[:72]}\n{IPTC.hex()[72:]}"
    texts.add_text("Raw profile type iptc", digits, zip=True)
    Image.new("RGB", (20, 20)).save(tmp_path / "a.png", pnginfo=texts, dpi=(300, 150))
    found = read_photo(tmp_path / "a.png")
    assert {png.keyword(one): png.plain(one).decode() for one in found.more.texts} == {
        "Author": "Anna",
        "Titre": "Düne",
    }
    assert {"dpi", "xmp", "iptc"} <= kept(found.more)
    again = read_photo(write_photo(tmp_path / "b.png", found.pixels, found))
    assert again.more == found.more  # chunk by chunk


def test_a_turned_photograph_turns_its_resolution_and_its_xmp(tmp_path):
    exif, turned = Image.Exif(), b'<rdf:Description tiff:Orientation="6"/>'
    exif[274] = 6
    Image.new("RGB", (20, 30)).save(tmp_path / "a.jpg", dpi=(300, 150), exif=exif.tobytes())
    data = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(jpeg.embed(data, Metadata(dpi=(300, 150), xmp=turned)))
    found = read_photo(tmp_path / "a.jpg")
    assert found.more.dpi == (150, 300)
    assert found.more.xmp == turned.replace(b"6", b"1")


def test_centimetres_become_inches(tmp_path):
    data = io.BytesIO()
    Image.new("RGB", (20, 20)).save(data, "JPEG")
    jfif = data.getvalue()[:13] + struct.pack(">BHH", 2, 100, 50) + data.getvalue()[18:]
    (tmp_path / "a.jpg").write_bytes(jfif)
    assert read_photo(tmp_path / "a.jpg").more.dpi == (254.0, 127.0)


@pytest.mark.parametrize(
    "body",
    [
        b"Raw profile type iptc\0\0" + zlib.compress(b"\niptc\n 4\nzz"),
        b"Raw profile type iptc\0\0no zlib",
        b"Raw profile type iptc\0\0" + zlib.compress(bytes(2**27)),  # unpacks to more than is allowed
    ],
)
def test_damaged_metadata_is_left_out_with_a_word(body, tmp_path):
    data = io.BytesIO()
    Image.new("RGB", (20, 20)).save(data, "PNG")
    whole = png.embed(data.getvalue(), Metadata(texts=((b"zTXt", body),)))
    found, notes = metadata.read(whole, None, 1)
    assert (found, len(notes)) == (NOTHING, 1)
    assert "damaged" in notes[0]


def test_metadata_of_any_bytes_never_fails():
    rng = np.random.default_rng(0)
    photo = make_photo(more=EVERYTHING)
    for suffix in (".png", ".jpg"):
        whole = bytearray(_bytes_of(photo, suffix))
        for _ in range(300):
            damaged = bytearray(whole)
            for at in rng.integers(20, min(len(whole), 900), 3):
                damaged[at] = rng.integers(256)
            metadata.read(bytes(damaged), None, 1)


def _bytes_of(photo, suffix):
    file = io.BytesIO()
    Image.fromarray((photo.pixels * 255).astype(np.uint8)).save(
        file, {"png": "PNG", "jpg": "JPEG"}[suffix[1:]]
    )
    return metadata.embed(file.getvalue(), suffix, photo.more)


def test_too_much_for_a_jpeg_is_said():
    photo = make_photo(more=replace(NOTHING, xmp=bytes(70_000), iptc=bytes(70_000)))
    assert losses(Path("a.jpg"), photo) == (
        ".jpg holds no XMP of this length",
        ".jpg holds no IPTC of this length",
    )


def test_a_result_keeps_it_and_the_run_says_what_is_lost(mask, tmp_path, capsys):
    photo = make_photo(shape=(32, 32), more=EVERYTHING)
    source = write_photo(tmp_path / "a.png", photo.pixels, photo)
    command = ["inpaint", str(source), "--mask", str(mask), "--method", "telea"]
    assert run([*command, "-o", str(tmp_path / "out")]) == 0
    assert kept(read_photo(tmp_path / "out" / "a.mean.png").more) == KEPT[".png"]
    capsys.readouterr()
    assert run([*command, "-o", str(tmp_path / "b.jpg"), "--observed", "keep"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "b.jpg: .jpg holds no texts (Author, Title)" in said
    assert "JPEG changes known pixels a little" in said


@pytest.mark.parametrize("suffix", [".heic", ".avif"])
def test_heic_and_avif_are_read(suffix, tmp_path):
    if suffix == ".heic":
        pytest.importorskip("pillow_heif").register_heif_opener()
    photo = make_photo(shape=(64, 64))
    image = Image.fromarray((photo.pixels * 255).astype(np.uint8))
    image.save(tmp_path / f"a{suffix}", quality=95)
    found = read_photo(tmp_path / f"a{suffix}")
    assert found.pixels.shape == (64, 64, 3)
    assert np.abs(found.pixels - photo.pixels).mean() < 0.03


def test_without_its_package_heic_is_unsupported_and_not_damaged(tmp_path):
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(100))
    code = (
        "import sys; sys.modules['pillow_heif'] = None; from pathlib import Path;"
        "from diffbcp_cli.photos.photo import read_photo; read_photo(Path(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.heic")], capture_output=True, text=True
    )
    assert "needs the package pillow-heif" in done.stderr


def test_what_is_no_picture_is_not_called_damaged_whatever_is_installed(tmp_path):
    """In a process of its own: another test may have let Pillow open HEIC."""
    (tmp_path / "a.png").write_bytes(b"not a picture")
    code = (
        "import sys; from pathlib import Path;"
        "from diffbcp_cli.photos.photo import read_photo; read_photo(Path(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.png")], capture_output=True, text=True
    )
    assert "is not an image" in done.stderr


def test_a_damaged_heic_is_damaged(tmp_path):
    pytest.importorskip("pillow_heif")
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(100))
    with pytest.raises(InputError, match=r"damaged"):
        read_photo(tmp_path / "a.heic")
