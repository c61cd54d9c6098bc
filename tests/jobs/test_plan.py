"""Masks of photographs, and the places of their results."""

from __future__ import annotations

import pytest
from photo_files import names, save, save_mask

from diffbcp_cli.cli.app import run
from diffbcp_cli.errors import InputError
from diffbcp_cli.jobs.plan import Masks, Request, make_plan

TINY = ["--prior", "none", "--iterations", "3", "--burn-in", "1", "--rank", "4", "--quiet", "--jobs", "1"]


def test_masks_are_matched_by_relative_path_then_by_stem_at_the_top(photos, tmp_path):
    folder = tmp_path / "masks"
    save_mask(folder / "sub" / "a.png")
    save_mask(folder / "c.png")
    save_mask(folder / "b.mask.png")
    masks = Masks(folder)
    assert masks.find(photos / "sub/a.png", "sub/a.png") == folder / "sub" / "a.png"
    assert masks.find(photos / "sub/deep/c.webp", "sub/deep/c.webp") == folder / "c.png"
    assert masks.find(photos / "b.png", "b.png") == folder / "b.mask.png"
    with pytest.raises(InputError, match="no mask"):
        masks.find(photos / "a.png", "a.png")  # sub/a.png is another photograph's


def test_a_photograph_is_never_its_own_mask(photos):
    save_mask(photos / "b.mask.png")
    masks = Masks(photos)
    assert masks.find(photos / "b.png", "b.png") == photos / "b.mask.png"
    with pytest.raises(InputError, match="no mask"):
        masks.find(photos / "a.png", "a.png")


def test_photographs_whose_results_would_have_one_name_are_both_refused(photos, tmp_path):
    save(photos / "b.jpg")
    plan = make_plan(Request((str(photos),), tmp_path / "out"))
    assert {bad.name for bad in plan.bad} == {"b.png", "b.jpg"}
    assert {job.name for job in plan.jobs} == {"a.png", "sub/a.png", "sub/deep/c.webp"}


def test_a_photograph_that_would_overwrite_the_summary_is_refused(photos, tmp_path):
    save(photos / "summary.png")
    save(photos / "sub" / "summary.png")
    plan = make_plan(Request((str(photos),), tmp_path / "out"))
    assert [bad.name for bad in plan.bad] == ["summary.png"]


def test_a_link_out_of_the_output_folder_is_not_written_through(photos, tmp_path):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    out.mkdir()
    (out / "sub").symlink_to(elsewhere)
    (out / "b.mean.png").symlink_to(elsewhere / "victim.png")
    assert run(["denoise", str(photos), "-o", str(out), *TINY]) == 1
    assert not names(elsewhere)
    assert "a.mean.png" in names(out)


@pytest.mark.parametrize(
    "ending", ["panel.png", "lower.png", "samples.npz", "trace.png", "film.webp", "json"]
)
def test_no_result_is_written_through_a_link_out_of_the_folder(ending, photos, tmp_path):
    out, victim = tmp_path / "out", tmp_path / "victim"
    victim.write_text("precious")
    out.mkdir()
    (out / f"b.{ending}").symlink_to(victim)
    plan = make_plan(Request((str(photos),), out))
    assert [bad.name for bad in plan.bad] == ["b.png"]
    assert "leads out of" in plan.bad[0].error.message


def test_what_a_killed_run_left_goes_but_not_what_a_neighbour_is_writing(tmp_path):
    from diffbcp_cli.photos.files import remove_leftovers
    from diffbcp_cli.photos.targets import KINDS

    dead = {".a.mean.png.0123abcd.tmp", ".a.json.0123abcd.tmp", ".a.checkpoint.safetensors.0123abcd.tmp"}
    alive = {".a.b.mean.png.0123abcd.tmp", ".a.b.json.0123abcd.tmp", ".ab.json.0123abcd.tmp", "a.mean.png"}
    for name in dead | alive:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path, "a", KINDS)
    assert names(tmp_path) == alive
