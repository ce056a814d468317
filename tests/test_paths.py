"""One table of names for the lock, for archives and for what is placed: what one refuses, all refuse."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from scripts.errors import ArchiveError, LockError, WorkspaceError
from scripts.lock.reader import parse_lock
from scripts.osal.paths import PathNames, refusal
from scripts.placement.place import place
from scripts.placement.plan import PlacementItem
from tests.placement_harness import GONE, STACK, LightFs

LOCK = """version = 1
[[artifact]]
id = "a"
urls = ["https://example.org/a-1.zip"]
sha256 = "e2959ed17c8ddae6bf2bf76cf3a7348f577a2548754685d776389df2220e5d9a"
format = "zip"
license = "MIT"
source = "o/a@1"
trust = "independent"
members = [{{ path = "{name}" }}]
"""
BAD = {
    "console": "conin$",
    "console-output": "CONOUT$.dll",
    "com0": "com0",
    "superscript": "com¹.txt",
    "lpt-superscript": "LPT³",
    "device-extension": "aux.dll",
    "device-blank": "nul .dll",
    "line-separator": "a\u2028b.dll",
    "paragraph-separator": "a\u2029b.dll",
    "c1": "a\u0085b.dll",
    "long": "a" * 300,
    "long-in-bytes": "ä" * 128,
    "dot": "a.",
    "blank": "a ",
    "colon": "a:b",
    "wildcard": "a*b",
    "pipe": "a|b",
    "parent": "..",
    "here": ".",
    "empty": "",
}
GOOD = ["nvcuda.dll", "ümläut.dll", "two  spaces.dll", "100%.dll", "com10.dll", "console.dll", "a" * 255]


def in_lock(name: str, folder: Path) -> None:
    escaped = "".join(c if c.isascii() and c.isprintable() else f"\\u{ord(c):04x}" for c in name)
    parse_lock(LOCK.format(name=escaped).encode(), path=folder / "pins.lock")


def in_archive(name: str, folder: Path) -> None:
    PathNames().admit(name, folder=False)


def placed(name: str, folder: Path) -> None:
    source = folder / "ours"
    source.write_bytes(b"ours")
    target = folder / "target"
    target.mkdir()
    sha256 = hashlib.sha256(b"ours").hexdigest()
    item = PlacementItem(folder="", name=name, source=source, sha256=sha256, size=4)
    place(target, [item], fs=LightFs(), user=GONE, **STACK)


WAYS = {"lock": in_lock, "archive": in_archive, "placement": placed}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BAD.values(), ids=BAD)
def test_every_room_refuses_the_same_names(way: str, name: str, tmp_path: Path) -> None:
    assert refusal(name) is not None
    with pytest.raises(WorkspaceError) as caught:
        WAYS[way](name, tmp_path)
    if way == "lock":
        assert isinstance(caught.value, LockError)
    elif way == "archive":
        assert isinstance(caught.value, ArchiveError)
    else:
        assert caught.value.reference == "path-unsafe"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", GOOD, ids=lambda name: name[:20])
def test_every_room_takes_the_same_names(way: str, name: str, tmp_path: Path) -> None:
    assert refusal(name) is None
    WAYS[way](name, tmp_path)
