"""Photographs survive the way through a file; what cannot be read is refused in one sentence."""

from __future__ import annotations

import contextlib
import io
import struct
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms

from diffbcp_cli.errors import InputError, OutputError, UsageError
from diffbcp_cli.photos import photo as images
from diffbcp_cli.photos.photo import Photo, read_photo, write_photo

SHAPE = (20, 24)
ICC = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
SAMPLES = {"grey": 1, "grey+alpha": 2, "rgb": 3, "rgba": 4}
DTYPES: dict[str, Any] = {"uint8": np.uint8, "uint16": np.uint16, "float32": np.float32}


def samples_of(depth: str, count: int, shape: tuple[int, int] = SHAPE) -> np.ndarray:
    unit = np.random.default_rng(count).random((*shape, count))
    return (unit * {"uint8": 255, "uint16": 65535, "float32": 1}[depth]).astype(DTYPES[depth])


def camera_exif(orientation: int | None = None) -> bytes:
    exif = Image.Exif()
    exif[271] = "Camera maker"
    exif[306] = "2021:02:03 04:05:06"
    if orientation is not None:
        exif[274] = orientation
    exif.get_ifd(0x8769)[0x9003] = "2021:02:03 04:05:06"
    exif.get_ifd(0x8769)[0x927C] = b"maker\0note"
    exif.get_ifd(0x8825)[1] = "N"
    return exif.tobytes()


def photo_of(samples: np.ndarray, path: Path, *, metadata: bool = True) -> Photo:
    depth = str(samples.dtype)
    unit = samples.astype(np.float32) / {"uint8": 255, "uint16": 65535, "float32": 1}[depth]
    count = samples.shape[2]
    colours = 3 if count >= 3 else 1
    return Photo(
        pixels=np.float32(unit[..., :colours]),
        alpha=np.float32(unit[..., -1]) if count in (2, 4) else None,
        depth=depth,  # type: ignore[arg-type]
        grey=colours == 1,
        icc=ICC if metadata else None,
        exif=camera_exif() if metadata else None,
        format="PNG",
        path=path,
    )


def save(path: Path, image: Image.Image | np.ndarray, **options: Any) -> Path:
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(path, **options)
    return path


def tags(exif: bytes | None) -> tuple[dict[int, Any], dict[int, Any], dict[int, Any]]:
    assert exif is not None
    parsed = Image.Exif()
    parsed.load(exif)
    first = {k: v for k, v in parsed.items() if k not in (0x8769, 0x8825)}
    return first, parsed.get_ifd(0x8769), parsed.get_ifd(0x8825)


@pytest.mark.parametrize("count", SAMPLES.values(), ids=SAMPLES.keys())
@pytest.mark.parametrize(
    ("suffix", "depth"),
    [
        (".png", "uint8"),
        (".png", "uint16"),
        (".tif", "uint8"),
        (".tiff", "uint16"),
        (".tiff", "float32"),
        (".npy", "uint8"),
        (".npy", "uint16"),
        (".npy", "float32"),
        (".webp", "uint8"),
    ],
)
def test_pixels_alpha_and_metadata_survive(tmp_path: Path, suffix: str, depth: str, count: int) -> None:
    before = photo_of(samples_of(depth, count), tmp_path / f"a{suffix}")
    after = read_photo(write_photo(before.path, before.pixels, before))

    np.testing.assert_array_equal(after.pixels, np.broadcast_to(before.pixels, after.pixels.shape))
    assert after.depth == depth
    if suffix != ".webp":  # WebP has no grey
        assert after.grey == before.grey
    assert after.notes == ()
    if before.alpha is None:
        assert after.alpha is None
    else:
        np.testing.assert_array_equal(after.alpha, before.alpha)
    if suffix == ".npy":
        assert images.losses(before.path, before) == (".npy holds no ICC profile or EXIF",)
        return
    assert images.losses(before.path, before) == ()
    assert after.icc == ICC
    assert tags(after.exif) == tags(before.exif)
    if suffix in (".png", ".webp"):
        assert after.exif == before.exif


