"""The command `diffbcp`: its sub-commands, and how every failure ends.

Nothing here or in its sibling modules imports torch at the top: `--help` and `--version` stay instant.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from .. import __version__
from ..errors import DiffbcpError, InputError, MemoryLimitError, UsageError
from . import mask, mask_change, methods, models, render, streams, voice
from .compare import compare
from .doctor import doctor
from .help import Help, ShortHelp
from .mask_detect import detect
from .open import open_page
from .restore import denoise, inpaint
from .score import evaluate
from .train import train

app = typer.Typer(
    name="diffbcp",
    help="Restore photographs: fill missing pixels, remove noise, and say how sure every pixel is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"diffbcp {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Restore photographs: fill missing pixels, remove noise, and say how sure every pixel is."""


app.command(cls=ShortHelp)(inpaint)
app.command(cls=ShortHelp)(denoise)
app.command(cls=Help)(compare)
app.command(cls=Help)(train)
app.command(cls=Help)(doctor)
app.command("eval", cls=Help)(evaluate)
app.command("open", cls=Help)(open_page)
for command in (mask_change.grow, mask_change.shrink, mask_change.combine, detect):
    mask.app.command(cls=Help)(command)
app.add_typer(mask.app, name="mask")
app.add_typer(methods.app, name="methods")
app.add_typer(models.app, name="models")


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    with streams.forgiving() as talk:
        code = _run(arguments)
    if code == 0 and talk.lost is not None:
        render.failure(talk.lost)
        return talk.lost.exit_code
    return code


def _run(arguments: list[str] | None) -> int:
    try:
        return _run_loudly(arguments)
    finally:
        error = sys.exc_info()[1]
        if error is not None:
            voice.voice.trace(error)
        voice.end()


def _run_loudly(arguments: list[str] | None) -> int:
    try:
        _refuse_empty(sys.argv[1:] if arguments is None else arguments)
        app(args=arguments, prog_name="diffbcp")
    except DiffbcpError as error:
        render.failure(error)
        return error.exit_code
    except KeyboardInterrupt:
        if voice.voice.say("interrupted", "interrupted"):
            render.err.print("interrupted")
        return 130
    except (MemoryError, RuntimeError) as error:
        from ..jobs.report import explain

        said = explain(error)
        if not isinstance(said, MemoryLimitError):
            raise
        render.failure(said)
        return said.exit_code
    except OSError as error:  # a path that cannot be looked at: too long, a loop, forbidden
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        render.failure(InputError(f"{where}{(error.strerror or str(error)).lower()}", hint="check the path"))
        return InputError.exit_code
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


def _refuse_empty(arguments: list[str]) -> None:
    """Refuse empty words: as a path one of them would mean the working folder with all that is in it."""
    for before, word in zip(["diffbcp", *arguments], arguments, strict=False):
        if not word or (word.startswith("--") and word.endswith("=")):
            raise UsageError(
                f"there is an empty argument after {before}" if not word else f"{word[:-1]} is empty",
                hint="if it came from a variable of a script, that variable is not set",
            )


def main() -> None:
    """Run the command line and end the process; `diffbcp_cli.__main__` looks after signals too."""
    sys.exit(run())
