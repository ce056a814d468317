"""Which files the site consists of: ours as they are, the page, the data, what a build keeps of itself."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from pathlib import Path
from typing import Final

from scripts.serialize import jsonable, parse_json
from scripts.site.changes import MatrixChange, SiteBuild, dump_build
from scripts.site.data import SiteContent, data_files
from scripts.site.page import index_page

#: The parts of the site that are files of ours, copied as they are.
SOURCE: Final = Path(__file__).resolve().parents[1] / "data" / "site"
COPIED: Final = ("site.css", "gpus.js", "parts.js", "pages.js", "site.js")
FIRST_VIEW: Final = (*COPIED, "index.html", "data/start.js")
#: How a result comes into the matrix; shown on the page as two lines to paste.
CONTRIBUTE: Final = ("python3 -m scripts setup", "python3 -m scripts report --submit")
THIS_BUILD: Final = "data/this-build.json"
PREVIOUS_BUILD: Final = "data/previous-build.json"
CHANGES: Final = "data/changes.json"
#: Data files of an earlier build that this one may lack; nothing else in the folder is ever removed.
_OURS: Final = re.compile(r"(?:start|(?:gpu|on)-[a-z0-9.-]+)\.js")


def site_files(
    content: SiteContent,
    now: SiteBuild,
    previous: SiteBuild | None,
    changes: tuple[MatrixChange, ...] | None,
) -> dict[str, bytes]:
    """Return every file of the site by its path in the folder. The same content gives the same bytes."""
    template = (SOURCE / "index.html").read_text(encoding="utf-8")
    files = {name: (SOURCE / name).read_bytes().replace(b"\r\n", b"\n") for name in COPIED}
    files["index.html"] = index_page(template, content, changes, CONTRIBUTE)
    files |= {f"data/{name}": data for name, data in data_files(content).items()}
    files[THIS_BUILD] = dump_build(now)
    if previous is not None:
        files[PREVIOUS_BUILD] = dump_build(previous)
        files[CHANGES] = _lines(changes or ())
    return files


def _lines(changes: tuple[MatrixChange, ...]) -> bytes:
    """Write changes, one a line."""
    rows = ",\n".join(json.dumps(jsonable(change), ensure_ascii=True) for change in changes)
    return f"[\n{rows}\n]\n".encode("ascii")


def stale_files(folder: Path, files: Container[str]) -> list[Path]:
    """Return the data files of earlier builds that the site no longer has."""
    found = sorted((folder / "data").glob("*.js"))
    return [path for path in found if _OURS.fullmatch(path.name) and f"data/{path.name}" not in files]


def is_build(raw: bytes | None) -> bool:
    """Whether these are the bytes of a build's own list, of this version or of another one."""
    try:
        build = parse_json(raw or b"")
    except ValueError:
        return False
    return isinstance(build, dict) and isinstance(build.get("format"), int) and "cells" in build
