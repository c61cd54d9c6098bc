"""Large photographs: windows without seams, and memory that stays within its budget."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from sampling import Listener

from diffbcp_cli.errors import InputError
from diffbcp_cli.jobs.session import Resume, restore
from diffbcp_cli.methods import cp_step
from diffbcp_cli.options import Options
from diffbcp_cli.priors.gaussian import GaussianPrior
from diffbcp_cli.priors.sizes import Fitted
from diffbcp_cli.run.blend import Blend, RoughGuess, Window, windows
from diffbcp_cli.run.memory import window_side, windows_need, working_set

SHORT = Options(prior="none", iterations=6, burn_in=3, rank=8, window=64)


def photograph(height, width, share=0.5, seed=0):
    """Smooth colours with a little noise, and a mask of whole pixels."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width] / 15
    waves = np.stack([np.sin(x + c) * np.cos(y - c) for c in range(3)], -1)
    noisy = 0.5 + 0.3 * waves + 0.01 * rng.standard_normal(waves.shape)
    observed = np.repeat(rng.random((height, width, 1)) < share, 3, axis=2)
    return noisy.astype(np.float32), observed


@pytest.mark.parametrize(("height", "width", "side"), [(100, 240, 64), (97, 130, 80), (300, 90, 100)])
def test_windows_cover_the_picture_and_their_shares_sum_to_one(height, width, side):
    total = np.zeros((height, width, 1))
    for index, window in enumerate(windows(height, width, side)):
        assert window.index == index
        assert window.share.shape[0] <= side
        assert window.share.shape[1] <= side
        total[window.rows, window.columns] += window.share
    np.testing.assert_allclose(total, 1, atol=1e-5)


def test_a_difference_between_windows_is_spread_without_a_step():
    blend = Blend((64, 200, 3))
    for window in windows(64, 200, 128):
        level = np.full((64, window.share.shape[1], 3), float(window.index), np.float32)
        blend.add(window, level, level + 1)
    mean, std = blend.result()
    assert (mean[0, 0, 0], mean[0, -1, 0]) == (0.0, 1.0)
    assert (std[0, 0, 0], std[0, -1, 0]) == (1.0, 2.0)
    for values in (mean, std):
        steps = np.diff(values[:, :, 0], axis=1)
        assert steps.min() >= 0
        assert steps.max() < 0.12


def test_a_picture_restored_in_windows_has_no_seams():
    pixels, observed = photograph(100, 150)
    found = restore(pixels, observed, replace(SHORT, iterations=12, burn_in=6), prior=None)
    assert found.finished
    assert found.mean.shape == found.std.shape == pixels.shape
    assert (found.std > 0).all()
    error = np.abs(found.mean - pixels).mean((0, 2))
    assert error.max() < 4 * np.median(error)
    assert np.median(error) < 0.03


def keeper():
    """A list of checkpoints as they would be read back from a file, and what to save them with."""
    saved = []

    def keep(snapshot):
        tensors, plain = snapshot
        saved.append(({k: v.clone() for k, v in tensors.items()}, json.loads(json.dumps(plain))))

    return saved, keep


def opened(plain):
    """How many windows a checkpoint has, and the one under way."""
    state = plain["run"]["dict"]
    return state["done"], state["running"]


@pytest.mark.parametrize("prior", [None, GaussianPrior(torch.zeros(()), torch.tensor(0.2))])
def test_windows_resume_from_those_that_are_done(prior):
    pixels, observed = photograph(70, 150)
    cfg = replace(SHORT, iterations=12, burn_in=3, checkpoint_every=1e-6)  # enough draws for R-hat
    saved, keep = keeper()
    whole = restore(pixels, observed, cfg, prior=prior, resume=Resume(save=keep))
    assert {opened(plain)[0] for _, plain in saved} == {*range(6)}
    assert [plain["steps"] for _, plain in saved[:12]] == [*range(1, 12), 12]
    assert "rhat" in whole.maps
    assert whole.numbers["noise_source"] == ("chain" if prior is None else "prior")
    between = [start for start in saved if opened(start[1])[1] is None]
    for start in [*between, saved[5], saved[30]]:
        watch = Listener()
        again = restore(pixels, observed, cfg, prior=prior, watch=watch, resume=Resume(start))
        assert len(watch.notes) == 6 - opened(start[1])[0]
        assert np.array_equal(again.mean, whole.mean)
        assert np.array_equal(again.std, whole.std)
        assert again.traces == whole.traces
        assert again.noise == whole.noise
        assert again.numbers == whole.numbers


