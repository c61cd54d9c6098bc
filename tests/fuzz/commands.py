"""Hostile command lines: words that people and scripts type by mistake, and files that are not what they seem.

`files(folder)` writes the files that they name; COMMANDS has the lines, run with that folder as the working one.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image

LONG = "n" * 300
QUICK = ["--method", "telea", "--quiet"]


def _rgb(height: int = 20, width: int = 20, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


def _arrays() -> dict[str, np.ndarray]:
    """Arrays of shapes and types that are no pictures, or hardly."""
    grey = _rgb()[..., 0]
    part = np.zeros((20, 20), [("r", "u1"), ("g", "f4")])
    return {
        "0d": np.float32(0.5),
        "1d": np.zeros(400, np.float32),
        "none": np.zeros((0, 0, 3), np.uint8),
        "nochannel": np.zeros((20, 20, 0), np.uint8),
        "two": np.zeros((20, 20, 2), np.uint8),
        "seven": np.zeros((20, 20, 7), np.float32),
        "4d": np.zeros((1, 20, 20, 3), np.float32),
        "chw": np.zeros((3, 20, 20), np.uint8),
        "complex": grey.astype(np.complex64),
        "bool": grey > 99,
        "text": grey.astype("U3"),
        "half": (grey / 255).astype(np.float16),
        "double": grey / 255.0,
        "int8": (grey // 2).astype(np.int8),
        "int64": grey.astype(np.int64),
        "uint64": grey.astype(np.uint64) * 2**56,
        "struct": part,
        "date": grey.astype("M8[s]"),
        "fortran": np.asfortranarray(_rgb()),
        "bigend": (grey / 255).astype(">f4"),
        "negative": grey / np.float32(-255),
        "huge": np.full((20, 20), 3e38, np.float32),
        "nan": np.full((20, 20), np.nan, np.float32),
        "infinite": np.full((20, 20), np.inf, np.float32),
        "subnormal": np.full((20, 20), 1e-44, np.float32),
    }


def files(place: Path) -> None:
    """Write what the command lines name."""
    photo = Image.fromarray(_rgb())
    photo.save(place / "photo.png")
    hole = np.zeros((20, 20), np.uint8)
    hole[5:9, 4:11] = 255
    Image.fromarray(hole).save(place / "mask.png")
    Image.fromarray(hole * 0 + 255).save(place / "white.png")
    Image.fromarray(hole * 0).save(place / "black.png")
    Image.fromarray(hole[:9]).save(place / "short.png")
    Image.fromarray(_rgb(1, 1)).save(place / "one.png")
    Image.fromarray(_rgb(2, 400)).save(place / "flat.png")
    Image.fromarray(_rgb(16, 300)).save(place / "strip.png")
    for name, values in _arrays().items():
        np.save(place / f"{name}.npy", values)
    _modes(place, photo, hole)
    _tiffs(place)
    _lies(place, photo)
    _folders(place, photo)


def _modes(place: Path, photo: Image.Image, hole: np.ndarray) -> None:
    for mode in ("1", "L", "LA", "P", "RGBA", "I;16", "I", "F", "CMYK", "YCbCr", "LAB", "HSV"):
        suffix = {"CMYK": "jpg", "YCbCr": "jpg"}.get(
            mode, "tiff" if mode in ("LAB", "F", "I", "HSV") else "png"
        )
        name = place / f"mode-{mode.replace(';', '')}.{suffix}"
        try:
            photo.convert("L").convert(mode).save(name) if mode[0] in "IF" else photo.convert(mode).save(name)
        except (OSError, ValueError):
            photo.save(name)
    clear = photo.convert("RGBA")
    clear.putalpha(Image.fromarray(255 - hole))
    clear.save(place / "alpha.png")
    clear.putalpha(0)
    clear.save(place / "clear.png")
    photo.save(place / "moving.png", save_all=True, append_images=[photo.rotate(90)])
    photo.save(place / "moving.webp", save_all=True, append_images=[photo.rotate(90)])
    photo.save(place / "moving.gif", save_all=True, append_images=[photo.rotate(90)])
    exif = Image.Exif()
    exif[0x0112] = 99
    photo.save(place / "turned.jpg", exif=exif)
    photo.save(place / "dpi.png", dpi=(1e-3, 1e8))
    photo.save(place / "icc.png", icc_profile=b"no profile")
    photo.save(place / "xmp.jpg", xmp=b"<x" * 9000)
    photo.save(place / "comment.jpg", comment=b"\xff\x00" * 9000)


def _tiffs(place: Path) -> None:
    values = _rgb()
    tifffile.imwrite(place / "pages.tiff", np.stack([values] * 3), photometric="rgb")
    tifffile.imwrite(
        place / "planar.tiff", values.transpose(2, 0, 1), photometric="rgb", planarconfig="separate"
    )
    tifffile.imwrite(place / "five.tiff", np.zeros((20, 20, 5), np.uint16), photometric="minisblack")
    tifffile.imwrite(place / "complex.tiff", values[..., 0].astype(np.complex64))
    tifffile.imwrite(place / "double.tiff", values / 255.0, photometric="rgb")
    tifffile.imwrite(place / "signed.tiff", values.astype(np.int16) - 99, photometric="rgb")
    tifffile.imwrite(place / "long.tiff", values.astype(np.uint32) * 2**24, photometric="rgb")
    tifffile.imwrite(place / "huge.tiff", np.full((20, 20, 3), 3e38, np.float32), photometric="rgb")
    tifffile.imwrite(place / "nan.tiff", np.full((20, 20, 3), np.nan, np.float32), photometric="rgb")
    tifffile.imwrite(place / "tiny.tiff", np.full((20, 20, 3), 1e-30, np.float32), photometric="rgb")
    tifffile.imwrite(place / "big.tiff", values, photometric="rgb", bigtiff=True)
    tifffile.imwrite(place / "white0.tiff", values[..., 0], photometric="miniswhite")


def _lies(place: Path, photo: Image.Image) -> None:
    """Names and contents that do not agree."""
    data = (place / "photo.png").read_bytes()
    (place / "png.jpg").write_bytes(data)
    (place / "png.npy").write_bytes(data)
    (place / "png.tiff").write_bytes(data)
    (place / "page.png").write_text("<!doctype html><title>404</title>")
    (place / "svg.png").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (place / "pointer.png").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    (place / "nosuffix").write_bytes(data)
    (place / "photo.xyz").write_bytes(data)
    (place / "UPPER.PNG").write_bytes(data)
    (place / "pdf.png").write_bytes(b"%PDF-1.7\n")
    (place / "gz.png").write_bytes(b"\x1f\x8b\x08" + bytes(40))
    (place / "many.png").write_bytes(data * 50)
    np.savez(place / "z.npz", a=_rgb())
    (place / "z.npy").write_bytes((place / "z.npz").read_bytes())
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": "<f4", "fortran_order": False, "shape": (2**40, 2**40)}
    )
    (place / "endless.npy").write_bytes(file.getvalue())
    (place / "object.npy").write_bytes(file.getvalue().replace(b"<f4", b"|O "))
    for name in (
        "[bold]x.png",
        "%s%n.png",
        "{x}.png",
        "a\nb.png",
        " .png",
        "-x.png",
        "=1+1.png",
        "ü.png",
        "\u202egnp.png",
    ):
        (place / name).write_bytes(data)
    (place / "loop.png").symlink_to("loop.png")
    (place / "broken.png").symlink_to("nowhere.png")
    (place / "link.png").symlink_to("photo.png")


def _folders(place: Path, photo: Image.Image) -> None:
    for name in ("empty", "folder.png", "photos", "masks", "words", "same", "pairs", "truth", "model"):
        (place / name).mkdir()
    for name in ("a.png", "b.png"):
        photo.save(place / "photos" / name)
        photo.save(place / "pairs" / name.replace(".", ".mean."))
        photo.save(place / "truth" / name)
        (place / "masks" / name).write_bytes((place / "mask.png").read_bytes())
    (place / "pairs" / "a.json").write_text(
        json.dumps({"options": [], "mask": {"a": 1}, "missing_share": "x"})
    )
    (place / "pairs" / "b.std.tiff").write_bytes(b"II*\x00")
    (place / "pairs" / "b.samples.npz").write_bytes(b"PK\x03\x04")
    photo.save(place / "same" / "g.png")
    photo.save(place / "same" / "g.jpg")
    (place / "words" / "readme.txt").write_text("no picture")
    (place / "photos" / "up").symlink_to("..")
    (place / "bad.toml").write_text("rank = [[[")
    (place / "kinds.toml").write_text("rank = 'x'\nsave = 3\nsigma = []\nprior = 1979-05-27\n")
    (place / "deep.toml").write_text("a" + ".b" * 3000 + " = 1")
    (place / "table.toml").write_text("[diffbcp]\nrank = 3\n")
    (place / "bom.toml").write_bytes(b"\xef\xbb\xbfrank = 3\n")
    (place / "utf16.toml").write_bytes("rank = 3\n".encode("utf-16"))
    (place / "list.json").write_text("[1, 2]")
    (place / "null.json").write_text("null")
    (place / "options.json").write_text('{"options": {"rank": 1e999, "prior": null, "save": "mean"}}')
    (place / "model" / "config.json").write_text("{}")


def _values() -> list[list[str]]:
    """Values that an option of `inpaint` cannot have, or only just."""
    tried = {
        "--seed": ("abc", "-1", "1e3", "18446744073709551616", "٣", "1_000", " 1", "0x10", ""),
        "--iterations": ("0", "-1", "", "1.5", "nan", "99999999999999999999"),
        "--sigma": ("", "nan", "inf", "-0.1", "1,5", "1e309", "2", "٠.١"),
        "--save": ("", ",", "mean,,std", "all", "MEAN", " mean", "mean," * 3000, "mean,nothing"),
        "--time-budget": ("", "0s", "-1m", "1h1h", "1y", "inf", "1e400s", "nan"),
        "--device": ("", "cuda:99", "meta", "cpu:1", "cuda:-1", "xpu", "mps", "cpu cpu"),
        "--precision": ("", "fp8", "FP32"),
        "--jobs": ("0", "-1", "", "x"),
        "--shard": ("1/2/3", "0/1", "2/1", "/", "a/b", "1/0", "-1/2", "1/"),
        "--max-pixels": ("", "0", "-1", "1e400", "nan", "∞", "1MM"),
        "--memory-budget": ("", " ", "0", "1B", "1e3GB", "99999999999TB"),
        "--window": ("-1", "1", "x", "1e9"),
        "--inpaint-radius": ("0", "-1", "nan", "1e300", ""),
        "--threads": ("-1", "100000", ""),
        "--checkpoint-every": ("-1s", "", "nan"),
        "--mask-polarity": ("", "white", "WHITE-FILLS"),
        "--observed": ("", "keeps"),
        "--preset": ("", "slow", "paper "),
        "--method": ("", "TELEA", "telea ", "../telea", "__init__", "classical", LONG),
        "--engine": ("", "dask"),
        "--root": ("", "nowhere", "photo.png", LONG, "/"),
        "--config": (
            "",
            "nowhere.toml",
            "photos",
            "photo.png",
            "bad.toml",
            "kinds.toml",
            "deep.toml",
            "table.toml",
            *("bom.toml", "utf16.toml", "list.json", "null.json", "options.json", "/dev/null", "-"),
        ),
        "--format": ("", "gif", "PNG", "png,jpg"),
    }
    usual = ["inpaint", "photo.png", "-m", "mask.png", "-o", "out", *QUICK]
    return [[*usual, option, value] for option, values in tried.items() for value in values]


def _sampling() -> list[list[str]]:
    """The same of the low-rank sampler and the prior."""
    tried = {
        "--rank": ("0", "-3", "1", "100000000"),
        "--patch-size": ("0", "1", "4096", "x"),
        "--stride": ("0", "10000", "-1"),
        "--burn-in": ("2", "-1"),
        "--chains": ("0", "1000000000"),
        "--block": ("0", "100000"),
        "--prior": (
            "",
            " ",
            ".",
            "..",
            "/",
            "a/b/c",
            "http://x",
            "natural/",
            "NONE",
            "model",
            "photo.png",
            LONG,
            "a" + "/b" * 99,
        ),
        "--coupling": ("0", "nan", "1e308"),
        "--rho-min": ("0", "11", "nan"),
        "--thin": ("0", "99"),
        "--decomposition": ("", "CP", "tucker"),
        "--estimator": ("", "median"),
    }
    usual = ["inpaint", "photo.png", "-m", "mask.png", "-o", "out", "--quiet", "--prior", "none"]
    short = ["--iterations", "2", "--burn-in", "1", "--method", "bcp-gibbs"]
    return [[*usual, *short, option, value] for option, values in tried.items() for value in values]


def _inputs() -> list[list[str]]:
    """Every file as the photograph, as the mask, and as the place of the result."""
    names = (
        *(f"{name}.npy" for name in (*_arrays(), "png", "z", "endless", "object")),
        *(
            "mode-1.png",
            "mode-L.png",
            "mode-LA.png",
            "mode-P.png",
            "mode-RGBA.png",
            "mode-I16.png",
            "mode-I.tiff",
        ),
        *("mode-F.tiff", "mode-CMYK.jpg", "mode-YCbCr.jpg", "mode-LAB.tiff", "mode-HSV.tiff", "clear.png"),
        *(
            "moving.png",
            "moving.webp",
            "moving.gif",
            "turned.jpg",
            "dpi.png",
            "icc.png",
            "xmp.jpg",
            "comment.jpg",
        ),
        *(
            f"{name}.tiff"
            for name in ("pages", "planar", "five", "complex", "double", "signed", "long", "huge")
        ),
        *(f"{name}.tiff" for name in ("nan", "tiny", "big", "white0", "png")),
        *(
            "png.jpg",
            "page.png",
            "svg.png",
            "pointer.png",
            "nosuffix",
            "photo.xyz",
            "UPPER.PNG",
            "pdf.png",
            "gz.png",
        ),
        *("many.png", "loop.png", "broken.png", "link.png", "folder.png", "one.png", "flat.png", "strip.png"),
        *("[bold]x.png", "%s%n.png", "{x}.png", "a\nb.png", " .png", "=1+1.png", "ü.png", "\u202egnp.png"),
        *("", " ", "-x.png", "--", "*", "**", "[", "[!", "*.gif", "photo.png/", "~", "~nobody/x", LONG),
        *(
            "empty",
            "words",
            "same",
            "/dev/null",
            "/dev/tty",
            "/proc/self/mem",
            "https://example.org/a.png",
            "file:///a.png",
        ),
    )
    photos = [
        ["denoise", name, "-o", "out", "--sigma", "0.1", "--method", "nlm", "-q", "-j", "1"] for name in names
    ]
    tiny = [["inpaint", "photo.png", "-m", name, "-o", "out", *QUICK] for name in names]
    places = ("", " ", "/dev/null", "/dev/full", "/proc/self", "photo.png", "out.png/", "x.xyz", "a/b/c.png")
    places += (
        "~nobody/x",
        LONG,
        LONG + ".png",
        "mask.png",
        ".png",
        "..",
        "x.PNG",
        "x.jp2",
        "loop.png",
        "broken.png",
        "x.gif",
    )
    ends = [["inpaint", "photo.png", "-m", "mask.png", *QUICK, "-o", name] for name in places]
    return photos + tiny + ends


def _many() -> list[list[str]]:
    """Batches: lists, folders, patterns."""
    usual = ["inpaint", "-o", "out", *QUICK, "-j", "1"]
    return [
        [*usual, "photo.png", "photo.png", "-m", "mask.png"],
        [*usual, "photo.png", "./photo.png", "link.png", "-m", "mask.png"],
        [*usual, "photos", "-m", "photos"],
        [*usual, "photos", "-m", "masks"],
        [*usual, "photos", "-m", "empty"],
        [*usual, "photos", "photos/a.png", "-m", "mask.png"],
        [*usual, "same", "-m", "mask.png"],
        [*usual, "photo.png", "-m", "masks"],
        [*usual, "photo.png", "-"],
        [*usual, "-", "-", "-m", "mask.png"],
        [*usual, "-", "-m", "-"],
        [*usual, "photo.png", "-m", "auto"],
        [*usual, "photo.png", "-m", "alpha"],
        [*usual, "clear.png", "-m", "alpha"],
        [*usual, "alpha.png", "-m", "ALPHA"],
        [*usual, "photo.png", "-m", "mask.png", "-m", "white.png"],
        [*usual, "photos", "nowhere.png", "-m", "mask.png", "--jobs", "1"],
        ["inpaint", "photos", "-m", "mask.png", "-o", "x.png", *QUICK],
        ["inpaint", "photos", "-m", "mask.png", "-o", "-", *QUICK],
        ["inpaint", "photos", "-m", "mask.png", "-o", "photos", *QUICK, "--jobs", "1"],
        ["inpaint", "photo.png", "-m", "mask.png", "-o", "out", "--json", "--print-config"],
        ["inpaint", "photo.png", "-m", "mask.png", "-o", "-", "--json", *QUICK],
        ["inpaint", "photo.png", "-m", "mask.png", "--resume", "--overwrite", *QUICK, "-o", "out"],
        ["inpaint"],
        ["inpaint", "photo.png"],
        ["denoise"],
        ["denoise", "", "photo.png", "-o", "out", *QUICK, "-j", "1"],
        ["denoise", "photo.png", "--mask", "mask.png", "-o", "out"],
        ["denoise", "photo.png", "--fast", "--preset", "paper", "-o", "out", "--dry-run"],
        ["denoise", "photo.png", "--config", "kinds.toml", "--config", "bad.toml", "-o", "out"],
        ["nothing"],
        [""],
        ["--no-such-option"],
        ["denoise", "--help", "--nothing"],
    ]


def _masks() -> list[list[str]]:
    """`diffbcp mask ...`."""
    make = ["mask", "make", "--kind", "uniform", "--missing", "0.5", "-o", "m.png", "--size", "20x20"]
    tried = {
        "--size": (
            "x",
            "0x0",
            "-5x5",
            "1x1",
            "99999999x99999999",
            "20x",
            "20×20",
            "20X20",
            "20x20x3",
            "",
            "1e2x9",
            "１x１",
        ),
        "--missing": ("-1", "2", "nan", "0", "1", "", "inf", "1e-300", "0.99999999"),
        "--kind": ("", "UNIFORM", "dots", "box", "stripe", "irregular", "text", "scratch"),
        "--seed": ("", "x", "-1", "99999999999999999999999"),
        "--per": ("", "row"),
        "--recipe": ("", "paper", "paper-uniform-0.9"),
        "--like": ("", "nowhere.png", "empty", "nan.tiff", "endless.npy", "one.png", "page.png"),
        "-o": ("", "photos", "m.gif", "m", "/dev/full", "nowhere/m.png", "loop.png", "m.npy", LONG),
    }
    lines = [[*make, option, value] for option, values in tried.items() for value in values]
    kinds = ("uniform", "box", "stripe", "irregular", "text", "scratch")
    for size in ("1x1", "1x500", "500x1", "16x16"):
        lines += [
            ["mask", "make", "--kind", kind, "--missing", "0.9", "--size", size, "-o", "m.png"]
            for kind in kinds
        ]
    return lines + _changed()


def _changed() -> list[list[str]]:
    numbers = ("-1", "nan", "inf", "1e9", "", "0", "1e-9")
    lines = []
    lines += [["mask", "apply", "photo.png", "-o", "x.png", "--noise", value] for value in (*numbers, "0.1")]
    fills = ("#ggg", "#fff", "", "red", "nan", "#12345", "magenta", "ivory", "transparent", "#ff00ff00")
    lines += [
        ["mask", "apply", "photo.png", "-m", "mask.png", "-o", "x.png", "--fill", value] for value in fills
    ]
    lines += [
        ["mask", "from", "photo.png", "-o", "x.png", "--color", value]
        for value in (*fills, "rgb(1,2,3)", "#" * 99)
    ]
    lines += [
        ["mask", "from", "photo.png", "-o", "x.png", "--color", "red", "--tolerance", value]
        for value in numbers
    ]
    lines += [
        ["mask", "from", "photo.png", "-o", "x.png", "--color", "red", "--grow", value] for value in numbers
    ]
    lines += [
        ["mask", "from", "photo.png", "-o", "x.png", *more]
        for more in ([], ["--alpha"], ["--nan"], ["--alpha", "--nan"])
    ]
    lines += [
        ["mask", "from", name, "--nan", "-o", "x.png"]
        for name in ("nan.tiff", "nan.npy", "huge.tiff", "infinite.npy")
    ]
    lines += [
        ["mask", "from", "photo.png", "--color", "red", "--photo", other, "-o", "x.png"]
        for other in ("one.png", "nan.npy", "")
    ]
    for option, values in {
        "--kind": ("", "dust,,", "ghost", "dust," * 999, "DUST"),
        "--sensitivity": (*numbers, "1e300"),
        "--min-size": (*numbers, "1e300"),
        "--grow": numbers,
        "--detector": ("", "x", "../x", "classical:x"),
    }.items():
        lines += [["mask", "detect", "photo.png", "-o", "x.png", option, value] for value in values]
    lines += [
        ["mask", "detect", name, "-o", "x.png"]
        for name in ("one.png", "flat.png", "nan.tiff", "huge.tiff", "clear.png", "photos", "seven.npy")
    ]
    for what in ("grow", "shrink"):
        lines += [["mask", what, "mask.png", "-o", "x.png", "-p", value] for value in numbers]
        lines += [
            ["mask", what, name, "-o", "x.png"]
            for name in ("white.png", "black.png", "one.png", "nan.npy", "4d.npy", "page.png", "")
        ]
    lines += [
        ["mask", "combine", "-o", "x.png"],
        ["mask", "combine", "mask.png", "-o", "x.png"],
        ["mask", "combine", "mask.png", "short.png", "-o", "x.png"],
        ["mask", "combine", "mask.png", "photo.png", "-o", "x.png", "--how", "xor"],
        ["mask", "combine", "mask.png", "white.png", "-o", "x.png", "--how", "difference"],
        ["mask", "combine", "mask.png", "-", "-o", "x.png"],
        ["mask", "combine", *["mask.png"] * 500, "-o", "x.png"],
        ["mask", "show", "photo.png", "-m", "short.png", "-o", "x.png"],
        ["mask", "show", "nan.tiff", "-m", "mask.png", "-o", "x.png"],
        ["mask", "show", "photo.png", "-m", "white.png", "-o", "photo.png"],
        ["mask", "show", "one.png", "-m", "one.png", "-o", "x.tiff"],
        ["mask", "grow", "mask.png", "-o", "mask.png"],
        ["mask", "grow", "mask.png", "-o", "-"],
        ["mask"],
        ["mask", "paint"],
    ]
    return lines


def _scores() -> list[list[str]]:
    """`eval`, `compare`, `models`, `methods`, `train`, `open`, `doctor`."""
    compare = ["compare", "photo.png", "-m", "mask.png", "-o", "out", "--quiet", "--jobs", "1"]
    lines = [
        ["eval", *pair]
        for pair in (["pairs", "truth"], ["pairs", "empty"], ["empty", "truth"], ["pairs", "pairs"])
    ]
    lines += [
        ["eval", *pair]
        for pair in (
            ["photo.png", "photo.png"],
            ["photo.png", "one.png"],
            ["photo.png", "truth"],
            ["", ""],
            ["pairs"],
        )
    ]
    lines += [
        ["eval", name, "photo.png"]
        for name in ("nan.tiff", "huge.npy", "mode-L.png", "page.png", "nowhere", "4d.npy", "clear.png")
    ]
    for option in ("--csv", "--html", "--markdown"):
        lines += [
            ["eval", "pairs", "truth", option, value]
            for value in ("", "photos", "/dev/full", "nowhere/x", "truth/a.png", LONG, "loop.png")
        ]
    lines += [
        ["eval", "pairs", "truth", *more]
        for more in (
            ["--mask", "short.png"],
            ["--mask", "empty"],
            ["--lpips", "x"],
            ["--csv", "x", "--html", "x"],
        )
    ]
    lines += [
        [*compare, "--methods", value]
        for value in ("", ",", "telea,telea", "xyz", "telea,,nlm", " telea", "telea," * 300)
    ]
    lines += [
        [*compare, "--methods", "telea", option, value]
        for option, value in (
            ("--truth", "one.png"),
            ("--truth", "nan.tiff"),
            ("--truth", ""),
            ("--truth", "photos"),
            ("--recipe", "paper-stripe"),
            ("--recipe", "x"),
            ("--noise", "nan"),
            ("--noise", "-1"),
            ("--noise", "1e9"),
            ("--jobs", "0"),
            ("--config", "bad.toml"),
            ("-o", "photo.png"),
            ("-o", ""),
            ("-o", "/dev/full/x"),
            ("--seed", "x"),
            ("--lpips", "x"),
            ("--shard", "1/2"),
        )
    ]
    lines += [
        ["compare", *more]
        for more in (
            [],
            ["photos"],
            ["empty", "-m", "mask.png", "-o", "out"],
            ["page.png", "-m", "mask.png", "-o", "out", "--methods", "telea"],
        )
    ]
    names = (
        "",
        " ",
        "..",
        "../..",
        "/dev/null",
        "a/b/c",
        "nope",
        "natural/",
        "model",
        "photo.png",
        LONG,
        "~nobody",
    )
    for what in ("info", "verify", "path"):
        lines += [["models", what, name] for name in names]
    lines += [["methods", "info", name] for name in ("", "nope", "../diffbcp", "DIFFBCP", LONG, "diffbcp.py")]
    lines += [
        ["train", folder, "-o", "my"]
        for folder in ("empty", "words", "", "photo.png", "nowhere", "photos/a.png", "/dev/null")
    ]
    lines += [
        ["train", "photos", "-o", place] for place in ("", "photo.png", "/dev/full", "/proc/x", "photos")
    ]
    lines += [
        ["train", "photos", "-o", "my", *more]
        for more in (["--steps", "0"], ["--steps", "-1"], ["--steps", "x"], ["--resume"], ["--seed", "x"])
    ]
    lines += [
        ["open", *more]
        for more in (
            ["nowhere.png"],
            ["photo.png", "--port", "-1"],
            ["photo.png", "--port", "99999999"],
            ["page.png", "--port", "x"],
            ["photo.png", "photo.png", "x"],
        )
    ]
    return lines


COMMANDS = [*_values(), *_sampling(), *_inputs(), *_many(), *_masks(), *_scores()]
