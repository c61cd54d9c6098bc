"""What people see: stdout carries results, stderr carries progress and talk."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from ..errors import DiffbcpError

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def note(text: str) -> None:
    """Say something in passing."""
    err.print(f"[dim]{escape(text)}[/dim]")


def warn(text: str) -> None:
    """Say something that the user should look at."""
    err.print(f"[yellow]warning:[/yellow] {escape(text)}")


def failure(error: DiffbcpError, *, about: Path | str | None = None) -> None:
    """Say what went wrong and what to do next."""
    where = f"{escape(str(about))}: " if about is not None else ""
    err.print(f"[bold red]error:[/bold red] {where}{escape(error.message)}")
    if error.hint:
        err.print(f"  [cyan]try:[/cyan] {escape(error.hint)}")


def path(written: Path) -> None:
    """Print one written file, bare, for scripts."""
    sys.stdout.write(f"{written}\n")


def as_json(value: Any) -> None:
    """Print a result as JSON."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")