@pytest.mark.parametrize("suffix", [".jpg", ".bmp"])
@pytest.mark.parametrize("count", [1, 3])
def test_jpeg_and_bmp_hold_eight_bits(tmp_path: Path, suffix: str, count: int) -> None:
    smooth = cv2.resize(samples_of("uint8", count, (4, 4)), SHAPE[::-1]).reshape(*SHAPE, count)
    before = photo_of(smooth, tmp_path / f"a{suffix}")
    after = read_photo(write_photo(before.path, before.pixels, before))
    assert after.grey == before.grey
    if suffix == ".bmp":
        np.testing.assert_array_equal(after.pixels, before.pixels)
        assert images.losses(before.path, before) == (".bmp holds no ICC profile or EXIF",)
    else:
        assert float(np.abs(after.pixels - before.pixels).max()) < 0.04
        assert (after.icc, after.exif) == (ICC, before.exif)


def test_what_a_format_cannot_keep_is_said(tmp_path: Path) -> None:
    before = photo_of(samples_of("uint16", 4), tmp_path / "a.png")
    assert images.losses(Path("b.jpg"), before) == (
        ".jpg holds 8 bits per sample, a.png is uint16",
        ".jpg holds no transparency",
    )
    after = read_photo(write_photo(tmp_path / "b.jpg", before.pixels, before))
    assert (after.depth, after.alpha, after.icc) == ("uint8", None, ICC)


def test_float_photo_becomes_a_16_bit_png(tmp_path: Path) -> None:
    before = photo_of(samples_of("float32", 3), tmp_path / "a.tiff")
    after = read_photo(write_photo(tmp_path / "a.mean.png", before.pixels, before))
    assert after.depth == "uint16"
    np.testing.assert_allclose(after.pixels, before.pixels, atol=0.51 / 65535)
    assert images.losses(Path("a.mean.png"), before) == (".png holds 16 bits per sample, a.tiff is float32",)


def test_integers_are_clipped_and_rounded_half_to_even(tmp_path: Path) -> None:
    like = photo_of(samples_of("uint8", 1), tmp_path / "a.npy")
    values = np.full(SHAPE, 0.5, np.float32)  # 127.5
    values[0, :4] = [-3.0, 7.0, np.nan, 2.5 / 255]
    write_photo(like.path, values, like)
    stored = np.load(like.path)
    assert stored.dtype == np.uint8
    assert stored[0, :4].tolist() == [0, 255, 0, 2]
    assert stored[5, 5] == 128


def test_floats_are_written_as_they_are(tmp_path: Path) -> None:
    like = photo_of(samples_of("float32", 1), tmp_path / "a.tiff")
    values = like.pixels.copy()
    values[0, 0], values[0, 1] = 1.25, np.nan
    after = read_photo(write_photo(like.path, values, like))
    np.testing.assert_array_equal(after.pixels, values)


def test_16_bit_png_is_what_opencv_reads(tmp_path: Path) -> None:
    samples = samples_of("uint16", 4)
    before = photo_of(samples, tmp_path / "a.png")
    write_photo(before.path, before.pixels, before)
    stored = cv2.imread(str(before.path), cv2.IMREAD_UNCHANGED)
    np.testing.assert_array_equal(cv2.cvtColor(stored, cv2.COLOR_BGRA2RGBA), samples)


def test_16_bit_png_of_opencv_is_read(tmp_path: Path) -> None:
    samples = samples_of("uint16", 3)
    assert cv2.imwrite(str(tmp_path / "a.png"), samples[..., ::-1])
    photo = read_photo(tmp_path / "a.png")
    assert photo.depth == "uint16"
    np.testing.assert_array_equal(np.rint(photo.pixels * 65535), samples)


@pytest.mark.parametrize("compression", [1, 5, 8, 32773], ids=["none", "lzw", "deflate", "packbits"])
@pytest.mark.parametrize("depth", ["uint16", "float32"])
def test_compressed_tiffs_of_others_are_read(tmp_path: Path, depth: str, compression: int) -> None:
    samples = samples_of(depth, 3)
    options = [cv2.IMWRITE_TIFF_COMPRESSION, compression]
    assert cv2.imwrite(str(tmp_path / "a.tif"), samples[..., ::-1], options)
    photo = read_photo(tmp_path / "a.tif")
    assert photo.depth == depth
    np.testing.assert_array_equal(photo.pixels, np.float32(samples) / (65535 if depth == "uint16" else 1))


