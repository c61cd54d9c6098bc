"""The packages of diffbcp_cli, their levels, and who imports whom: for tests and for docs/make_architecture.py."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import diffbcp_cli

ROOT = Path(diffbcp_cli.__file__).parent
LEVELS = [
    ("errors", "apple", "devices", "units", "transfer", "random", "tree", "watch", "options", "problem"),
    ("operators", "priors", "lowrank"),
    ("methods",),
    ("run", "photos"),
    ("estimators", "scoring"),
    ("jobs", "training"),
    ("web", "cli"),
]
LAYERS = [name for level in LEVELS for name in level]
FILES = sorted(ROOT.rglob("*.py"))


def place(path: Path) -> str | None:
    """The layer that a file belongs to; the package's own __init__ and __main__ have none."""
    name = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return None if name in ("__init__", "__main__") else name


def modules(path: Path, root: Path = ROOT) -> Iterator[str]:
    """Absolute names of all modules a file imports, anywhere in it."""
    package = ["diffbcp_cli", *path.relative_to(root).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{start}.{alias.name}" for alias in node.names)


def inner(path: Path, root: Path = ROOT) -> Iterator[str]:
    """Layers of our own package that a file imports."""
    for module in modules(path, root):
        parts = module.split(".")
        if parts[0] == "diffbcp_cli" and parts[1] != "__version__":
            yield parts[1]


def imports() -> dict[str, set[str]]:
    """The other layers that each layer imports."""
    found: dict[str, set[str]] = {name: set() for name in LAYERS}
    for path in FILES:
        mine = place(path)
        if mine is not None:
            found[mine] |= {theirs for theirs in inner(path) if theirs != mine}
    return found


def longest_chain() -> list[str]:
    """The longest chain of layers each of which imports the next."""
    below = imports()
    best: dict[str, list[str]] = {}
    for name in LAYERS:  # from the bottom up: what a layer imports comes before it
        best[name] = [name, *max((best[other] for other in sorted(below[name])), key=len, default=[])]
    return max(best.values(), key=len)


def module_of(name: str) -> str | None:
    """The module of our own package that an imported name is, or is defined in; None for other packages."""
    parts = name.split(".")
    if parts[0] != "diffbcp_cli":
        return None
    for end in range(len(parts), 1, -1):
        path = ROOT.joinpath(*parts[1:end])
        if path.with_suffix(".py").exists() or (path / "__init__.py").exists():
            return ".".join(parts[1:end])
    return None  # the version, which the package itself has


def module_imports() -> dict[str, set[str]]:
    """The modules that each module imports; a package stands for its __init__."""
    found = {}
    for path in FILES:
        if place(path) is not None:
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[name] = {theirs for one in modules(path) if (theirs := module_of(one))} - {name}
    return found


def longest_module_chain() -> list[str]:
    """The longest chain of modules each of which imports the next; a circle is a ValueError."""
    graph = module_imports()
    under_way: list[str] = []

    @cache
    def longest(name: str) -> tuple[str, ...]:
        if name in under_way:
            raise ValueError(" > ".join([*under_way[under_way.index(name) :], name]))
        under_way.append(name)
        best = max((longest(other) for other in sorted(graph[name])), key=len, default=())
        under_way.pop()
        return (name, *best)

    return list(max(map(longest, graph), key=len))
