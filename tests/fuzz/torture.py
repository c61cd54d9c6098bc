"""SIGKILL, Ctrl-C and full disks at random moments of real runs; `make torture` prints a row for each kind.

After each of them the command is typed once more with --resume: the results must then have the bytes of a run that
nobody disturbed, and nothing else may be left in the folder. The full disks need the right to mount a tmpfs.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

SAVE = "mean,std,samples,interval"
KINDS = ("json", "lower.png", "mean.png", "samples.npz", "std.png", "std.tiff", "upper.png")
OPTIONS = ["--prior", "none", "--rank", "6", "--threads", "1", "--burn-in", "2", "--checkpoint-every", "0.05"]
Table = Counter[str]
ALWAYS = ("tracebacks", "hangs", "leftovers", "missing files", "other bytes", "could not go on")
BAD = (*ALWAYS, "partial outputs", "not said")


def photographs(folder: Path, count: int) -> list[str]:
    """Write small pictures; return their stems."""
    folder.mkdir()
    for number in range(count):
        pixels = np.random.default_rng(number).integers(0, 256, (64, 64, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return [str(number) for number in range(count)]


def command(photos: Path, out: Path, *more: str) -> list[str]:
    """The command line of one run."""
    words = ["denoise", str(photos), "-o", str(out), "--save", SAVE, "--quiet", *OPTIONS, *more]
    return [sys.executable, "-m", "diffbcp_cli", *words]


def begin(words: list[str]) -> subprocess.Popen[bytes]:
    """Start it as the leader of a group of processes, as a terminal does."""
    return subprocess.Popen(words, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def contents(out: Path) -> dict[str, bytes]:
    """Every file by name; of records all but times, places and memory."""
    found = {}
    for path in out.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        if path.suffix == ".json" and not path.name.startswith("summary"):
            record = json.loads(data)
            for key in ("seconds", "photo", "given", "peak_memory"):
                record.pop(key)
            data = json.dumps(record, sort_keys=True).encode()
        found[path.name] = data
    return {name: data for name, data in found.items() if not name.startswith("summary")}


def show(name: str, table: Table) -> None:
    """Print the row of a driver as far as it is."""
    rows = {**dict.fromkeys(ALWAYS, 0), **table}
    print(
        f"{name}: " + ", ".join(f"{value} {key}" for key, value in rows.items()), file=sys.stderr, flush=True
    )


def judge(table: Table, out: Path, expected: dict[str, bytes]) -> None:
    """Compare a finished folder with that of the undisturbed run."""
    found = contents(out)
    table["leftovers"] += len(found.keys() - expected.keys())
    table["missing files"] += len(expected.keys() - found.keys())
    table["other bytes"] += sum(found[name] != expected[name] for name in found.keys() & expected.keys())


def heard(table: Table, process: subprocess.Popen[bytes], limit: float = 900) -> str:
    """Wait for the end, and count what must not be in what was said."""
    try:
        _, said = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        table["hangs"] += 1
        os.killpg(process.pid, signal.SIGKILL)
        _, said = process.communicate()
    table["tracebacks"] += said.count(b"Traceback") + said.count(b"Exception ignored")
    return said.decode(errors="replace")


def finish(table: Table, words: list[str]) -> None:
    """Run to the end; anything but success is counted."""
    process = begin(words)
    said = heard(table, process)
    if process.returncode != 0:
        table["could not go on"] += 1
        print("could not go on:", process.returncode, said, file=sys.stderr)


def undisturbed(photos: Path, out: Path, *more: str) -> tuple[dict[str, bytes], float]:
    """The results of a quiet run, and the seconds that it took."""
    began = time.monotonic()
    subprocess.run(command(photos, out, *more), check=True, stdout=subprocess.DEVNULL)
    return contents(out), time.monotonic() - began


def kills(place: Path, count: int, rng: np.random.Generator) -> Table:
    """SIGKILL one run over and over, each time going on with --resume; begin anew when it has finished."""
    photographs(place / "photos", 1)
    photo, more = place / "photos" / "0.png", ("--iterations", "150")
    expected, seconds = undisturbed(photo, place / "quiet", *more)
    table, out, turn = Table(), place / "out", 0
    while table["tried"] < count:
        began = time.monotonic()
        process = begin(command(photo, out, *more, "--resume"))
        try:
            process.wait(float(rng.uniform(0.3, 1.0) * seconds))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            table["tried"] += 1
        else:
            table["finished between"] += process.returncode == 0
            seconds = min(seconds, time.monotonic() - began)  # a run on a machine that has become less busy
            table["could not go on"] += process.returncode != 0
        if process.stderr is not None:
            process.stderr.close()
        show("SIGKILL", table)
        if process.returncode == 0 or table["tried"] == count:
            finish(table, command(photo, out, *more, "--resume"))
            judge(table, out, expected)
            turn += 1
            out = place / f"out{turn}"
    table["runs compared"] = turn
    return table


def stops(place: Path, count: int, rng: np.random.Generator) -> Table:
    """Ctrl-C to all processes of a batch with two workers, then --resume to the end."""
    photographs(place / "photos", 4)
    more = ("--iterations", "60", "--jobs", "2")
    expected, seconds = undisturbed(place / "photos", place / "quiet", *more)
    table = Table()
    for number in range(count):
        table["tried"] += 1
        out = place / f"out{number}"
        process = begin(command(place / "photos", out, *more))
        time.sleep(float(rng.uniform(0.02, 1.0) * seconds))
        os.killpg(process.pid, signal.SIGINT)
        heard(table, process)
        table[f"exit {process.returncode}"] += 1
        left = [path for path in out.rglob("*") if path.suffix in (".tmp", ".lock", ".stop")]
        table["leftovers"] += len(left)
        finish(table, command(place / "photos", out, *more, "--resume"))
        judge(table, out, expected)
        show("Ctrl-C", table)
    return table


def disks(place: Path, count: int, rng: np.random.Generator) -> Table:
    """A disk that is full somewhere in a batch, then the same command with room enough."""
    stems = photographs(place / "photos", 4)
    more = ("--iterations", "6", "--checkpoint-every", "0")
    expected, _ = undisturbed(place / "photos", place / "quiet", *more)
    need = sum(len(data) for data in expected.values())
    table, disk = Table(), place / "disk"
    disk.mkdir()
    for number in range(count):
        table["tried"] += 1
        size = f"size={int(rng.uniform(0.02, 1.1) * need)}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(disk)], check=True)
        try:
            process = begin(command(place / "photos", disk, *more, "--jobs", str(1 + number % 2)))
            said = heard(table, process)
            table[f"exit {process.returncode}"] += 1
            table["not said"] += process.returncode != 0 and "no space left" not in said.lower()
            names = set(contents(disk))
            table["leftovers"] += sum(name.endswith((".tmp", ".lock")) for name in names)
            for stem in stems:  # all of a result, or nothing of it
                there = {kind for kind in KINDS if f"{stem}.{kind}" in names}
                table["partial outputs"] += bool(there) and there != set(KINDS)
            subprocess.run(["mount", "-o", "remount,size=100m", str(disk)], check=True)
            finish(table, command(place / "photos", disk, *more, "--resume"))
            judge(table, disk, expected)
            show("full disk", table)
        finally:
            subprocess.run(["umount", str(disk)], check=True)
    return table


DRIVERS: dict[str, tuple[Callable[[Path, int, np.random.Generator], Table], int]] = {
    "SIGKILL": (kills, 100),
    "Ctrl-C": (stops, 30),
    "full disk": (disks, 20),
}


def main() -> int:
    """Run the drivers that were asked for; 1 if any of them found something."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(DRIVERS)}; all by default")
    parser.add_argument("--count", type=int, help="how often, instead of 100, 30 and 20")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    bad = 0
    for name in asked.names or DRIVERS:
        drive, usual = DRIVERS[name]
        with tempfile.TemporaryDirectory() as place:
            table = drive(Path(place), asked.count or usual, np.random.default_rng(asked.seed))
        show(name, table)
        bad += sum(table[key] for key in BAD)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