def test_tiff_layouts(tmp_path: Path) -> None:
    rgb = samples_of("uint16", 3)
    tifffile.imwrite(
        tmp_path / "planar.tif", np.moveaxis(rgb, -1, 0), photometric="rgb", planarconfig="separate"
    )
    np.testing.assert_array_equal(np.rint(read_photo(tmp_path / "planar.tif").pixels * 65535), rgb)

    tifffile.imwrite(tmp_path / "white.tif", rgb[..., 0], photometric="miniswhite")
    grey = read_photo(tmp_path / "white.tif")
    assert grey.grey
    np.testing.assert_array_equal(np.rint(grey.pixels[..., 0] * 65535), 65535 - rgb[..., 0])

    tifffile.imwrite(tmp_path / "double.tif", rgb[..., 0] / 65535.0)
    assert read_photo(tmp_path / "double.tif").depth == "float32"

    tifffile.imwrite(tmp_path / "turned.tif", rgb, photometric="rgb", extratags=[(274, 3, 1, 6, True)])
    turned = read_photo(tmp_path / "turned.tif")
    np.testing.assert_array_equal(np.rint(turned.pixels * 65535), np.rot90(rgb, -1))

    premultiplied = np.full((*SHAPE, 4), (8192, 16384, 0, 32768), np.uint16)
    tifffile.imwrite(tmp_path / "pre.tif", premultiplied, photometric="rgb", extrasamples=["assocalpha"])
    np.testing.assert_allclose(read_photo(tmp_path / "pre.tif").pixels[0, 0], [0.25, 0.5, 0], atol=1e-4)

    tifffile.imwrite(tmp_path / "spare.tif", premultiplied, photometric="rgb", extrasamples=["unspecified"])
    spare = read_photo(tmp_path / "spare.tif")
    assert spare.alpha is None
    assert spare.notes == ("left out 1 extra channel(s) that are not transparency",)


def test_tiff_with_a_thumbnail_is_one_picture(tmp_path: Path) -> None:
    full, small = samples_of("uint8", 3), samples_of("uint8", 3, (16, 16))
    with tifffile.TiffWriter(tmp_path / "a.tif") as tif:
        tif.write(small, photometric="rgb", subfiletype=1)
        tif.write(full, photometric="rgb")
    np.testing.assert_array_equal(np.rint(read_photo(tmp_path / "a.tif").pixels * 255), full)


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied_once(tmp_path: Path, suffix: str, orientation: int) -> None:
    picture = np.zeros((*SHAPE, 3), np.uint8)
    picture[:10, :12, 0], picture[:10, 12:, 1], picture[10:, :12, 2] = 255, 255, 255
    options: dict[str, Any] = {".jpg": {"quality": 100, "subsampling": 0}, ".webp": {"lossless": True}}.get(
        suffix, {}
    )
    turn = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}.get(orientation)  # the inverse, by Pillow
    stored = Image.fromarray(picture)
    if turn is not None:
        stored = stored.transpose(Image.Transpose(turn))
    save(tmp_path / f"a{suffix}", stored, exif=camera_exif(orientation), **options)

    photo = read_photo(tmp_path / f"a{suffix}")
    assert photo.pixels.shape == picture.shape
    assert float(np.abs(photo.pixels * 255 - picture).max()) < 12
    first, camera, place = tags(photo.exif)
    assert first.pop(274, 1) == 1
    expected = tags(camera_exif())
    assert (first, camera, place) == expected
    again = read_photo(write_photo(tmp_path / "b.png", photo.pixels, photo))
    np.testing.assert_allclose(again.pixels, photo.pixels)


def test_orientation_of_16_bit_png_is_applied(tmp_path: Path) -> None:
    samples = samples_of("uint16", 3)
    before = photo_of(samples, tmp_path / "a.png")
    turned = Photo(**{**before.__dict__, "exif": camera_exif(6)})
    write_photo(before.path, before.pixels, turned)
    np.testing.assert_array_equal(read_photo(before.path).pixels, np.rot90(before.pixels, -1))


