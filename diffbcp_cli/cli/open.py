"""`diffbcp open`: a local page to paint or find damage, restore, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError, UsageError
from . import render

FOLDER = "restored"


def open_page(
    photo: Annotated[
        Path | None, typer.Argument(help="A photograph, or a folder of them; none starts empty.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for masks and results.", show_default="restored"),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address, for example to use it through ssh.")
    ] = False,
    max_pixels: Annotated[
        int, typer.Option("--max-pixels", min=256, help="Refuse pictures with more pixels.")
    ] = 100_000_000,
) -> None:
    """Open a page in the browser: paint or find the damage, restore, compare. Nothing leaves this machine."""
    try:
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UsageError("the page needs starlette and uvicorn", hint="pip install 'diffbcp[web]'") from error
    from ..photos.folders import images_in
    from ..web.serve import serve

    if photo is not None and not photo.exists():
        raise InputError(f"{photo} does not exist", hint="check the name: ls")
    home = Path() if photo is None else photo if photo.is_dir() else photo.parent
    folder = out or home / FOLDER
    if photo is None:
        photos = []
    else:
        photos = images_in(photo, results=False, apart_from=[folder]) if photo.is_dir() else [photo]
    render.note(f"masks and results go to {folder}; Ctrl-C ends")
    serve(
        list(photos),
        folder,
        port=port,
        browser=not no_browser,
        max_pixels=max_pixels,
        tell=render.path,
        refused=render.failure,
    )
