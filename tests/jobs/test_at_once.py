"""Small photographs at once on a pretended GPU: each as it would be alone, in fewer calls of the network."""

from __future__ import annotations

import json
import threading

import numpy as np
import on_gpu
import pytest
import torch
from photo_files import save
from PIL import Image
from pretend import KINDS, Gpu

from diffbcp_cli.cli import app
from diffbcp_cli.jobs import at_once, one
from diffbcp_cli.jobs import session as sessions
from diffbcp_cli.jobs.plan import Request, make_plan
from diffbcp_cli.jobs.pool import run_here
from diffbcp_cli.jobs.run import Sharing, run
from diffbcp_cli.jobs.session import Session
from diffbcp_cli.options import Options, resolve
from diffbcp_cli.priors import LoadedPrior
from diffbcp_cli.priors.fetch import Identity
from diffbcp_cli.priors.load import assemble
from diffbcp_cli.priors.networks import natural

SHORT = {"iterations": 4, "burn_in": 2, "threads": 1, "calibrate": False, "sigma": 0.1}
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def photos(tmp_path):
    """Five photographs: three of one size, two of another."""
    folder = tmp_path / "photos"
    for number, name in enumerate("abcde"):
        save(folder / f"{name}.png", number, (32, 32) if number % 2 == 0 else (16, 48))
    return folder


@pytest.fixture(autouse=True)
def _tiny_prior(monkeypatch):
    """A tiny prior on whatever device is asked for, in place of the bundled one."""

    def load(name, *, device, **_):
        torch.manual_seed(0)
        built = natural.build(on_gpu.NETWORK, {})
        prior = assemble(built, device=torch.device(device), dtype=torch.float32)
        return LoadedPrior(
            prior, built.network, Identity(name, "natural", "m", "0", None, None, None), torch.float32
        )

    monkeypatch.setattr(sessions, "load_prior", load)


def session_of(kind, *, resume=False, **given):
    return Session({**SHORT, "device": kind, **given}, resume=resume)


def plan_of(photos, out):
    return make_plan(Request((str(photos),), out))


def never():
    return False


def restored(photos, out, session, *, sharing=None, tell=lambda told: None, stopping=never):
    plan = plan_of(photos, out)
    found = run(plan, session, sharing or Sharing(), tell=tell, stopping=stopping)
    return {report.name: report for report in found}


def difference(one_folder, other):
    """The largest difference of any mean, in levels of 255."""
    worst = 0
    for path in sorted(one_folder.glob("*.mean.png")):
        here, there = (np.asarray(Image.open(f / path.name)).astype(int) for f in (one_folder, other))
        worst = max(worst, int(abs(here - there).max()))
    return worst


def record(out, name):
    return json.loads((out / f"{name}.json").read_text())


@every_kind
def test_photographs_at_once_come_out_as_alone_in_fewer_calls(kind, photos, tmp_path):
    calls, told = [], []
    for jobs in (1, 0):
        with Gpu(kind) as gpu:
            out = tmp_path / str(jobs)
            found = restored(photos, out, session_of(kind), sharing=Sharing(jobs), tell=told.append)
            calls.append(sum(n for name, n in gpu.types.items() if name.startswith("convolution")))
        assert {report.status for report in found.values()} == {"done"}
        assert {one.name for one in told} == set(found)
        told.clear()
    assert difference(tmp_path / "0", tmp_path / "1") <= 1
    assert calls[1] < calls[0] / 1.7  # of two sizes, in different quarter turns
    assert record(tmp_path / "0", "a")["at_once"] == 5
    assert "at_once" not in record(tmp_path / "1", "a")


