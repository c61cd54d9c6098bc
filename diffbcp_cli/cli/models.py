"""`diffbcp models`: which priors there are, and getting them here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ..errors import ModelError
from . import render
from .help import Help

if TYPE_CHECKING:
    from ..priors import Download, Files, Source

app = typer.Typer(help="List, download and check priors.", no_args_is_help=True)

NameArg = Annotated[
    str, typer.Argument(help="A name from the list, a folder, or an id owner/name on the Hub.")
]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ForceOpt = Annotated[bool, typer.Option("--force", help="Download again even if it is there.")]
QuietOpt = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]


@app.command("list", cls=Help)
def list_priors(json: JsonOpt = False) -> None:
    """List the priors that have a name."""
    from .. import priors as weights

    rows = [describe(source) for source in weights.registry().values()]
    if json:
        render.as_json(rows)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "for", "parameters", "download", "here", "licence"):
        table.add_column(column, overflow="fold", no_wrap=column in ("name", "parameters", "download"))
    for row in rows:
        count = f"{row['parameters'] / 1e6:.1f} M" if row["parameters"] else "-"
        table.add_row(row["name"], row["about"], count, _megabytes(row["size"]), row["here"], row["licence"])
    render.out.print(table, soft_wrap=False)


@app.command(cls=Help)
def pull(name: NameArg, json: JsonOpt = False, force: ForceOpt = False, quiet: QuietOpt = False) -> None:
    """Download a prior into the cache, check it, and print where it is."""
    from .. import priors as weights

    source = weights.find(name)
    files = weights.fetch(source, announce=announce, bars=not quiet, refresh=True, force=force)
    identity = weights.identify(files)
    if json:
        render.as_json({**identity.as_dict(), "path": str(files.weights)})
    else:
        render.path(files.weights)


@app.command(cls=Help)
def info(name: NameArg, json: JsonOpt = False) -> None:
    """Show what is known about a prior."""
    from .. import priors as weights

    facts = describe(weights.find(name))
    if json:
        render.as_json(facts)
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in facts.items():
        if value not in (None, ""):
            table.add_row(key, _megabytes(value) if key == "size" else str(value))
    render.out.print(table, soft_wrap=False)


@app.command(cls=Help)
def verify(name: NameArg, json: JsonOpt = False) -> None:
    """Check a downloaded prior: its hash, and that every weight fits the network."""
    from .. import priors as weights

    files = weights.fetch(weights.find(name), download=False)
    identity = weights.identify(files)
    weights.build(files)
    if json:
        render.as_json({**identity.as_dict(), "path": str(files.weights), "ok": True})
    else:
        render.out.print(f"ok  sha256 {identity.sha256}", markup=False)


@app.command(cls=Help)
def path(name: NameArg) -> None:
    """Print the path of a prior's weights, for scripts."""
    from .. import priors as weights

    render.path(weights.fetch(weights.find(name), download=False).weights)


def announce(download: Download) -> None:
    """Say what is about to be downloaded, and name the licence if it is not a free one."""
    source = download.source
    size = f" ({_megabytes(download.size)})" if download.size else ""
    render.note(f"downloading {download.file} from {source.repo}{size}")
    if source.noncommercial:
        licence = source.licence or f"not known to diffbcp: see the model card of {source.repo}"
        render.warn(f"licence of the prior {source.name}: {licence}")


def describe(source: Source) -> dict[str, Any]:
    """Everything known about a prior without asking the Hub."""
    files = _here(source)
    where = "bundled" if source.bundled else "yes"
    return {
        "name": source.name,
        "about": source.about,
        "architecture": _architecture(source, files),
        "parameters": source.parameters or (files.parameters if files else None),
        "size": source.size or (files.weights.stat().st_size if files else None),
        "licence": source.licence or "not known",
        "noncommercial": source.noncommercial,
        "repo": source.repo,
        "file": source.file or (files.weights.name if files else None),
        "revision": (files.revision if files else None) or source.revision,
        "sha256": source.sha256,
        "here": where if files else "no",
        "path": str(files.weights) if files else None,
    }


def _here(source: Source) -> Files | None:
    from .. import priors as weights

    try:
        return weights.fetch(source, download=False)
    except ModelError:
        if source.folder is not None and not source.bundled:
            raise
        return None


def _architecture(source: Source, files: Files | None) -> str | None:
    config = source.config or (files.config if files else {})
    name = config.get("architecture") or config.get("_class_name")
    return None if name is None else str(name)


def _megabytes(size: int | None) -> str:
    return f"{size / 1e6:,.0f} MB" if size else "-"
