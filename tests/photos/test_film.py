"""The film of a run."""

from __future__ import annotations

import importlib.util
import io
import json

import cv2
import numpy as np
import pytest
from conftest import picture
from PIL import Image

from diffbcp_cli.cli.app import run
from diffbcp_cli.photos import film as films
from diffbcp_cli.photos.film import film

TINY = ["--prior", "none", "--burn-in", "2", "--rank", "4", "--quiet"]


def frames(count: int, height: int, width: int, channels: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, height, width, channels), np.uint8)


@pytest.mark.parametrize("channels", [1, 3])
def test_an_animated_webp_shows_every_frame_and_then_the_result(channels):
    result = np.full((61, 43, channels), 0.25, np.float32)
    with Image.open(io.BytesIO(film(frames(7, 30, 21, channels), result, ".webp"))) as found:
        assert (found.format, found.size, found.n_frames, found.mode) == ("WEBP", (21, 30), 8, "RGB")
        found.seek(7)
        assert np.abs(np.asarray(found).astype(int) - 64).max() < 6


def test_an_mp4_of_odd_sides(tmp_path):
    path = tmp_path / "film.mp4"
    path.write_bytes(film(frames(5, 31, 41, 3), np.zeros((62, 82, 3), np.float32), ".mp4"))
    video = cv2.VideoCapture(str(path))
    ok, first = video.read()
    video.release()
    assert ok
    assert first.shape == (30, 40, 3)


@pytest.mark.parametrize("arguments", [[], ["--window", "64"]])
def test_a_run_makes_a_film_of_its_first_chain(arguments, tmp_path, capsys):
    photo = tmp_path / "photo.png"
    Image.fromarray((picture(72, 36) * 255).astype(np.uint8)).save(photo)
    loud = [word for word in TINY if word != "--quiet"]
    command = [
        "denoise",
        str(photo),
        "-o",
        str(tmp_path / "out"),
        "--iterations",
        "6",
        "--chains",
        "2",
        *loud,
    ]
    assert run([*command, "--save", "film", *arguments]) == 0
    path = tmp_path / "out" / "photo.film.webp"
    assert path.exists() == (not arguments)
    record = json.loads((tmp_path / "out" / "photo.json").read_text())
    assert ("photo.film.webp" in record["files"]) == path.exists()
    assert ("--save film cannot be put together" in capsys.readouterr().err) == bool(arguments)
    if path.exists():
        with Image.open(path) as found:
            assert (found.size, found.n_frames) == ((36, 72), 7)


def test_a_long_run_has_a_film_of_bounded_length():
    from diffbcp_cli.options import Options
    from diffbcp_cli.run.loop import MOST_FRAMES, film_steps

    assert list(film_steps(Options(save=("mean", "film"), iterations=4, burn_in=1))) == [0, 1, 2, 3]
    assert len(film_steps(Options(save=("film-mp4",), iterations=1000))) <= MOST_FRAMES
    assert not film_steps(Options())


def test_without_a_codec_mp4_is_refused_before_the_run(tmp_path, monkeypatch, capsys):
    photo = tmp_path / "photo.png"
    Image.fromarray((picture() * 255).astype(np.uint8)).save(photo)
    real = importlib.util.find_spec
    monkeypatch.setattr(films, "find_spec", lambda name: None if name == "imageio_ffmpeg" else real(name))
    for inputs in ([photo], [photo, photo.parent]):
        assert (
            run(["denoise", *map(str, inputs), "-o", str(tmp_path / "out"), *TINY, "--save", "film-mp4"]) == 2
        )
        assert "imageio-ffmpeg" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
