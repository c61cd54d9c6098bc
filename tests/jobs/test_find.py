"""Which photographs an argument means."""

from __future__ import annotations

import os

import pytest
from photo_files import save

from diffbcp_cli.errors import UsageError
from diffbcp_cli.jobs import find as inputs


def found(*arguments: object, **options) -> list[str]:
    return [one.name for one in inputs.find_photos([str(a) for a in arguments], **options).photos]


def test_a_folder_is_searched_in_depth_and_named_by_relative_path(photos):
    (photos / "notes.txt").write_text("no picture")
    save(photos / ".hidden" / "x.png")
    assert found(photos) == ["a.png", "b.png", "sub/a.png", "sub/deep/c.webp"]


def test_a_pattern_names_like_its_folder(photos):
    assert found(photos / "**" / "*.png") == ["a.png", "b.png", "sub/a.png"]
    assert found(photos / "su*" / "*.png") == ["sub/a.png"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(photos):
    save(photos / "[1]*.png")
    assert found(photos / "[1]*.png") == ["[1]*.png"]


def test_results_of_earlier_runs_are_no_photographs(photos):
    for kind in ("mean", "std", "lower", "panel", "mask"):
        save(photos / f"a.{kind}.png")
    findings = inputs.find_photos([str(photos)])
    assert len(findings.photos) == 4
    assert len(findings.left_out) == 5
    assert found(save(photos / "my.holiday.png")) == ["my.holiday.png"]


def test_folders_of_results_and_masks_inside_the_input_are_left_out(photos):
    save(photos / "out" / "x.png")
    mask = save(photos / "masks" / "a.png")
    assert "out/x.png" not in found(photos, apart_from=[photos / "out", mask.parent])
    assert "masks/a.png" not in found(photos, apart_from=[photos / "out", mask])


def test_a_link_to_a_folder_is_not_followed_so_loops_end(photos):
    (photos / "sub" / "up").symlink_to(photos)
    (photos / "again").symlink_to(photos / "sub")
    assert found(photos) == found(photos / "**" / "*.*") == ["a.png", "b.png", "sub/a.png", "sub/deep/c.webp"]


def test_the_same_file_twice_is_one_photograph(photos):
    assert found(photos, photos / "a.png", photos / "*.png") == found(photos)


def test_names_from_a_list_may_hold_any_bytes():
    assert inputs.read_list(b"a.png\nb c.png\n", null=False) == ["a.png", "b c.png"]
    listed = inputs.read_list(b"new\nline.png\0\xff.png\0", null=True)
    assert [os.fsencode(name) for name in listed] == [b"new\nline.png", b"\xff.png"]


def test_root_gives_names_and_refuses_what_lies_outside(photos, tmp_path):
    outside = save(tmp_path / "other" / "x.png")
    listed = [str(photos / "sub" / "a.png"), str(outside)]
    findings = inputs.find_photos(["-"], listed=listed, root=photos)
    by_name = {one.name: one.problem for one in findings.photos}
    assert by_name.pop("sub/a.png") is None
    (problem,) = by_name.values()
    assert "is not in" in str(problem)


def test_shards_share_out_every_name_once_whatever_the_others_are():
    every = [f"img/{number}.png" for number in range(200)]
    parts = [[name for name in every if inputs.in_shard(name, (i, 3))] for i in (1, 2, 3)]
    assert sorted(name for part in parts for name in part) == sorted(every)
    assert all(40 < len(part) < 95 for part in parts)
    assert inputs.in_shard("img/7.png", (1, 1))


@pytest.mark.parametrize("text", ["0/3", "4/3", "a/b", "3", "1/", "-1/2", "1/2/3"])
def test_a_shard_that_is_none_is_a_usage_error(text):
    with pytest.raises(UsageError):
        inputs.parse_shard(text)


def test_a_folder_that_one_may_not_enter_is_named_and_the_others_are_searched(photos, monkeypatch):
    save(photos / "locked" / "x.png")
    scan = os.scandir

    def forbidden(path):  # root may enter any folder
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    expected = found(photos)
    monkeypatch.setattr(os, "scandir", forbidden)
    listed = inputs.find_photos([str(photos)]).photos
    problems = [one for one in listed if one.problem is not None]
    assert [one.problem.message for one in problems] == [
        f"the folder {photos / 'locked'} cannot be read: permission denied"
    ]
    assert {one.name for one in listed} - {one.name for one in problems} == {*expected} - {"locked/x.png"}


def test_names_that_end_in_nul_need_their_option():
    with pytest.raises(UsageError, match="end in NUL") as caught:
        inputs.read_list(b"a.png\0b.png\0", null=False)
    assert "-0" in caught.value.hint
    assert inputs.read_list(b"a.png\0b.png\0", null=True) == ["a.png", "b.png"]