def test_palette_and_one_bit_are_converted_and_said(tmp_path: Path) -> None:
    rgb = Image.fromarray(samples_of("uint8", 3))
    palette = rgb.quantize(8)
    photo = read_photo(save(tmp_path / "p.png", palette))
    assert photo.notes == ("converted from a palette to RGB",)
    np.testing.assert_array_equal(photo.pixels * 255, np.asarray(palette.convert("RGB")))

    clear = read_photo(save(tmp_path / "t.png", palette, transparency=0))
    assert clear.alpha is not None
    np.testing.assert_array_equal(clear.alpha == 0, np.asarray(palette) == 0)

    one = read_photo(save(tmp_path / "one.png", rgb.convert("1")))
    assert one.notes == ("converted from 1 bit to 8-bit grey",)
    assert (one.grey, set(np.unique(one.pixels))) == (True, {0.0, 1.0})

    still = read_photo(save(tmp_path / "still.gif", palette))
    assert still.format == "GIF"


def test_colour_keys_become_alpha(tmp_path: Path) -> None:
    grey = (np.arange(480) % 5).astype(np.uint8).reshape(SHAPE)
    photo = read_photo(save(tmp_path / "g.png", grey, transparency=3))
    assert photo.alpha is not None
    np.testing.assert_array_equal(photo.alpha == 0, grey == 3)

    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in grey)
    body = [(b"IHDR", struct.pack(">IIBBBBB", 24, 20, 16, 0, 0, 0, 0)), (b"tRNS", b"\0\3")]
    body += [(b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    chunks = [struct.pack(">I", len(b)) + k + b + struct.pack(">I", zlib.crc32(k + b)) for k, b in body]
    (tmp_path / "g16.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    deep = read_photo(tmp_path / "g16.png")
    assert deep.alpha is not None
    np.testing.assert_array_equal(deep.alpha == 0, grey == 3)


def test_cmyk_is_converted_and_said(tmp_path: Path) -> None:
    cmyk = Image.new("CMYK", (24, 20), (0, 255, 255, 0))
    photo = read_photo(save(tmp_path / "c.jpg", cmyk, quality=95))
    assert photo.notes == ("converted from CMYK to RGB",)
    assert photo.pixels[0, 0, 0] > 0.9 > 0.1 > photo.pixels[0, 0, 2]

    damaged = read_photo(save(tmp_path / "d.jpg", cmyk, icc_profile=b"no profile at all" * 20))
    assert damaged.notes == ("converted from CMYK to RGB; its ICC profile is damaged",)
    assert damaged.icc is None


def test_camera_jpeg_with_previews_is_one_picture(tmp_path: Path) -> None:
    picture = Image.fromarray(samples_of("uint8", 3))
    picture.save(tmp_path / "a.jpg", format="MPO", save_all=True, append_images=[picture])
    assert read_photo(tmp_path / "a.jpg").format == "JPEG"


@pytest.mark.parametrize("shape", [(16, 16), (16, 16, 1), (16, 16, 3), (16, 16, 4)])
def test_npy_shapes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "a.npy", np.full(shape, 0.25))
    photo = read_photo(tmp_path / "a.npy")
    assert photo.pixels.shape == (16, 16, 1 if shape[2:] in ((), (1,)) else 3)
    assert (photo.depth, photo.alpha is None) == ("float32", shape[2:] != (4,))


def bad_npy(value: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, value)
    return file.getvalue()


def bad_npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, a=np.zeros((20, 20)))
    return file.getvalue()


def bad_png(width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.new("L", (width, height)).save(file, "PNG")
    return file.getvalue()


def animated(form: str) -> bytes:
    frames = [Image.fromarray(np.full((20, 24, 3), 90 * k, np.uint8)) for k in range(3)]
    file = io.BytesIO()
    frames[0].save(file, form, save_all=True, append_images=frames[1:])
    return file.getvalue()


def whole(suffix: str, depth: str = "uint8", **options: Any) -> bytes:
    file = io.BytesIO()
    samples = samples_of(depth, 3, (64, 64))
    if depth == "uint8":
        Image.fromarray(samples).save(file, suffix, **options)
        return file.getvalue()
    return bytes(cv2.imencode(suffix, samples)[1])


BAD: list[tuple[str, bytes, str]] = [
    ("tiny.png", bad_png(1, 1), "tiny.png is 1x1; the smallest image is 16x16"),
    ("thin.png", bad_png(3, 900), "thin.png is 3x900"),
    ("flat.npy", bad_npy(np.zeros((15, 80))), "flat.npy is 80x15"),
    ("empty.png", b"", "empty.png is empty"),
    ("text.png", b"hello, world\n" * 30, "text.png is not an image"),
    ("cut.png", whole("PNG")[:4000], "cut.png cannot be decoded"),
    ("cut16.png", whole(".png", "uint16")[:9000], "cut16.png cannot be decoded"),
    ("cut.jpg", whole("JPEG")[:1500], "cut.jpg cannot be decoded"),
    ("cut.webp", whole("WEBP", lossless=True)[:4000], "cut.webp cannot be decoded"),
    ("cut.bmp", whole("BMP")[:4000], "cut.bmp cannot be decoded"),
    ("cut.tif", whole("TIFF")[:4000], "cut.tif cannot be decoded"),
    ("cutlzw.tif", whole("TIFF", compression="tiff_lzw")[:4000], "cutlzw.tif cannot be decoded"),
    ("cut16.tif", whole(".tif", "uint16")[:4000], "cut16.tif cannot be decoded"),
    ("zip.npy", bad_npz(), "zip.npy is not an image"),
    ("cut.npy", bad_npy(np.zeros((32, 32)))[:500], "cut.npy cannot be decoded"),
    ("head.png", whole("PNG")[:20], "head.png"),
    ("head.tif", b"II*\0\1\0", "head.tif"),
    ("anim.gif", animated("GIF"), "anim.gif has 3 frames"),
    ("anim.webp", animated("WEBP"), "anim.webp has 3 frames"),
    ("anim.png", animated("PNG"), "anim.png has 3 frames"),
    ("pages.tif", animated("TIFF"), "pages.tif has 3 pages"),
    ("shape.npy", bad_npy(np.zeros((2, 3, 4, 5))), "shape.npy holds an array of shape"),
    ("five.npy", bad_npy(np.zeros((20, 20, 5))), "five.npy holds an array of shape"),
    ("kind.npy", bad_npy(np.zeros((20, 20), np.int64)), "kind.npy holds int64 numbers"),
    ("object.npy", bad_npy(np.array([{}])), "object.npy cannot be decoded"),
    ("big.npy", bad_npy(np.full((20, 20), 255.0)), "big.npy has values from 255 to 255"),
    ("nan.npy", bad_npy(np.full((20, 20), np.nan)), "nan.npy holds no numbers"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD, ids=[name for name, _, _ in BAD])
def test_bad_files_are_refused_in_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_photo(tmp_path / name)
    assert caught.value.message.startswith(message)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("values", "hint"), [(200.0, "divide it by 255"), (999.0, "divide it by 65535"), (-9999.0, "NaN")]
)
def test_floats_far_from_unit_range_say_what_to_do(tmp_path: Path, values: float, hint: str) -> None:
    np.save(tmp_path / "a.npy", np.linspace(min(values, 0), max(values, 0), 400).reshape(20, 20))
    with pytest.raises(InputError) as caught:
        read_photo(tmp_path / "a.npy")
    assert hint in str(caught.value.hint)


def test_noisy_floats_keep_their_values(tmp_path: Path) -> None:
    noisy = np.random.default_rng(0).normal(0.5, 0.3, (20, 20)).astype(np.float32)
    noisy[3, 3] = np.nan
    np.save(tmp_path / "a.npy", noisy)
    np.testing.assert_array_equal(read_photo(tmp_path / "a.npy").pixels[..., 0], noisy)


@pytest.mark.parametrize("dtype", [np.uint32, np.int16, np.int32])
def test_other_integer_tiffs_are_refused(tmp_path: Path, dtype: Any) -> None:
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((20, 20), dtype))
    with pytest.raises(InputError, match=f"a.tif has {np.dtype(dtype)} samples"):
        read_photo(tmp_path / "a.tif")


def test_folder_missing_and_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="is a folder"):
        read_photo(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        read_photo(tmp_path / "none.png")

    def denied(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "locked.png").touch()
    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(InputError, match="cannot be read: permission denied"):
        read_photo(tmp_path / "locked.png")


@pytest.mark.parametrize("name", ["a.png", "a.tif", "f.tif", "a.npy"])
def test_bombs_are_refused(tmp_path: Path, name: str) -> None:
    like = photo_of(samples_of("float32" if name == "f.tif" else "uint8", 3), tmp_path / name)
    write_photo(like.path, like.pixels, like)
    before = Image.MAX_IMAGE_PIXELS
    for limit in (479, 200):  # Pillow warns above its limit, and raises above twice of it
        with pytest.raises(InputError, match="million pixels"):
            read_photo(like.path, max_pixels=limit)
    assert before == Image.MAX_IMAGE_PIXELS
    assert read_photo(like.path, max_pixels=480).width == 24


def test_damaged_exif_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "a.jpg", samples_of("uint8", 3), exif=camera_exif(6))

    def damaged(self: Image.Exif, offset: int = 8) -> bytes:
        raise struct.error("bad tag")

    monkeypatch.setattr(Image.Exif, "tobytes", damaged)
    photo = read_photo(tmp_path / "a.jpg")
    assert (photo.exif, photo.notes) == (None, ("left out its EXIF, which is damaged",))


