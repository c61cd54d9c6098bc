"""Masks are read the way round that was asked for; those that cannot be meant are refused or doubted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from photo_files import make_photo
from PIL import Image

from diffbcp_cli.errors import InputError, MaskError, UsageError
from diffbcp_cli.photos import damage, mask_kinds, masks
from diffbcp_cli.photos.masks import looks_inverted, read_mask, write_mask
from diffbcp_cli.photos.photo import Photo, read_photo, write_photo

H, W = 48, 64


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@pytest.fixture
def photo() -> Photo:
    return make_photo()


@pytest.fixture
def grey() -> Photo:
    return make_photo(1)


def saved(path: Path, values: Any) -> Path:
    Image.fromarray(np.asarray(values)).save(path)
    return path


def left_half(value: int = 255, dtype: Any = np.uint8) -> np.ndarray:
    picture = np.zeros((H, W), dtype)
    picture[:, : W // 2] = value
    return picture


def test_white_is_filled_unless_it_keeps(tmp_path: Path, photo: Photo) -> None:
    path = saved(tmp_path / "m.png", left_half())
    observed = read_mask(path, photo)
    assert observed.shape == photo.pixels.shape
    assert observed.dtype == bool
    assert not observed[:, : W // 2].any()
    assert observed[:, W // 2 :].all()
    np.testing.assert_array_equal(read_mask(path, photo, polarity="white-keeps"), ~observed)


@pytest.mark.parametrize(("level", "filled"), [(127, False), (128, True)])
def test_the_threshold_is_127(tmp_path: Path, photo: Photo, level: int, filled: bool) -> None:
    picture = left_half()
    picture[0, -1] = level
    assert read_mask(saved(tmp_path / "m.png", picture), photo)[0, -1, 0] == (not filled)


@pytest.mark.parametrize(("level", "filled"), [(32767, False), (32768, True)])
def test_16_bit_masks_split_at_half_range(tmp_path: Path, photo: Photo, level: int, filled: bool) -> None:
    picture = left_half(65535, np.uint16)
    picture[0, -1] = level
    assert read_mask(saved(tmp_path / "m.png", picture), photo)[0, -1, 0] == (not filled)


def test_other_mask_pictures(tmp_path: Path, photo: Photo) -> None:
    expected = read_mask(saved(tmp_path / "m.png", left_half()), photo)
    one_bit = Image.fromarray(left_half()).convert("1")
    one_bit.save(tmp_path / "one.png")
    transparent = np.stack([left_half(), np.zeros((H, W), np.uint8)], axis=-1)
    like = make_photo(1, depth="float32")
    for path in (
        tmp_path / "one.png",
        saved(tmp_path / "p.gif", Image.fromarray(left_half()).convert("P")),
        saved(tmp_path / "a.png", transparent),
        saved(tmp_path / "m.jpg", left_half()),
        write_photo(tmp_path / "f.tiff", left_half() / 255, like),
    ):
        np.testing.assert_array_equal(read_mask(path, photo), expected, err_msg=path.name)


def test_rgb_masks_act_on_each_channel(tmp_path: Path, photo: Photo) -> None:
    picture = np.zeros((H, W, 3), np.uint8)
    picture[:10, :, 1] = 255
    observed = read_mask(saved(tmp_path / "m.png", picture), photo)
    assert not observed[:10, :, 1].any()
    assert observed[:10, :, [0, 2]].all()
    assert observed[10:].all()


def test_grey_photo_takes_a_colour_mask_only_if_channels_agree(tmp_path: Path, grey: Photo) -> None:
    same = np.repeat(left_half()[..., None], 3, axis=-1)
    assert read_mask(saved(tmp_path / "m.png", same), grey).shape == (H, W, 1)
    same[0, 0, 1] = 0
    with pytest.raises(MaskError, match="has colours but photo"):
        read_mask(saved(tmp_path / "m.png", same), grey)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32])
@pytest.mark.parametrize("shape", [(H, W), (H, W, 1), (H, W, 3)])
def test_arrays_say_what_is_observed(
    tmp_path: Path, photo: Photo, dtype: Any, shape: tuple[int, ...]
) -> None:
    array = generator().random(shape) < 0.5
    np.save(tmp_path / "m.npy", array.astype(dtype))
    expected = np.broadcast_to(array.reshape(H, W, -1), (H, W, 3))
    for polarity in ("white-fills", "white-keeps"):
        np.testing.assert_array_equal(read_mask(tmp_path / "m.npy", photo, polarity=polarity), expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.full((H, W), 255), "values other than 0 and 1"),
        (np.full((H, W), np.nan), "values other than 0 and 1"),
        (np.full((H, W), "a"), "values other than 0 and 1"),
        (np.ones((H, W, 2, 2)), "has shape"),
        (np.ones((H, W, 5), bool), "has 5 channels"),
        (np.ones((W, H), bool), "the mask is 48x64 but photo.png is 64x48"),
    ],
)
def test_bad_arrays_are_refused(tmp_path: Path, photo: Photo, array: np.ndarray, message: str) -> None:
    np.save(tmp_path / "m.npy", array)
    with pytest.raises(MaskError, match=message):
        read_mask(tmp_path / "m.npy", photo)


def test_bad_mask_files_are_refused(tmp_path: Path, photo: Photo) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_mask(tmp_path / "none.png", photo)
    (tmp_path / "m.npy").write_bytes(b"no array")
    with pytest.raises(MaskError, match="is not a"):
        read_mask(tmp_path / "m.npy", photo)
    (tmp_path / "m.png").write_bytes(b"no image")
    with pytest.raises(InputError, match="is not an image"):
        read_mask(tmp_path / "m.png", photo)
    with pytest.raises(MaskError, match=r"the mask is 32x20 but photo\.png is 64x48") as caught:
        read_mask(saved(tmp_path / "m.png", np.zeros((20, 32), np.uint8)), photo)
    assert caught.value.hint == "scale it to 64x48, or paint it on the photograph: diffbcp open photo.png"


def test_all_or_nothing_is_refused(tmp_path: Path, photo: Photo) -> None:
    with pytest.raises(MaskError, match="marks every pixel"):
        read_mask(saved(tmp_path / "m.png", np.full((H, W), 255, np.uint8)), photo)
    with pytest.raises(MaskError, match="marks no pixel") as caught:
        read_mask(saved(tmp_path / "m.png", np.zeros((H, W), np.uint8)), photo)
    assert caught.value.exit_code == 3


def test_alpha_is_the_photos_own_mask(photo: Photo) -> None:
    alpha = np.ones((H, W), np.float32)
    alpha[:3], alpha[3:5], alpha[5:10] = 0.0, 0.4, 0.6
    observed = read_mask("alpha", replace(photo, alpha=alpha))
    assert not observed[:5].any()
    assert observed[5:].all()
    with pytest.raises(MaskError, match="has no transparency"):
        read_mask("alpha", photo)


def test_a_written_mask_reads_back(tmp_path: Path, photo: Photo) -> None:
    by_entry = generator().random((H, W, 3)) < 0.5
    by_pixel = np.repeat(by_entry[..., :1], 3, axis=-1)
    for name in ("m.png", "m.npy"):
        for observed in (by_entry, by_pixel):
            write_mask(tmp_path / name, observed)
            np.testing.assert_array_equal(read_mask(tmp_path / name, photo), observed)
    write_mask(tmp_path / "m.png", by_pixel)
    with Image.open(tmp_path / "m.png") as picture:
        assert picture.mode == "L"
    with pytest.raises(UsageError, match="cannot be written"):
        write_mask(tmp_path / "m.jpg", by_pixel)


def test_non_finite_outside_the_mask_is_refused(photo: Photo) -> None:
    pixels = photo.pixels.copy()
    pixels[2, 3, 0], pixels[4, 5, 1] = np.nan, np.inf
    broken = replace(photo, pixels=pixels)
    with pytest.raises(InputError, match="has 2 values outside the mask") as caught:
        masks.check_finite(broken, np.ones((H, W, 3), bool))
    assert "diffbcp mask from photo.png --nan" in str(caught.value.hint)
    masks.check_finite(broken, masks.observed_by_finite(broken))


@pytest.mark.parametrize("kind", mask_kinds.KINDS)
@pytest.mark.parametrize("value", ["black", "#ff00ff"])
def test_damage_kept_and_content_filled_looks_inverted(kind: str, value: str, photo: Photo) -> None:
    observed = mask_kinds.make(kind, photo.pixels.shape, rng=generator(1))  # type: ignore[arg-type]
    broken = damage.damaged(photo, observed, noise_std=0.02, fill=value, rng=generator())
    assert looks_inverted(observed, broken) is None
    assert "looks inverted" in str(looks_inverted(~observed, broken))


@pytest.mark.parametrize("kind", ["text", "scratch"])
def test_keeping_only_strokes_of_a_whole_photo_looks_inverted(kind: str) -> None:
    photo = make_photo(shape=(200, 200))
    observed = mask_kinds.make(kind, (200, 200, 3), missing=0.02, rng=generator(1))
    assert looks_inverted(observed, photo) is None
    assert "does not look damaged" in str(looks_inverted(~observed, photo))


def test_nan_and_transparency_kept_look_inverted(photo: Photo) -> None:
    observed = mask_kinds.make("box", photo.pixels.shape, rng=generator())  # type: ignore[arg-type]
    hollow = replace(photo, pixels=np.where(observed, photo.pixels, np.float32(np.nan)))
    assert looks_inverted(observed, hollow) is None
    assert "NaN" in str(looks_inverted(~observed, hollow))
    clear = replace(photo, alpha=observed[..., 0].astype(np.float32))
    assert looks_inverted(observed, clear) is None
    assert "transparent" in str(looks_inverted(~observed, clear))


@pytest.mark.parametrize("recipe", mask_kinds.RECIPES)
@pytest.mark.parametrize("channels", [1, 3])
def test_the_papers_masks_on_a_whole_photo_are_not_doubted(recipe: str, channels: int) -> None:
    photo = make_photo(channels, shape=(128, 128))
    for seed in range(3):
        observed = mask_kinds.recipe(recipe, (128, 128, channels), rng=generator(seed))
        assert looks_inverted(observed, photo) is None


SIZES = [(16, 16), (17, 31), (256, 256), (130, 90)]


@pytest.mark.parametrize("kind", mask_kinds.KINDS)
@pytest.mark.parametrize("shape", SIZES)
def test_kinds_are_made_by_seed_and_lose_their_share(kind: str, shape: tuple[int, int]) -> None:
    for missing in (None, 0.15, 0.5, 0.9):
        first = mask_kinds.make(kind, (*shape, 3), missing=missing, rng=generator(5))
        np.testing.assert_array_equal(
            first, mask_kinds.make(kind, (*shape, 3), missing=missing, rng=generator(5))
        )
        assert first.shape == (*shape, 3)
        assert first.any()
        assert not first.all()
        wanted = mask_kinds.DEFAULT_MISSING[kind] if missing is None else missing
        near = 0.002 if kind == "uniform" else 0.01 if min(shape) > 100 else 0.09
        assert masks.missing_share(first) == pytest.approx(wanted, abs=near)
    if shape == (256, 256):
        other = mask_kinds.make(kind, (*shape, 3), rng=generator(6))
        assert (other != mask_kinds.make(kind, (*shape, 3), rng=generator(5))).any()


@pytest.mark.parametrize("missing", [0.0, 1.0, -0.5, float("nan")])
def test_impossible_shares_are_refused(missing: float) -> None:
    with pytest.raises(UsageError, match="missing share"):
        mask_kinds.make("box", (20, 20, 3), missing=missing, rng=generator())
    with pytest.raises(UsageError, match="no mask kind"):
        mask_kinds.make("circle", (20, 20, 3), rng=generator())
    with pytest.raises(UsageError, match="no recipe"):
        mask_kinds.recipe("paper-circle", (20, 20, 3), rng=generator())


@pytest.mark.parametrize("share", [0.9, 0.7])
@pytest.mark.parametrize("shape", [(256, 256, 3), (17, 31, 1)])
def test_paper_uniform_loses_exactly_its_share_of_entries(share: float, shape: tuple[int, int, int]) -> None:
    observed = mask_kinds.recipe(f"paper-uniform-{share}", shape, rng=generator(3))
    assert np.count_nonzero(~observed) == round(share * observed.size)
    if shape[2] == 3:  # entries, not pixels: the channels are lost independently
        assert (~observed).mean(axis=(0, 1)) == pytest.approx([share] * 3, abs=0.01)
        assert (~observed).all(axis=-1).mean() == pytest.approx(share**3, abs=0.02)


def test_uniform_per_pixel_loses_whole_pixels() -> None:
    observed = mask_kinds.make("uniform", (64, 64, 3), missing=0.25, per="pixel", rng=generator())
    assert (observed == observed[..., :1]).all()
    assert np.count_nonzero(~observed[..., 0]) == 1024


@pytest.mark.parametrize("shape", [(256, 256), (100, 333), (16, 16)])
@pytest.mark.parametrize("seed", range(5))
def test_paper_stripes_lose_30_percent_of_rows_and_columns(shape: tuple[int, int], seed: int) -> None:
    observed = mask_kinds.recipe("paper-stripe", (*shape, 3), rng=generator(seed))
    assert (observed == observed[..., :1]).all()
    for axis in (0, 1):
        lost = ~observed[..., 0].any(axis=1 - axis)
        assert np.count_nonzero(lost) == round(0.3 * shape[axis])
        edges = np.flatnonzero(np.diff(np.concatenate([[0], lost.astype(int), [0]])))
        assert 1 <= np.diff(edges)[::2].min() <= np.diff(edges)[::2].max() <= 8


@pytest.mark.parametrize("shape", [(256, 256), (16, 16), (60, 500)])
def test_paper_irregular_leaves_50_to_70_percent(shape: tuple[int, int]) -> None:
    left = [
        mask_kinds.recipe("paper-irregular", (*shape, 3), rng=generator(seed)).mean() for seed in range(12)
    ]
    assert 0.5 <= min(left) < max(left) <= 0.7
    assert max(left) - min(left) > 0.05


def test_noise_has_the_given_strength_and_is_not_clipped(tmp_path: Path) -> None:
    photo = make_photo(shape=(200, 200), pixels=np.zeros((200, 200, 3), np.float32))
    result = damage.damaged(photo, np.ones((200, 200, 3), bool), noise_std=0.1, fill="black", rng=generator())
    assert result.pixels.std() == pytest.approx(0.1, rel=0.02)
    assert result.pixels.mean() == pytest.approx(0.0, abs=0.002)
    stored = damage.stored_as(result, tmp_path / "a.tiff")
    kept = read_photo(write_photo(tmp_path / "a.tiff", stored.pixels, stored))
    np.testing.assert_array_equal(kept.pixels, result.pixels)
