"""Which result is paired with which truth, and what is taken from beside it."""

from __future__ import annotations

import pytest
from eval_data import make_set, save, truth_picture

from diffbcp_cli.errors import InputError
from diffbcp_cli.scoring.pairs import match


def test_our_output_names_match_the_photograph_and_bring_their_companions(tmp_path):
    make_set(tmp_path, draws=3)
    found = match(tmp_path / "out", tmp_path / "truth")
    assert [pair.name for pair in found.pairs] == ["a", "b", "sub/c"]
    last = found.pairs[-1]
    assert last.result == tmp_path / "out/sub/c.mean.png"
    assert last.truth == tmp_path / "truth/sub/c.png"
    assert last.std == tmp_path / "out/sub/c.std.tiff"
    assert last.samples == tmp_path / "out/sub/c.samples.npz"
    assert last.run == tmp_path / "out/sub/c.json"
    assert (found.lone_results, found.lone_truths, dict(found.problems)) == ((), (), {})


def test_plain_names_other_suffixes_and_flat_truths_match_too(tmp_path):
    picture = truth_picture(0)
    for name in (
        "out/x.png",
        "out/deep/y.png",
        "out/z.v2.png",
        "truth/x.jpg",
        "truth/y.png",
        "truth/z.v2.png",
    ):
        save(tmp_path / name, picture)
    found = match(tmp_path / "out", tmp_path / "truth")
    assert {pair.name: pair.truth.name for pair in found.pairs} == {
        "x": "x.jpg",
        "deep/y": "y.png",
        "z.v2": "z.v2.png",
    }


def test_the_mean_wins_over_an_input_beside_it_and_lone_files_are_named(tmp_path):
    names = ("out/p.jpg", "out/p.png", "out/p.mean.png", "out/only.png", "truth/p.png", "truth/rest.png")
    for name in names:
        save(tmp_path / name, truth_picture(0))
    found = match(tmp_path / "out", tmp_path / "truth")
    assert [pair.result.name for pair in found.pairs] == ["p.mean.png"]
    assert found.lone_results == ("only",)
    assert found.lone_truths == ("rest.png",)


def test_a_name_with_two_truths_is_a_problem_of_its_own(tmp_path):
    for name in ("out/p.png", "out/q.png", "truth/p.png", "truth/p.jpg", "truth/q.png"):
        save(tmp_path / name, truth_picture(0))
    found = match(tmp_path / "out", tmp_path / "truth")
    assert [pair.name for pair in found.pairs] == ["q"]
    assert "more than one truth" in found.problems["p"].message


def test_masks_match_like_truths_and_a_missing_one_is_a_problem(tmp_path):
    make_set(tmp_path)
    (tmp_path / "masks/b.png").unlink()
    found = match(tmp_path / "out", tmp_path / "truth", mask=tmp_path / "masks")
    assert [(pair.name, pair.mask) for pair in found.pairs] == [
        ("a", tmp_path / "masks/a.png"),
        ("sub/c", tmp_path / "masks/sub/c.png"),
    ]
    assert "no mask" in found.problems["b"].message
    one = match(tmp_path / "out", tmp_path / "truth", mask=tmp_path / "masks/a.png")
    assert {pair.mask for pair in one.pairs} == {tmp_path / "masks/a.png"}


def test_two_files_are_a_pair_whatever_their_names(tmp_path):
    save(tmp_path / "left.png", truth_picture(0))
    save(tmp_path / "right.png", truth_picture(1))
    (pair,) = match(tmp_path / "left.png", tmp_path / "right.png").pairs
    assert (pair.name, pair.truth.name) == ("left", "right.png")


@pytest.mark.parametrize(
    ("results", "truth", "message"),
    [
        ("nowhere", "truth", "does not exist"),
        ("out/a.mean.png", "truth", "is a file but"),
        ("empty", "truth", "holds no images to score"),
        ("out", "empty", "holds no images"),
        ("out", "other", "has a truth of the same name"),
    ],
)
def test_nothing_to_pair_is_an_input_error(tmp_path, results, truth, message):
    make_set(tmp_path)
    (tmp_path / "empty").mkdir()
    save(tmp_path / "other/zzz.png", truth_picture(0))
    with pytest.raises(InputError, match=message):
        match(tmp_path / results, tmp_path / truth)
