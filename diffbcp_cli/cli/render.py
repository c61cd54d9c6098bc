"""Output: results go to stdout, progress and notes to stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.table import Table

from ..errors import DiffbcpError
from ..watch import Progress, Watch
from .voice import Pace, voice

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def printable(text: str) -> str:
    """Escape control characters and broken bytes in a file name, so that they can be shown."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def note(text: str, *, shown: bool = True) -> None:
    """Print a note; shown: False only logs it."""
    if voice.say("note", text, shown=shown):
        err.print(f"[dim]{escape(printable(text))}[/dim]")


def answer(text: str) -> None:
    """Print a note that even --quiet does not hide: it says why nothing was done, or what a key has done."""
    if voice.say("answer", text):
        err.print(f"[dim]{escape(printable(text))}[/dim]")


def detail(text: str) -> None:
    """Print what only --verbose asks for."""
    if voice.say("detail", text):
        err.print(f"[dim]{escape(printable(text))}[/dim]")


def warn(text: str, *, shown: bool = True) -> None:
    """Print a warning; shown: False only logs it."""
    if voice.say("warning", text, shown=shown):
        err.print(f"[yellow]warning:[/yellow] {escape(printable(text))}")


def failure(error: DiffbcpError, *, about: Path | str | None = None) -> None:
    """Print what went wrong and what to do next. about: the file, if the message does not name it."""
    more: dict[str, Any] = {
        "hint": error.hint,
        "about": None if about is None else str(about),
        "exit_code": error.exit_code,
    }
    if not voice.say("error", error.message, **more):
        return
    named = about is None or Path(about).name in error.message
    where = "" if named else f"{escape(printable(str(about)))}: "
    err.print(f"[bold red]error:[/bold red] {where}{escape(printable(error.message))}")
    if error.hint:
        err.print(f"  [cyan]try:[/cyan] {escape(printable(error.hint))}")


def path(written: Path | str) -> None:
    """Print the path of a written file for scripts, byte for byte."""
    sys.stdout.flush()
    sys.stdout.buffer.write(os.fsencode(f"{written}\n"))
    sys.stdout.buffer.flush()


def as_json(value: Any) -> None:
    """Print a result as JSON."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


_NUMBERS = {"noise_std": "noise {:.4f}", "active_rank": "rank {:g}"}  # of a step, as the bar shows them


class Bar(Watch):
    """The watch over one photograph: iterations, inferred noise, active rank, time left; notes and warnings."""

    def __init__(self, name: str, stop: Callable[[], bool], *, quiet: bool, bars: bool = True) -> None:
        self.name, self.stop, self.quiet, self.bars = name, stop, quiet, bars
        self.stage, self.bar, self.task = "", RichProgress(disable=True), TaskID(0)
        self.pace = Pace()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.bar.stop()

    def note(self, text: str) -> None:
        """Say something in passing."""
        note(text, shown=not self.quiet)

    def warn(self, text: str) -> None:
        """Say something that the user should look at."""
        warn(text, shown=not self.quiet)

    def progress(self, progress: Progress) -> None:
        """Show how far the run is; every stage has a bar of its own."""
        if voice.log is not None and progress.stage not in (self.stage, ""):
            voice.say("stage", f"{self.name}: {progress.stage}", shown=False)
        if self.quiet or not self.bars:
            self.stage = progress.stage
            if voice.lines and not self.quiet:
                self.pace.tell(self.name, progress)
            return
        if progress.stage != self.stage:
            self._begin(progress)
        numbers = "  ".join(
            form.format(progress.numbers[name]) for name, form in _NUMBERS.items() if name in progress.numbers
        )
        self.bar.update(self.task, completed=progress.done, total=progress.total, numbers=numbers)

    def _begin(self, progress: Progress) -> None:
        """Go over to another stage. That of the sampling has a bar of its own, the others share one."""
        shown = self.name if progress.stage == "sampling" else f"{self.name}, {progress.stage}"
        shown, shared = (
            escape(printable(shown)),
            "sampling" not in (self.stage, progress.stage) and self.stage,
        )
        self.stage = progress.stage
        if shared:
            self.bar.update(self.task, description=shown, total=progress.total)
            return
        self.bar.stop()
        self.bar = _bar_of(progress.stage)
        self.task = self.bar.add_task(shown, total=progress.total, numbers="")
        self.bar.start()

    def cancelled(self) -> bool:
        """Whether the user has asked to stop."""
        return self.stop()


def _bar_of(stage: str) -> RichProgress:
    """The bar of one stage; that of the sampling stays on the screen."""
    columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn(bar_width=None)]
    if stage != "sampling":
        hidden = not err.is_terminal  # it would leave an empty line there
        return RichProgress(*columns, TimeRemainingColumn(), console=err, transient=True, disable=hidden)
    columns += [MofNCompleteColumn(), TextColumn("{task.fields[numbers]}")]
    return RichProgress(*columns, TimeRemainingColumn(elapsed_when_finished=True), console=err)


def summary(record: dict[str, Any]) -> None:
    """Show a short table of one result; what the method does not give is left out."""
    table = Table(show_header=False, box=None, pad_edge=False)
    width, height, channels = record["size"]
    table.add_row("size", f"{width} x {height}, {'grey' if channels == 1 else 'RGB'}, {record['depth']}")
    if stack := record.get("stack"):
        table.add_row("pictures", str(len(stack["pages"])))
    table.add_row("filled", f"{100 * record['missing_share']:.1f} %")
    if noise := record.get("noise"):
        by_prior = ", by the prior; the bar shows that of the draws"
        source = by_prior if record.get("noise_source") == "prior" else ""
        interval = f"(90 %: {noise['lower']:.4f} to {noise['upper']:.4f})"
        table.add_row("noise", f"{noise['std']:.4f}  {interval}{source}")
    if rank := record.get("rank"):
        table.add_row("rank", f"{rank['active']} active of {rank['last']}")
    if record.get("mean_std") is not None:
        table.add_row("mean uncertainty", f"{record['mean_std']:.4f}")
    if calibration := record.get("calibration"):
        table.add_row("calibrated", f"uncertainty times {calibration['factor']:.2f}, by held-out pixels")
    table.add_row("time", f"{record['seconds']:.1f} s, {_counted(record['iterations'])}")
    if not record["finished"]:
        drawn = f"{record['draws']} draws were saved; " if "draws" in record else ""
        table.add_row("[yellow]interrupted[/yellow]", f"{drawn}--resume goes on")
    err.print(table)


def _counted(iterations: int | None) -> str:
    return f"{iterations} iteration{'' if iterations == 1 else 's'}"


def clock(seconds: float) -> str:
    """Write a time as m:ss, or h:mm:ss from an hour on."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def facts(found: dict[str, Any]) -> None:
    """Show names and values, one per line, nested ones indented."""
    rows: list[tuple[str, str]] = []
    for name, value in found.items():
        if isinstance(value, dict):
            rows += [(name, ""), *((f"  {inner}", str(what)) for inner, what in value.items())]
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            rows.append((name.replace("_", " "), shown or "none"))
    widest = max(len(name) for name, _ in rows)
    for name, shown in rows:  # not a table, which would cut paths
        out.print(f"{name:{widest}}  {escape(printable(shown))}")