def test_an_interrupted_picture_shows_what_is_done():
    pixels, observed = photograph(70, 150)
    saved, watch = [], Listener(stop_after=8)  # in the second window
    found = restore(pixels, observed, SHORT, prior=None, watch=watch, resume=Resume(save=saved.append))
    assert not found.finished
    assert [opened(plain)[0] for _, plain in saved] == [1]
    assert saved[0][1]["steps"] == 6 + 3  # and where the second stands
    assert np.abs(found.mean - pixels)[:, :50].mean() < 0.2
    last = np.s_[:, -10:]
    assert np.array_equal(found.mean[last], np.where(observed, pixels, np.float32(0.5))[last])


def test_windows_that_are_done_are_not_lost_when_the_next_one_has_no_draw_yet(monkeypatch):
    pixels, observed = photograph(70, 150)
    saved, begun, start = [], [], cp_step.LowRank.init

    def interrupted(self, *, rng):
        begun.append(self)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return start(self, rng=rng)

    monkeypatch.setattr(cp_step.LowRank, "init", interrupted)
    with pytest.raises(KeyboardInterrupt):
        restore(pixels, observed, SHORT, prior=None, resume=Resume(save=saved.append))
    assert [opened(plain)[0] for _, plain in saved] == [2]


def test_a_checkpoint_of_windows_waits_for_its_time():
    pixels, observed = photograph(70, 150)
    for every, between in ((0.0, 0), (3600.0, 0), (1e-6, len(list(windows(70, 150, 64))) - 1)):
        saved = []
        cfg = replace(SHORT, checkpoint_every=every)
        restore(pixels, observed, cfg, prior=None, resume=Resume(save=saved.append))
        assert sum(opened(plain)[1] is None for _, plain in saved) == between
        within = (
            (SHORT.iterations - 1) * (between + 1) if between else 0
        )  # after each step but a window's last
        assert len(saved) == between + within


def test_a_picture_that_fits_is_not_cut():
    assert window_side(Options(), 2048, 2048, 3) is None
    assert window_side(Options(window=600), 2048, 500, 3) == 600
    assert window_side(Options(window=600), 600, 500, 3) is None


@pytest.mark.parametrize("budget", [2, 4, 16])
def test_windows_fit_the_budget_whatever_the_picture(budget):
    cfg = Options(memory_budget=budget * 2**30, rank=100)
    for height, width in ((3000, 4000), (8192, 8192)):
        side = window_side(cfg, height, width, 3)
        if side is None:
            assert working_set(cfg, height, width, 3) <= cfg.memory_budget
        elif side > 512:
            assert windows_need(cfg, side, height, width, 3) <= cfg.memory_budget
        else:  # none smaller: a run says that it takes more
            assert windows_need(cfg, side + 256, height, width, 3) > cfg.memory_budget


def test_a_budget_too_small_for_any_window_is_said():
    pixels, observed = photograph(530, 520)
    watch = Listener()
    cfg = replace(SHORT, iterations=1, burn_in=0, rank=3, window=0, memory_budget=64 * 2**20)
    restore(pixels, observed, cfg, prior=None, watch=watch)
    assert "the smallest possible, in windows of 512 pixels" in watch.notes[0]
    assert "more than the budget of 0.06 GiB" in watch.notes[0]


def test_windows_after_an_interruption_in_the_first_one_with_chains():
    """Windows without a known pixel come first, and have no chain to speak of."""
    pixels, observed = photograph(62, 200)
    observed[:, :90] = False
    saved, keep = keeper()
    whole = restore(pixels, observed, SHORT, prior=None)
    watch = Listener(stop_after=2)
    found = restore(pixels, observed, SHORT, prior=None, watch=watch, resume=Resume(save=keep))
    assert not found.finished
    assert opened(saved[-1][1])[0] > 0
    again = restore(pixels, observed, SHORT, prior=None, resume=Resume(saved[-1]))
    assert np.array_equal(again.mean, whole.mean)
    assert np.array_equal(again.std, whole.std)