def test_a_photograph_that_fails_harms_no_other(photos, tmp_path, monkeypatch):
    (photos / "b.png").write_bytes(b"no picture")
    real = one.restore

    def fails_late(pixels, observed, options, *, prior, name, **more):
        if name == "c.png":
            prior.denoise(torch.zeros(1, 3, 32, 32, device="cuda"), 0.1)
            raise ZeroDivisionError("in the middle")
        return real(pixels, observed, options, prior=prior, name=name, **more)

    monkeypatch.setattr(one, "restore", fails_late)
    with Gpu("cuda"):
        found = restored(photos, tmp_path / "out", session_of("cuda"))
        alone = restored(photos, tmp_path / "alone", session_of("cuda"), sharing=Sharing(1))
    status = {name: report.status for name, report in found.items()}
    assert status == {name: report.status for name, report in alone.items()}
    assert {name for name, word in status.items() if word == "failed"} == {"b.png", "c.png"}
    assert "ZeroDivisionError" in found["c.png"].error
    assert difference(tmp_path / "out", tmp_path / "alone") <= 1


def test_a_picture_that_the_network_cannot_take_fails_alone(photos, tmp_path):
    class Picky:
        """Refuses what is not finite, as one question of a batch may be."""

        def __init__(self, prior):
            self.prior, self.traits, self.refused = prior, prior.traits, 0

        def denoise(self, x, sigma):
            if bool((x[:, 0, 0, 0] == 7).any()):
                self.refused += 1
                raise ValueError("a corner of 7")
            return self.prior.denoise(x, sigma)

    with Gpu("cuda"):
        picky = Picky(on_gpu.tiny_prior("cuda"))
        together = at_once.Together(picky)
        asked = [torch.zeros(1, 3, 24, 24, device="cuda") for _ in range(3)]
        asked[1][..., 0, 0] = 7
        came = {}

        def ask(place):
            try:
                came[place] = together.denoise(asked[place], 0.1)
            except ValueError as error:
                came[place] = error

        with together.at_work(ask, 3):
            pass
        assert [isinstance(came[k], ValueError) for k in range(3)] == [False, True, False]
        assert picky.refused == 2  # in the batch, and alone


def stopped_after(steps, name="a.png"):
    """A watch over all, and whether to stop: from the moment that one photograph has come so far."""
    seen = threading.Event()

    def tell(told):
        if told.name == name and told.progress.done >= steps:
            seen.set()

    return tell, seen.is_set


def test_ctrl_c_saves_every_photograph_and_resume_goes_on(photos, tmp_path):
    tell, stopping = stopped_after(2)
    with Gpu("cuda"):
        longer = {"iterations": 12, "burn_in": 6}
        session = session_of("cuda", **longer)
        found = restored(photos, tmp_path / "out", session, sharing=Sharing(3), tell=tell, stopping=stopping)
        status = [report.status for report in found.values()]
        assert status.count("interrupted") == 3
        assert status.count("left") == 2
        assert len(list((tmp_path / "out").glob("*.checkpoint.safetensors"))) == 3
        begun = [name[0] for name, report in found.items() if report.status == "interrupted"]
        assert all(2 <= record(tmp_path / "out", name)["iterations"] < 12 for name in begun)
        session = session_of("cuda", resume=True, **longer)
        assert {r.status for r in restored(photos, tmp_path / "out", session).values()} == {"done"}
        assert not list((tmp_path / "out").glob("*.checkpoint.safetensors"))
        restored(photos, tmp_path / "whole", session_of("cuda", **longer), sharing=Sharing(1))
    assert difference(tmp_path / "out", tmp_path / "whole") <= 1


def test_a_second_ctrl_c_ends_all_threads_and_keeps_what_was_drawn(photos, tmp_path):
    def tell(told):
        if told.progress.done >= 2:
            raise KeyboardInterrupt

    before = threading.active_count()
    with Gpu("cuda"):
        session = session_of("cuda", iterations=4000)
        with pytest.raises(KeyboardInterrupt):
            restored(photos, tmp_path / "out", session, tell=tell)
    assert threading.active_count() == before
    assert list((tmp_path / "out").glob("*.checkpoint.safetensors"))
    assert not list((tmp_path / "out").glob(".*.tmp"))


