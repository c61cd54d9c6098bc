"""Stacks: every page is restored, and the results have the layout of the input."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import tifffile
from conftest import SHORT, outputs

from diffbcp_cli.cli.app import run
from diffbcp_cli.jobs import stack as jobs_of_stacks
from diffbcp_cli.photos.codecs import stack as codec
from diffbcp_cli.photos.stacks import encode_stack, open_stack, photo_of_page

FAST = ["--method", "telea", "--quiet"]
RNG = np.random.default_rng(0)


def noise(*shape: int, top: int = 255) -> np.ndarray:
    return RNG.integers(0, top, shape).astype(np.uint8 if top == 255 else np.uint16)


def save_pages(path, pages, **options):
    with tifffile.TiffWriter(path) as writer:
        for number, page in enumerate(pages):
            writer.write(page, description=f"page {number}", metadata=None, contiguous=False, **options)


def ome(path):
    metadata = {
        **{"axes": "TCZYX", "PhysicalSizeX": 0.1, "PhysicalSizeXUnit": "µm", "PhysicalSizeZ": 0.5},
        "Channel": {"Name": ["red", "far red"]},
    }
    tifffile.imwrite(
        path, noise(2, 2, 3, 20, 24, top=4000), ome=True, photometric="minisblack", metadata=metadata
    )


def imagej(path):
    metadata = {"axes": "ZCYX", "spacing": 3.9, "unit": "um"}
    stored = noise(3, 2, 20, 24, top=4000)
    tifffile.imwrite(
        path, stored, imagej=True, photometric="minisblack", metadata=metadata, resolution=(2.5, 2.5)
    )


MAKE = {
    "ome.ome.tif": ome,
    "imagej.tif": imagej,
    "rgb.ome.tif": lambda path: tifffile.imwrite(
        path, noise(3, 20, 24, 3), photometric="rgb", metadata={"axes": "ZYXS"}
    ),
    "sizes.tif": lambda path: save_pages(
        path,
        [noise(20 + n, 24, 3) for n in range(3)],
        photometric="rgb",
        resolution=(300, 300),
        resolutionunit=2,
    ),
    "alpha.tif": lambda path: save_pages(
        path, [noise(20, 24, 4) for _ in range(2)], photometric="rgb", extrasamples=["unassalpha"]
    ),
    "channels.tif": lambda path: tifffile.imwrite(
        path, noise(20, 24, 6), photometric="minisblack", planarconfig="contig", metadata=None
    ),
    "planes.tif": lambda path: tifffile.imwrite(
        path, noise(6, 20, 24), photometric="minisblack", planarconfig="separate", metadata=None
    ),
    "pages.npy": lambda path: np.save(path, RNG.random((3, 20, 24)).astype(np.float32)),
    "colours.npy": lambda path: np.save(path, noise(2, 20, 24, 3)),
    "grid.npy": lambda path: np.save(path, noise(2, 3, 20, 24)),
    "spectrum.npy": lambda path: np.save(path, noise(20, 24, 7)),
}
PAGES = {
    **{
        "ome.ome.tif": 12,
        "imagej.tif": 6,
        "rgb.ome.tif": 3,
        "sizes.tif": 3,
        "alpha.tif": 2,
        "channels.tif": 6,
    },
    **{"planes.tif": 6, "pages.npy": 3, "colours.npy": 2, "grid.npy": 6, "spectrum.npy": 7},
}


@pytest.fixture(params=MAKE)
def path(request, tmp_path):
    MAKE[request.param](tmp_path / request.param)
    return tmp_path / request.param


def test_a_stack_survives_the_way_through_a_file(path):
    stack = open_stack(path)
    assert len(stack.pages) == PAGES[path.name]
    pages = [photo_of_page(stack, number, path).pixels for number in range(len(stack.pages))]
    again = open_stack(encode_stack(path.with_name(f"again{path.suffix}"), pages, stack, std=False))
    assert (again.axes, again.shape, again.kind, again.top) == (
        stack.axes,
        stack.shape,
        stack.kind,
        stack.top,
    )
    assert (again.tags, again.xml, again.imagej) == (stack.tags, stack.xml, stack.imagej)
    for one, other in zip(stack.pages, again.pages, strict=True):
        assert one.samples.dtype == other.samples.dtype
        assert np.array_equal(one.samples, other.samples)
    stds = open_stack(encode_stack(path.with_name(f"std{path.suffix}"), pages, stack, std=True))
    assert (stds.axes, len(stds.pages)) == (stack.axes, len(stack.pages))
    assert np.array_equal(stds.pages[-1].samples, pages[-1])
    for name in ("PhysicalSizeX", "PhysicalSizeZ", "Name"):
        assert re.findall(f'{name}="([^"]*)"', stds.xml) == re.findall(f'{name}="([^"]*)"', stack.xml)


def test_the_axes_say_where_a_page_is(tmp_path):
    ome(tmp_path / "a.tif")
    stack = open_stack(tmp_path / "a.tif")
    stored = tifffile.imread(tmp_path / "a.tif")
    for number in (0, 4, 11):
        place = stack.place(number)
        assert np.array_equal(stack.pages[number].samples[..., 0], stored[place["T"], place["C"], place["Z"]])


def test_bits_that_are_not_used_do_not_darken_the_picture(tmp_path):
    ome(tmp_path / "a.tif")
    stack = open_stack(tmp_path / "a.tif")
    assert stack.top == 4095
    assert "12 bits" in stack.notes[-1]
    assert photo_of_page(stack, 0, tmp_path / "a.tif").pixels.max() > 0.9


@pytest.mark.parametrize("name", ["photo.tif", "photo.npy"])
def test_one_picture_is_no_stack(name, tmp_path):
    stored = noise(20, 24, 3)
    if name.endswith("npy"):
        np.save(tmp_path / name, stored)
    else:
        tifffile.imwrite(tmp_path / name, stored, photometric="rgb")
    assert open_stack(tmp_path / name) is None


def test_a_stack_is_restored_page_by_page_with_one_record(tmp_path, capsys):
    ome(tmp_path / "cells.tif")
    assert run(["denoise", str(tmp_path / "cells.tif"), "-o", str(tmp_path / "out"), *SHORT]) == 0
    out = tmp_path / "out"
    assert outputs(out) == {"cells.mean.tiff", "cells.std.tiff", "cells.json"}
    record = json.loads((out / "cells.json").read_text())
    assert record["stack"]["axes"] == "TCZYX"
    assert len(record["stack"]["pages"]) == 12
    assert record["stack"]["pages"][1]["place"] == {"T": 0, "C": 0, "Z": 1}
    assert record["finished"]
    with tifffile.TiffFile(out / "cells.mean.tiff") as tif:
        assert (tif.series[0].axes, tif.series[0].dtype) == ("TCZYX", np.uint16)
        assert 'PhysicalSizeX="0.1"' in tif.ome_metadata
    capsys.readouterr()
    assert run(["denoise", str(tmp_path / "cells.tif"), "-o", str(out), *SHORT, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == record  # not restored again


@pytest.mark.parametrize("kind", ["one for all", "pages of a TIFF", "an array"])
def test_masks_of_a_stack(kind, tmp_path):
    hidden = np.zeros((3, 20, 24), np.uint8)
    hidden[1, 5:9, 5:9] = 255
    if kind == "one for all":
        hidden[:] = hidden[1]
    pages = np.full((3, 20, 24), 100, np.uint8)
    pages[hidden > 0] = 250  # what is filled gets the shade of its surroundings
    np.save(tmp_path / "a.npy", pages)
    mask = tmp_path / ("mask.npy" if kind == "an array" else "mask.tiff")
    if kind == "an array":
        np.save(mask, hidden == 0)
    else:
        tifffile.imwrite(mask, hidden[1] if kind == "one for all" else hidden, photometric="minisblack")
    command = ["inpaint", str(tmp_path / "a.npy"), "--mask", str(mask), "-o", str(tmp_path / "b.npy"), *FAST]
    code = run(command)
    assert code == 0
    assert np.abs(np.load(tmp_path / "b.npy").astype(int) - 100).max() <= 1


def test_an_interrupted_stack_goes_on_where_it_was(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", RNG.random((3, 20, 24)).astype(np.float32))
    command = ["denoise", str(tmp_path / "a.npy"), "-o", str(tmp_path / "out"), *SHORT]
    restored: list[str] = []
    whole = jobs_of_stacks._Work.page

    def stopped(work, number):
        if number == 2 and len(restored) == 2:
            raise KeyboardInterrupt
        restored.append(str(number))
        return whole(work, number)

    monkeypatch.setattr(jobs_of_stacks._Work, "page", stopped)
    assert run(command) == 130
    before = (tmp_path / "out" / ".a.pages" / "00000.mean.tiff").stat().st_mtime_ns
    monkeypatch.setattr(jobs_of_stacks._Work, "page", whole)
    monkeypatch.setattr(jobs_of_stacks, "_save", lambda work, record: [work.pages / "00000.mean.tiff"])
    monkeypatch.setattr(jobs_of_stacks.shutil, "rmtree", lambda *a, **k: None)
    assert run(command) == 0
    assert (tmp_path / "out" / ".a.pages" / "00000.mean.tiff").stat().st_mtime_ns == before


def test_what_cannot_hold_a_stack_is_refused_before_the_work(tmp_path, capsys):
    np.save(tmp_path / "a.npy", noise(3, 20, 24))
    assert run(["denoise", str(tmp_path / "a.npy"), "-o", str(tmp_path / "b.png"), *FAST]) == 2
    assert "cannot hold 3 pictures" in capsys.readouterr().err


def test_a_stack_without_end_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(codec, "MOST_BYTES", 1000)
    np.save(tmp_path / "a.npy", noise(3, 20, 24))
    assert run(["denoise", str(tmp_path / "a.npy"), "-o", str(tmp_path / "out")]) == 3
    assert "unpacks to more than" in capsys.readouterr().err


def test_a_dry_run_counts_the_pages(tmp_path, capsys):
    np.save(tmp_path / "a.npy", noise(3, 20, 24))
    np.save(tmp_path / "b.npy", noise(20, 24))
    for name in ("a.npy", "b.npy"):
        assert run(["denoise", str(tmp_path / name), "-o", str(tmp_path), "--dry-run", "--json"]) == 0
    documents = re.findall(r'"seconds": ([\d.]+)', capsys.readouterr().out)
    assert float(documents[1]) == pytest.approx(3 * float(documents[3]), abs=0.005)
