"""What can go wrong, said in one sentence, with what to type next.

Each kind carries the exit code that the command line ends with.
"""

from __future__ import annotations

import shlex


class DiffbcpError(Exception):
    """A failure that a user can understand and act on."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        """message: what and why, one sentence. hint: what to type or change."""
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(DiffbcpError):
    """An option has a value that cannot be used."""

    exit_code = 2


class InputError(DiffbcpError):
    """An input file cannot be read or used."""

    exit_code = 3


class MaskError(InputError):
    """The mask does not fit the photograph, or leaves nothing to do."""


class OutputError(InputError):
    """A result could not be written."""


class ModelError(DiffbcpError):
    """A prior cannot be found, downloaded, verified or loaded."""

    exit_code = 4


class MemoryLimitError(DiffbcpError):
    """The work does not fit in memory."""

    exit_code = 5


class NumericalError(DiffbcpError):
    """A step of the sampler broke down; the message names the step."""


def typed(name: object) -> str:
    """A name as it is typed in a shell: quoted where it must be, and no option if it begins with a dash.

    >>> print("diffbcp denoise", typed("my photo; $(date).png"), typed("-o.png"))
    diffbcp denoise 'my photo; $(date).png' ./-o.png
    """
    text = str(name)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