def test_known_pixels_of_windows_are_kept_to_the_bit_even_if_asked_for_later():
    pixels, observed = photograph(70, 150)
    saved, keep = keeper()
    restore(pixels, observed, replace(SHORT, checkpoint_every=1e-6), prior=None, resume=Resume(save=keep))
    cfg = replace(SHORT, observed="keep")
    found = restore(pixels, observed, cfg, prior=None, resume=Resume(saved[-1]))
    assert np.array_equal(found.mean[observed], pixels[observed])
    assert not found.std[observed].any()
    assert (found.std[~observed] > 0).all()


def test_windows_do_not_go_on_with_another_number_of_iterations():
    pixels, observed = photograph(70, 150)
    saved, keep = keeper()
    restore(pixels, observed, replace(SHORT, checkpoint_every=1e-6), prior=None, resume=Resume(save=keep))
    longer = replace(SHORT, iterations=9)
    with pytest.raises(InputError, match="had 6 iterations"):
        restore(pixels, observed, longer, prior=None, resume=Resume(saved[-1]))


def test_a_time_budget_gives_all_windows_as_many_iterations_and_can_be_made_again():
    pixels, observed = photograph(70, 150)
    cfg = replace(SHORT, iterations=4000, burn_in=400, time_budget=3.0)
    found = restore(pixels, observed, cfg, prior=None)
    assert found.options.time_budget is None
    assert {len(trace.rank) for trace in found.traces} == {found.options.iterations}
    assert found.options.iterations < 4000
    again = restore(pixels, observed, found.options, prior=None)
    assert np.array_equal(again.mean, found.mean)


def test_the_mean_of_the_priors_image_is_put_together_from_windows():
    pixels, observed = photograph(62, 150)
    observed[:, :90] = False
    exact = GaussianPrior(torch.zeros(()), torch.tensor(0.2))
    cfg = replace(SHORT, prior="natural", save=("mean", "prior"), finish=0)
    saved, keep = keeper()
    found = restore(pixels, observed, cfg, prior=exact)
    assert np.abs(found.maps["prior"] - pixels)[:, -40:].mean() < 0.3
    assert found.maps["prior"].std() > 0.02
    restore(pixels, observed, replace(cfg, checkpoint_every=1e-6), prior=exact, resume=Resume(save=keep))
    again = restore(pixels, observed, cfg, prior=exact, resume=Resume(saved[-1]))
    assert np.array_equal(again.maps["prior"], found.maps["prior"])
    tensors, plain = saved[-1]
    plain["run"]["dict"]["prior"] = None
    with pytest.raises(InputError, match="--save prior"):
        restore(pixels, observed, cfg, prior=exact, resume=Resume((tensors, plain)))


MEASURE = """
import sys
from pathlib import Path
import numpy as np
from diffbcp_cli.jobs.session import Resume, restore
from diffbcp_cli.methods import cp_step
from diffbcp_cli.options import Options
side, budget = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
pixels = rng.random((side, side, 3), np.float32)
observed = np.repeat(rng.random((side, side, 1)) < 0.1, 3, axis=2)
cfg = Options(prior="none", iterations=2, burn_in=1, rank=25, memory_budget=budget, atom_patches=500)
restore(pixels, observed, cfg, prior=None)
status = Path("/proc/self/status").read_text()  # ru_maxrss begins at that of the process that started this one
print(int(status.split("VmHWM:")[1].split()[0]) * 1024)
"""


@pytest.mark.slow
def test_memory_stays_within_the_budget():
    """That of the whole process, with all that it has imported."""
    budget = 800 * 2**20
    assert window_side(Options(prior="none", rank=25, memory_budget=budget), 1200, 1200, 3) is not None
    command = [sys.executable, "-c", MEASURE, "1200", str(budget)]
    taken = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert 0.5 * budget < taken < 1.15 * budget


def test_results_that_windows_cannot_give_are_announced_as_left_out():
    pixels = np.random.default_rng(0).random((80, 80, 1)).astype(np.float32)
    cfg = Options(
        prior="none", window=64, iterations=2, burn_in=1, rank=3, save=("mean", "samples"), device="cpu"
    )
    watch = Listener()
    restore(pixels, np.ones(pixels.shape, bool), cfg, prior=None, watch=watch)
    assert any("--save samples" in note for note in watch.notes)