@every_kind
def test_a_batch_without_room_is_halved_and_said(kind, photos, tmp_path):
    room = 2 * 3 * 32 * 32 * 4 + 1000  # for two of the three photographs of a size
    with Gpu(kind, most=room):
        found = restored(photos, tmp_path / "out", session_of(kind))
        assert {report.status for report in found.values()} == {"done"}
    with Gpu(kind):
        restored(photos, tmp_path / "alone", session_of(kind), sharing=Sharing(1))
    notes = [text for report in found.values() for text in report.notes]
    assert any("out of memory: the network goes on with batches of" in text for text in notes)
    assert difference(tmp_path / "out", tmp_path / "alone") <= 1


def test_one_that_fits_only_alone_is_restored_alone(photos, tmp_path, monkeypatch):
    real, tries = one.restore, []

    def crowded(pixels, observed, options, *, name, **more):
        tries.append(name)
        if name == "c.png" and tries.count(name) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")
        return real(pixels, observed, options, name=name, **more)

    monkeypatch.setattr(one, "restore", crowded)
    with Gpu("cuda"):
        found = restored(photos, tmp_path / "out", session_of("cuda"))
    assert {report.status for report in found.values()} == {"done"}
    assert [at_once.ALONE in found[name].notes for name in sorted(found)] == [
        False,
        False,
        True,
        False,
        False,
    ]
    assert tries[-1] == "c.png"
    assert "at_once" not in record(tmp_path / "out", "c")


def test_only_small_photographs_go_together(photos, tmp_path, monkeypatch):
    jobs = plan_of(photos, tmp_path / "out").jobs
    (photos / "d.png").write_bytes(b"no picture")
    with Gpu("cuda"):
        for given in ({"time_budget": 60.0}, {"prior": "none"}, {"device": "cpu"}):
            assert not at_once.small(jobs, resolve({"device": "cuda", **given}))
        usual = resolve({"device": "cuda"})
        assert [job.name[0] for job in at_once.small(jobs, usual)] == ["a", "c", "e", "b"]
        monkeypatch.setattr(at_once, "SMALL", 32 * 32)
        assert not at_once.small(jobs, usual)  # one alone has no company
        monkeypatch.setattr(at_once, "SMALL", 32 * 32 + 1)
        few = at_once.small(jobs, usual)
        assert at_once.how_many(few, usual, 0) == 4
        assert at_once.how_many(few, usual, 2) == 2
        assert at_once.how_many(few, Options(device="cuda", memory_budget=2**26), 0) == 1


def test_the_command_restores_a_folder_at_once_and_skips_it_the_next_time(photos, tmp_path, capsys):
    words = ["denoise", str(photos), "-o", str(tmp_path / "out"), "--device", "cuda", "--json", "--quiet"]
    words += ["--iterations", "3", "--burn-in", "1", "--sigma", "0.1"]
    with Gpu("cuda"):
        assert app.run(words) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["done"] == 5
        assert record(tmp_path / "out", "a")["at_once"] == 5
        assert app.run(words) == 0
        assert json.loads(capsys.readouterr().out)["skipped"] == 5


def test_several_chains_of_several_photographs(photos, tmp_path):
    for jobs in (1, 0):
        with Gpu("cuda"):
            session = session_of("cuda", chains=2)
            found = restored(photos, tmp_path / str(jobs), session, sharing=Sharing(jobs))
            assert {report.status for report in found.values()} == {"done"}
    assert difference(tmp_path / "0", tmp_path / "1") <= 1


def test_on_the_processor_nothing_changes(photos, tmp_path):
    plan, session = plan_of(photos, tmp_path / "one"), session_of("cpu")
    [*run_here(plan.jobs, session, tell=lambda told: None, stopping=never)]
    restored(photos, tmp_path / "two", session, sharing=Sharing(1))
    for path in (tmp_path / "one").glob("*.png"):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
