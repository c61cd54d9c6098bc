"""What is compared: methods, each with options of its own."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import UsageError
from ...options import METHODS, Given, check, flag, read_setting, resolve, takes

ASIDE = ("method", "preset", "save")
"""Options that say what is compared, or which the comparison sets itself."""


@dataclass(frozen=True)
class Entry:
    """A method as it was named, and the options of its runs."""

    name: str
    given: Given

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return re.sub(r"[^\w.=+-]+", "_", self.name.replace(":", "+"))


def entries(names: Sequence[str], shared: Given) -> tuple[Entry, ...]:
    """The methods of a comparison: NAME, or NAME:OPTION=VALUE:... for one with options of its own.

    shared: options for all; each method gets those that it takes, and one that no method takes is refused.
    """
    made = [_entry(text, shared) for text in names]
    if not made:
        raise UsageError("there is no method to compare", hint="--methods diffbcp,tctv,telea")
    folders = [one.folder.lower() for one in made]
    for one in made:
        if folders.count(one.folder.lower()) > 1:
            raise UsageError(f"the method {one.name} is named twice", hint="name each once")
    for option in shared:
        if not any(option in one.given for one in made):
            raise UsageError(
                f"{flag(option)} is an option of none of {', '.join(names)}", hint="leave it out"
            )
    return tuple(made)


def _entry(text: str, shared: Given) -> Entry:
    method, *settings = text.split(":")
    if method not in METHODS:
        near = difflib.get_close_matches(method, METHODS, n=1)
        hint = f"did you mean {near[0]}?" if near else "diffbcp methods list"
        raise UsageError(f"there is no method {method!r}", hint=hint)
    own = check(dict(read_setting(one) for one in settings))
    for option in own:
        if option in ASIDE:
            raise UsageError(f"{text} sets {flag(option)}, which a comparison chooses", hint="leave it out")
    general = {name: value for name, value in shared.items() if _has(method, name)}
    given = {**general, **own, "method": method}
    resolve(given)  # what does not go together is refused before any work
    return Entry(text, given)


def _has(method: str, option: str) -> bool:
    fixed = option == "prior" and METHODS[method].own_prior is not None
    return takes(method, option) and not fixed
