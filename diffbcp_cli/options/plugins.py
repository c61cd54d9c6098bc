"""Methods that other packages bring, by entry points of the group `diffbcp.methods`.

An entry point names a `MethodEntry` of a module that imports nothing heavy; `module` of the entry is the dotted path
of the file with `build` and STATE_CLASSES. It is looked for when a name is not in the table, and not before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


GROUP = "diffbcp.methods"


class Entry(Protocol):
    """What is known of a method without importing it; module: where it is."""

    @property
    def module(self) -> str | None:
        """The file of the method, or the dotted path of its module."""
        ...


E = TypeVar("E", bound=Entry)


class WithPlugins(dict[str, E]):
    """The table of methods. A name that is not in it is looked for among those of other packages."""

    def __init__(self, kind: type[E], known: Mapping[str, E] = MappingProxyType({})) -> None:
        """kind: what every entry is."""
        super().__init__(known)
        self.kind = kind

    def __contains__(self, name: object) -> bool:
        """Whether there is a method of this name, here or in another package."""
        return super().__contains__(name) or name in _points()

    def __missing__(self, name: str) -> E:
        """Take a method of another package in."""
        point = _points().get(name)
        if point is None:
            raise KeyError(name)
        self[name] = _entry(point, self.kind)
        return self[name]

    def everything(self) -> Iterator[tuple[str, E | UsageError]]:
        """Every method by name, and why one of another package cannot be used."""
        yield from list(self.items())
        for name in _points().keys() - self.keys():
            try:
                yield name, self[name]
            except UsageError as error:
                yield name, error


def imported(name: str) -> ModuleType:
    """Import a module of another package."""
    try:
        return import_module(name)
    except Exception as error:  # its code may raise anything
        raise UsageError(
            f"{name} of another package cannot be imported: {type(error).__name__}: {error}"
        ) from error


def _points() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # slow, and of no use to most runs

    return {point.name: point for point in entry_points(group=GROUP)}


def _entry(point: EntryPoint, kind: type[E]) -> E:
    where = f"the method {point.name} of the package {point.dist.name if point.dist else point.value}"
    try:
        found: Any = point.load()
    except Exception as error:  # its code may raise anything
        raise UsageError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, kind):
        raise UsageError(f"{where} cannot be used: {point.value} is no {kind.__name__}")
    if "." not in (found.module or ""):
        raise UsageError(f"{where} cannot be used: its module is no dotted path, such as my_package.method")
    return found