def test_calibrations_of_windows_are_pooled():
    pixels, observed = photograph(62, 150)
    cfg = replace(SHORT, calibrate=True, checkpoint_every=1e-6)
    saved, keep = keeper()
    found = restore(pixels, observed, cfg, prior=None, resume=Resume(save=keep))
    calibration, parts = found.numbers["calibration"], saved[-1][1]["run"]["dict"]["past"]["dict"]["parts"]
    done = [part["dict"]["numbers"]["dict"]["calibration"]["dict"]["held_out"] for part in parts]
    assert len(done) >= 2
    assert 0 < calibration["held_out"] - sum(done) < 0.6 * calibration["held_out"]
    assert 0.8 < calibration["held_out_coverage"][2] < 1
    again = restore(pixels, observed, cfg, prior=None, resume=Resume(saved[-1]))
    assert again.numbers["calibration"] == calibration


@pytest.mark.parametrize("calibrate", [False, True])
def test_a_window_in_which_nothing_is_known_is_filled_with_averages(calibrate):
    pixels, observed = photograph(62, 200)
    observed[:, :150] = False
    observed[0, 70, 0] = True  # one entry is too little to calibrate by
    watch = Listener()
    cfg = replace(SHORT, calibrate=calibrate)
    found = restore(pixels, observed, cfg, prior=None, watch=watch)
    notes = watch.notes
    assert found.finished
    assert np.isfinite(found.mean).all()
    assert sum("nothing is known" in note for note in notes) == 1
    assert ("too little is known" in " ".join(notes)) == calibrate
    known = pixels[observed]
    assert np.abs(found.mean[:, :30] - known.mean()).max() < 4 * known.std()
    assert found.std[:, :30].min() > 0.5 * known.std() / np.sqrt(3)


def test_a_rough_guess_is_the_average_around():
    pixels, observed = photograph(700, 1100, share=0.2)
    observed[100:400, 300:700] = False
    guess = RoughGuess(pixels, observed)
    whole = Window(0, slice(0, 700), slice(0, 1100), np.ones((700, 1100, 1), np.float32))
    mean, std = guess.of(whole)
    assert np.sqrt(np.square(mean - pixels)[observed].mean()) < 0.1  # averages over 3 x 3 pixels
    part = Window(0, slice(40, 90), slice(500, 601), np.ones((50, 101, 1), np.float32))
    assert np.array_equal(guess.of(part)[0], mean[40:90, 500:601])
    assert abs(float(std[0, 0, 0]) - pixels[observed].std()) < 0.05


def test_a_budget_for_a_large_picture_learns_atoms_once(monkeypatch):
    pixels, observed = photograph(80, 80)
    learned = []
    plain = cp_step.learn_atoms
    monkeypatch.setattr(
        cp_step, "learn_atoms", lambda *given, **named: learned.append(1) or plain(*given, **named)
    )
    cfg = Options(prior="none", iterations=6, burn_in=3, rank=8, atom_patches=20)
    free = restore(pixels, observed, cfg, prior=None)
    assert len(learned) == 1
    watch = Listener()
    held = restore(pixels, observed, replace(cfg, time_budget=600.0), prior=None, watch=watch)
    assert len(learned) == 2
    assert np.array_equal(free.mean, held.mean)
    assert "overrun" not in " ".join(watch.notes)
    restore(pixels, observed, replace(cfg, time_budget=1e-3), prior=None, watch=watch)
    assert "overrun" in watch.notes[-1]


def test_a_prior_that_sees_a_smaller_copy_does_not_refine():
    pixels, observed = photograph(96, 96)
    exact = GaussianPrior(torch.zeros(()), torch.tensor(0.2))
    cfg = Options(sampler="split-gibbs", iterations=6, burn_in=3, rank=8, finish=4)
    assert restore(pixels, observed, cfg, prior=Fitted(exact, size=96)).numbers["finish_level"]
    assert restore(pixels, observed, cfg, prior=Fitted(exact, size=48)).numbers["finish_level"] is None