def test_cut_exif_does_no_harm(tmp_path: Path) -> None:
    for length in range(8, len(camera_exif()), 7):
        save(tmp_path / "a.jpg", samples_of("uint8", 3), exif=camera_exif()[:length])
        photo = read_photo(tmp_path / "a.jpg")
        for name in ("b.png", "b.tif", "b.jpg", "b.webp"):
            write_photo(tmp_path / name, photo.pixels, photo)


def test_cmyk_goes_through_its_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(image: Image.Image, source: Any, target: Any, *, outputMode: str) -> Image.Image:
        return Image.new(outputMode, image.size, (10, 20, 30))

    monkeypatch.setattr(ImageCms, "profileToProfile", convert)
    save(tmp_path / "c.jpg", Image.new("CMYK", (24, 20)), icc_profile=ICC)
    photo = read_photo(tmp_path / "c.jpg")
    assert photo.notes == ("converted from CMYK to sRGB by its ICC profile",)
    assert photo.icc is None
    assert (photo.pixels * 255 == [10, 20, 30]).all()


@pytest.mark.parametrize("seed", range(12))
def test_damaged_bytes_are_refused_or_read_quietly(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    good = [whole(form) for form in ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")]
    good += [whole("TIFF", compression="tiff_lzw"), whole(".tif", "uint16"), whole(".png", "uint16")]
    good += [bad_npy(samples_of("float32", 3))]
    for content in good:
        data = bytearray(content)
        for at in rng.integers(0, min(len(data), 400), 4):
            data[at] = rng.integers(256)
        (tmp_path / "a").write_bytes(data)
        with contextlib.suppress(InputError):
            read_photo(tmp_path / "a", max_pixels=10**6)
    assert capfd.readouterr() == ("", "")


def test_std_is_float32_tiff(tmp_path: Path) -> None:
    std = np.random.default_rng(0).random((20, 24, 3))
    images.encode_std(tmp_path / "a.std.tiff", std)
    stored = tifffile.imread(tmp_path / "a.std.tiff")
    assert stored.dtype == np.float32
    np.testing.assert_array_equal(stored, std.astype(np.float32))
    images.encode_std(tmp_path / "g.std.tiff", std[..., :1])
    assert tifffile.imread(tmp_path / "g.std.tiff").shape == (20, 24)
    images.encode_std(tmp_path / "narrow.std.tiff", np.zeros((17, 3)))
    assert tifffile.imread(tmp_path / "narrow.std.tiff").shape == (17, 3)


def test_unknown_suffix_and_bad_folder(tmp_path: Path) -> None:
    like = photo_of(samples_of("uint8", 3), tmp_path / "a.png")
    with pytest.raises(UsageError, match="suffix"):
        write_photo(tmp_path / "a.xyz", like.pixels, like)
    with pytest.raises(OutputError):
        write_photo(tmp_path / "none" / "a.png", like.pixels, like)
    with pytest.raises(ValueError, match="size"):
        write_photo(tmp_path / "a.png", like.pixels[1:], like)
    assert list(tmp_path.iterdir()) == []


def test_reading_leaves_no_warnings_and_writes_are_deterministic(tmp_path: Path) -> None:
    like = photo_of(samples_of("uint16", 4), tmp_path / "a.png")
    first = write_photo(tmp_path / "a.png", like.pixels, like).read_bytes()
    assert write_photo(tmp_path / "a.png", like.pixels, like).read_bytes() == first
    assert (
        write_photo(tmp_path / "a.tif", like.pixels, like).read_bytes()
        == write_photo(tmp_path / "b.tif", like.pixels, like).read_bytes()
    )
