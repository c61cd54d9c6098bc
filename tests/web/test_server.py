"""What the page asks for, it gets; what goes wrong is said and nothing is lost."""

from __future__ import annotations

import errno
import io
import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from web_server import Served, save_mask, save_photo

from diffbcp_cli.jobs.session import restore
from diffbcp_cli.photos.masks import read_mask
from diffbcp_cli.photos.photo import read_photo
from diffbcp_cli.web.work import Listening

QUICK = {"method": "telea", "observed": "keep"}


def upload(served, path: Path, name: str | None = None):
    return served.ask(f"api/photos?name={name or path.name}", method="POST", body=path.read_bytes())


@pytest.fixture
def opened(served, tmp_path):
    """A server with a photograph that has a mask."""
    item = served.store.add(save_photo(tmp_path / "photo.png"))
    mask = save_mask(tmp_path / "mask.png").read_bytes()
    assert served.ask(f"api/photos/{item.id}/mask", method="PUT", body=mask).status == 200
    return served, item


def test_a_photograph_is_uploaded_and_shown(served, tmp_path):
    answer = upload(served, save_photo(tmp_path / "a b.png"), "a%20b.png")
    assert (answer.json["name"], answer.json["width"], answer.json["height"]) == ("a b.png", 64, 48)
    shown = served.ask(f"api/photos/{answer.json['id']}/view")
    assert np.array_equal(
        np.asarray(Image.open(io.BytesIO(shown.body))), np.asarray(Image.open(tmp_path / "a b.png"))
    )
    assert served.ask(f"api/photos/{answer.json['id']}/thumb").headers["content-type"] == "image/jpeg"
    again = upload(served, tmp_path / "a b.png", "a%20b.png").json
    assert again["stem"] != answer.json["stem"]


@pytest.mark.parametrize(
    "name", ["../../etc/x.png", "..%2F..%2Fx.png", "C:%5Cx.png", "%00.png", ".png", "a" * 300 + ".png"]
)
def test_an_upload_stays_in_the_session(served, tmp_path, name):
    body = save_photo(tmp_path / "photo.png").read_bytes()
    before = {path for path in tmp_path.rglob("*") if "restored" not in path.parts}
    answer = served.ask(f"api/photos?name={name}", method="POST", body=body)
    assert answer.status in (200, 400)
    assert {path for path in tmp_path.rglob("*") if "restored" not in path.parts} == before
    for item in served.store.items.values():
        assert Path(item.photo).parent == served.store.folder / "photos"


def test_what_is_no_image_is_said_and_leaves_nothing(served, tmp_path):
    for name, body in (("a.png", b"hello"), ("a.png", b""), ("a.exe", b"MZ"), ("", b"x")):
        answer = served.ask(f"api/photos?name={name}", method="POST", body=body)
        assert answer.status == 400
        assert answer.json["message"]
    assert not any((served.store.folder / "photos").iterdir())
    assert served.ask("api/state").json["items"] == []


def test_too_many_pixels_are_said_before_they_are_decoded(served):
    file = io.BytesIO()
    Image.new("1", (25_000, 20_000)).save(file, "PNG")
    answer = served.ask("api/photos?name=huge.png", method="POST", body=file.getvalue())
    assert answer.status == 400
    assert "more than 1 million pixels" in answer.json["message"]


def test_a_full_disk_is_said(served, tmp_path, monkeypatch):
    body = save_photo(tmp_path / "photo.png").read_bytes()
    real = Path.open

    def full(path, mode="r", **rest):
        if "photos" in path.parts and "w" in mode:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, mode, **rest)

    monkeypatch.setattr(Path, "open", full)
    answer = served.ask("api/photos?name=a.png", method="POST", body=body)
    assert answer.status == 507
    assert "No space left" in answer.json["message"]


