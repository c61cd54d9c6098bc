"""A run that is interrupted goes on to the same result, bit for bit; a foreign checkpoint is refused."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from conftest import outputs, picture
from PIL import Image
from safetensors.torch import load_file, save_file
from sampling import Listener, config, damaged

from diffbcp_cli.cli.app import run
from diffbcp_cli.jobs.session import Resume, restore
from diffbcp_cli.photos import checkpoints
from diffbcp_cli.priors.gaussian import GaussianPrior

NAMES = ("photo.mean.png", "photo.std.tiff", "photo.samples.npz")
OPTIONS = ["--prior", "none", "--iterations", "12", "--burn-in", "5", "--rank", "6", "--save", "samples"]


@pytest.mark.parametrize("chains", [1, 2])
@pytest.mark.parametrize("with_prior", [False, True])
@pytest.mark.parametrize("after", [0, 3, 6, 11])
def test_a_run_taken_up_again_gives_the_same_bits(after, with_prior, chains):
    pixels, observed = damaged()
    prior = GaussianPrior(torch.zeros(()), torch.tensor(0.25)) if with_prior else None
    cfg = config(chains=chains)
    whole = restore(pixels, observed, cfg, prior=prior)
    saved = []
    first = restore(
        pixels, observed, cfg, prior=prior, watch=Listener(stop_after=after), resume=Resume(save=saved.append)
    )
    if chains == 1 and after >= 8 and not with_prior:  # with one the finish is still to come
        assert first.finished
        return
    assert not first.finished
    again = restore(pixels, observed, cfg, prior=prior, resume=Resume(saved[-1]))
    assert again.finished
    for name in ("mean", "std", "samples"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
    assert again.traces == whole.traces
    np.testing.assert_array_equal(again.maps["rhat"], whole.maps["rhat"])


@pytest.mark.parametrize("calls", [1, 20, 60])
def test_an_interruption_while_the_prior_finishes_keeps_the_draws(calls):
    pixels, observed = damaged()
    cfg, watch = config(calibrate=True), Listener()

    class Impatient(GaussianPrior):
        left = calls

        def denoise(self, x, sigma):
            if watch.heard and watch.heard[-1].stage == "refining":
                self.left -= 1
                if self.left == 0:
                    raise KeyboardInterrupt
            return super().denoise(x, sigma)

    exact = (torch.zeros(()), torch.tensor(0.25))
    whole = restore(pixels, observed, cfg, prior=GaussianPrior(*exact))
    saved = []
    resume = Resume(save=saved.append)
    first = restore(pixels, observed, cfg, prior=Impatient(*exact), watch=watch, resume=resume)
    assert not first.finished
    assert first.numbers["draws"] == cfg.iterations - cfg.burn_in
    assert np.isfinite(first.mean).all()
    shares = [progress.done for progress in watch.heard if progress.stage == "refining"]
    assert shares == sorted(shares)
    assert 0 <= shares[-1] <= 1
    again = restore(pixels, observed, cfg, prior=GaussianPrior(*exact), resume=Resume(saved[-1]))
    assert again.finished
    for name in ("mean", "std", "samples"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))


def test_an_interruption_in_the_middle_of_a_step_costs_that_step_only():
    pixels, observed = damaged()
    whole = restore(pixels, observed, config(), prior=None)
    saved = []

    class Interrupted(GaussianPrior):
        calls = 0

        def denoise(self, x, sigma):
            self.calls += 1
            if self.calls == 3:
                torch.randn(5)
                raise KeyboardInterrupt
            return super().denoise(x, sigma)

    gaussian = (torch.zeros(()), torch.tensor(0.25))
    whole = restore(pixels, observed, config(), prior=GaussianPrior(*gaussian))
    restore(pixels, observed, config(), prior=Interrupted(*gaussian), resume=Resume(save=saved.append))
    again = restore(pixels, observed, config(), prior=GaussianPrior(*gaussian), resume=Resume(saved[0]))
    np.testing.assert_array_equal(again.mean, whole.mean)


def test_checkpoints_come_as_often_as_asked():
    pixels, observed = damaged()
    saved = []
    restore(pixels, observed, config(checkpoint_every=1e-9), prior=None, resume=Resume(save=saved.append))
    assert len(saved) == 8  # after every draw but the last
    saved.clear()
    restore(pixels, observed, config(checkpoint_every=0.0), prior=None, resume=Resume(save=saved.append))
    assert saved == []


def arguments(photo, mask, out, *more):
    return ["inpaint", str(photo), "--mask", str(mask), "-o", str(out), *OPTIONS, "-q", *more]


def interrupt(photo, mask, out, monkeypatch, after=6):
    """Run and press Ctrl-C, through the real signal, once some iterations are done."""
    from diffbcp_cli.run.loop import Chains

    draw, count = Chains._draw, iter(range(after))

    def counting(self, line):
        if next(count, None) is None:
            os.kill(os.getpid(), signal.SIGINT)
        return draw(self, line)

    with monkeypatch.context() as patch:
        patch.setattr(Chains, "_draw", counting)
        return run(arguments(photo, mask, out))


def test_ctrl_c_saves_the_chain_and_resume_ends_as_if_nothing_had_happened(
    photo,
    mask,
    tmp_path,
    monkeypatch,
):
    assert run(arguments(photo, mask, tmp_path / "whole")) == 0
    out = tmp_path / "out"
    assert interrupt(photo, mask, out, monkeypatch) == 130
    record = json.loads((out / "photo.json").read_text())
    assert (record["finished"], record["iterations"]) == (False, 7)
    assert "photo.checkpoint.safetensors" in outputs(out)
    assert run(arguments(photo, mask, out, "--resume")) == 0
    assert outputs(out) == outputs(tmp_path / "whole")
    for name in NAMES:
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_resume_without_a_checkpoint_begins_at_the_start(photo, mask, tmp_path):
    assert run(arguments(photo, mask, tmp_path / "out", "--resume")) == 0


def break_it(path, how):
    data = path.read_bytes()
    if how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "noise":
        path.write_bytes(os.urandom(500))
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "foreign":
        save_file({"weight": torch.zeros(3)}, path)
    elif how == "version":
        tensors, plain = checkpoints.read(path)
        save_file(tensors, path, metadata={"diffbcp-run": json.dumps({**plain, "format": 99})})
    elif how == "nan":
        tensors, plain = checkpoints.read(path)
        checkpoints.write(
            path, {**tensors, "state.posterior.last": tensors["state.posterior.last"] * float("nan")}, plain
        )
    elif how == "missing part":
        tensors, plain = checkpoints.read(path)
        checkpoints.write(path, {k: v for k, v in tensors.items() if "weights" not in k}, plain)
    elif how == "wrong shape":
        tensors, plain = checkpoints.read(path)
        checkpoints.write(path, {**tensors, "state.lines.0.state.model.weights": torch.zeros(2)}, plain)


@pytest.mark.parametrize(
    "how", ["cut", "noise", "empty", "foreign", "version", "nan", "missing part", "wrong shape"]
)
def test_a_broken_checkpoint_is_refused_in_one_sentence(
    how,
    photo,
    mask,
    tmp_path,
    monkeypatch,
    capsys,
):
    out = tmp_path / "out"
    assert interrupt(photo, mask, out, monkeypatch) == 130
    break_it(out / "photo.checkpoint.safetensors", how)
    capsys.readouterr()
    assert run(arguments(photo, mask, out, "--resume")) == 3
    said = capsys.readouterr().err
    assert "checkpoint" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("change", [["--rank", "7"], ["--seed", "1"], ["--burn-in", "6"]])
def test_a_checkpoint_of_other_options_is_refused_and_the_difference_named(
    change,
    photo,
    mask,
    tmp_path,
    monkeypatch,
    capsys,
):
    out = tmp_path / "out"
    interrupt(photo, mask, out, monkeypatch)
    capsys.readouterr()
    assert run(arguments(photo, mask, out, "--resume", *change)) == 3
    assert change[0] in capsys.readouterr().err


def test_a_checkpoint_of_another_photograph_is_refused(photo, mask, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    interrupt(photo, mask, out, monkeypatch)
    Image.fromarray((picture(seed=5) * 255).astype(np.uint8)).save(photo)
    assert run(arguments(photo, mask, out, "--resume")) == 3
    assert "photograph" in capsys.readouterr().err


def test_more_iterations_may_be_asked_for_on_resume(photo, mask, tmp_path, monkeypatch):
    assert run([*arguments(photo, mask, tmp_path / "long"), "--iterations", "15"]) == 0
    out = tmp_path / "out"
    interrupt(photo, mask, out, monkeypatch)
    assert run([*arguments(photo, mask, out, "--resume"), "--iterations", "15"]) == 0
    assert (out / "photo.mean.png").read_bytes() == (tmp_path / "long" / "photo.mean.png").read_bytes()


def test_the_checkpoint_holds_no_code(photo, mask, tmp_path, monkeypatch):
    interrupt(photo, mask, tmp_path, monkeypatch)
    tensors = load_file(tmp_path / "photo.checkpoint.safetensors")
    assert {"state.lines.0.rng", "state.lines.0.state.model.weights", "state.posterior.last"} <= set(tensors)


@pytest.mark.slow
def test_kills_at_any_moment_lose_nothing(photo, mask, tmp_path):
    """SIGKILL a real run again and again, always with --resume: it ends with the bytes of a run left alone."""
    command = [sys.executable, "-m", "diffbcp_cli", *arguments(photo, mask, tmp_path / "out", "--resume")]
    command += ["--iterations", "60", "--checkpoint-every", "0.05"]
    alone = [*arguments(photo, mask, tmp_path / "whole"), "--iterations", "60"]
    assert run(alone) == 0
    rng = random.Random(0)
    for _ in range(4):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        time.sleep(rng.uniform(1.5, 5.0))
        process.kill()
        process.wait()
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    for name in NAMES:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    left = {p.name for p in (tmp_path / "out").iterdir()}
    assert left == {p.name for p in (tmp_path / "whole").iterdir()}


def test_what_a_kill_in_the_middle_of_a_checkpoint_leaves_is_removed(photo, mask, tmp_path):
    room = tmp_path / "out" / ".photo.checkpoint.safetensors.0123abcd.tmp"
    room.mkdir(parents=True)
    (room / ".tmpXYZ").write_bytes(b"half")
    assert run(arguments(photo, mask, tmp_path / "out", "--checkpoint-every", "0.001")) == 0
    assert not [name for name in outputs(tmp_path / "out") if name.startswith(".")]


def test_a_run_within_a_time_budget_keeps_the_length_that_it_chose():
    pixels, observed = damaged()
    cfg, saved = config(iterations=4000, burn_in=1600, time_budget=0.001, save=("mean",)), []
    first = restore(
        pixels, observed, cfg, prior=None, watch=Listener(stop_after=2), resume=Resume(save=saved.append)
    )
    assert not first.finished
    again = restore(pixels, observed, cfg, prior=None, resume=Resume(saved[-1]))
    assert again.finished
    assert again.options.iterations == first.options.iterations == len(again.trace.rank) < 10


LIMITED = """
import resource, signal, sys
from diffbcp_cli.cli.app import run
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))  # results fit, checkpoints do not
sys.exit(run(sys.argv[1:]))
"""


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run(tmp_path):
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 255, (96, 96, 3), np.uint8)).save(tmp_path / "photo.png")
    options = ["--prior", "none", "--iterations", "5", "--burn-in", "2", "--rank", "6"]
    command = ["denoise", str(tmp_path / "photo.png"), "-o", str(tmp_path), "--checkpoint-every", "0.001s"]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *command, *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "could not be resumed" in done.stderr.replace("\n", " ")
    assert outputs(tmp_path) == {
        "photo.png",
        "photo.mean.png",
        "photo.std.tiff",
        "photo.std.png",
        "photo.json",
    }