def test_a_mask_of_another_size_is_said_and_the_old_one_stays(opened, tmp_path):
    served, item = opened
    before = served.store.mask_path(item).read_bytes()
    for body in (save_mask(tmp_path / "other.png", 40, 40).read_bytes(), b"no picture", b""):
        answer = served.ask(f"api/photos/{item.id}/mask", method="PUT", body=body)
        assert answer.status == 400
    assert served.store.mask_path(item).read_bytes() == before
    assert served.ask(f"api/photos/{item.id}/mask").body == before
    assert [path.name for path in served.store.folder.glob("*upload*")] == []


def test_a_mask_made_from_an_older_one_does_not_replace_what_another_tab_painted(opened, tmp_path):
    served, item = opened
    before, version = served.store.mask_path(item).read_bytes(), item.mask_version
    file = io.BytesIO()
    Image.new("L", (64, 48)).save(file, "PNG")
    stale = served.ask(f"api/photos/{item.id}/mask?version={version - 1}", method="PUT", body=file.getvalue())
    assert stale.status == 409
    assert "another tab" in stale.json["message"]
    assert served.store.mask_path(item).read_bytes() == before
    fresh = served.ask(f"api/photos/{item.id}/mask?version={version}", method="PUT", body=file.getvalue())
    assert fresh.status == 200
    assert fresh.json["mask_version"] == version + 1


def test_an_empty_mask_takes_the_file_away(opened):
    served, item = opened
    file = io.BytesIO()
    Image.new("L", (64, 48)).save(file, "PNG")
    served.ask(f"api/photos/{item.id}/mask", method="PUT", body=file.getvalue())
    assert not served.store.mask_path(item).exists()
    assert served.ask(f"api/photos/{item.id}/mask").status == 204


def test_a_mask_is_grown_as_the_command_grows_it(opened, tmp_path):
    served, item = opened
    body = served.ask(f"api/photos/{item.id}/resize", method="POST", body={"pixels": 2}).body
    (tmp_path / "grown.png").write_bytes(body)
    grown = ~read_mask(tmp_path / "grown.png", read_photo(Path(item.photo)))[..., 0]
    assert grown[8:22, 22:38].all()
    assert np.count_nonzero(grown) == 14 * 24 - 4 * 3  # corners are round


@pytest.mark.slow
def test_a_run_gives_the_bytes_of_its_command_line(opened):
    served, item = opened
    run = served.ask(f"api/photos/{item.id}/restore", method="POST", body=QUICK).json
    done = served.wait(run["id"], "done", "failed")
    assert done["status"] == "done", done["message"]
    words = shlex.split(done["command"])
    subprocess.run([sys.executable, "-m", "diffbcp_cli", *words[1:], "--quiet"], check=True)
    again = Path(words[words.index("-o") + 1])
    assert again.read_bytes() == served.ask(f"api/runs/{run['id']}/file").body
    assert again.read_bytes() == Path(done["out"]).read_bytes()


def test_the_queue_keeps_its_order_and_lets_go_of_what_is_cancelled(opened, tmp_path):
    served, item = opened
    other = served.store.add(save_photo(tmp_path / "b.png", seed=1))
    path = f"api/photos/{item.id}/restore"
    slow = {"method": "diffbcp", "prior": "none"}
    runs = [served.ask(path, method="POST", body=slow).json["id"] for _ in range(2)]
    runs.append(served.ask(f"api/photos/{other.id}/restore", method="POST", body=slow).json["id"])
    served.ask(f"api/runs/{runs[1]}/cancel", method="POST")
    served.ask(f"api/runs/{runs[2]}/cancel", method="POST")
    served.wait(runs[0], "running")
    served.ask(f"api/runs/{runs[0]}/cancel", method="POST")
    first = served.wait(runs[0], "interrupted", "done", "failed")
    assert first["status"] == "interrupted"
    for run in runs[1:]:
        assert served.wait(run, "interrupted")["message"] == "cancelled before it began"


def test_a_model_that_is_missing_fails_one_run_and_says_so(opened):
    served, item = opened
    path = f"api/photos/{item.id}/restore"
    bad = served.ask(path, method="POST", body={"prior": "no/such-folder"}).json["id"]
    good = served.ask(path, method="POST", body=QUICK).json["id"]
    assert served.wait(bad, "failed")["message"]
    assert served.wait(good, "done", "failed")["status"] == "done"


@pytest.mark.parametrize(
    "body", [{"method": "no-such"}, {"observed": "sometimes"}, {"seed": "x"}, "[]", "{", b"\xff"]
)
def test_what_cannot_be_asked_for_is_refused(opened, body):
    served, item = opened
    assert served.ask(f"api/photos/{item.id}/restore", method="POST", body=body).status == 400
    assert served.store.runs == {}


def test_a_session_survives_its_server(tmp_path):
    first = Served(tmp_path / "restored")
    item = first.store.add(save_photo(tmp_path / "photo.png"))
    first.ask(f"api/photos/{item.id}/mask", method="PUT", body=save_mask(tmp_path / "m.png").read_bytes())
    run = first.ask(f"api/photos/{item.id}/restore", method="POST", body=QUICK).json["id"]
    first.wait(run, "done")
    file = first.ask(f"api/runs/{run}/file").body
    mask = first.ask(f"api/photos/{item.id}/mask").body
    first.close()
    state = tmp_path / "restored" / "session.json"
    told = json.loads(state.read_text())
    told["runs"].append({**told["runs"][0], "id": "77", "status": "running"})
    told["runs"].append(
        {**told["runs"][0], "id": "78", "status": "queued", "out": str(tmp_path / "restored" / "photo-9.png")}
    )
    state.write_text(json.dumps(told))
    second = Served(tmp_path / "restored")
    try:
        assert second.ask(f"api/runs/{run}/file").body == file
        assert second.ask(f"api/photos/{item.id}/mask").body == mask
        assert second.wait("77", "interrupted")["message"].startswith("the server was stopped")
        assert second.wait("78", "done", "failed")["status"] == "done"
    finally:
        second.close()


def test_a_photograph_that_is_named_comes_before_those_of_an_earlier_session(tmp_path):
    paths = [save_photo(tmp_path / f"{name}.png") for name in ("a", "b")]
    for path in (*paths, paths[0]):
        served = Served(tmp_path / "restored")
        try:
            served.store.add(path, first=True)
            assert served.ask("api/state").json["items"][0]["name"] == path.name
        finally:
            served.close()
    assert len(served.store.items) == 2


def test_a_run_in_windows_around_the_damage_has_previews_of_the_whole_picture(monkeypatch):
    monkeypatch.setattr("diffbcp_cli.web.work.PREVIEW_EVERY", 0.0)
    known = np.ones((300, 400, 3), bool)
    known[40:50, 40:52] = known[200:206, 300:309] = False
    pixels = np.where(known, np.float32(0.6), np.float32(0))
    watch = Listening((300, 400))
    restore(pixels, known, {"method": "telea"}, prior=None, watch=watch)
    assert watch.live.preview_version >= 2
    assert watch.live.preview.shape == pixels.shape
    assert np.abs(watch.live.preview - 0.6).max() < 0.01


def test_a_session_of_another_program_is_refused(tmp_path):
    from diffbcp_cli.errors import InputError

    (tmp_path / "restored").mkdir()
    (tmp_path / "restored" / "session.json").write_text("[1]")
    with pytest.raises(InputError, match="none of ours"):
        Served(tmp_path / "restored")


def test_the_truth_must_fit_and_gives_an_error_map(opened, tmp_path):
    served, item = opened
    small = save_photo(tmp_path / "small.png", 20, 20).read_bytes()
    answer = served.ask(f"api/photos/{item.id}/truth?name=small.png", method="PUT", body=small)
    assert answer.status == 400
    assert "20x20" in answer.json["message"]
    truth = Path(item.photo).read_bytes()
    assert served.ask(f"api/photos/{item.id}/truth?name=t.png", method="PUT", body=truth).status == 200
    run = served.ask(f"api/photos/{item.id}/restore", method="POST", body=QUICK).json["id"]
    served.wait(run, "done")
    error = served.ask(f"api/runs/{run}/error")
    assert error.status == 200
    assert float(error.headers["x-top"]) > 0
