"""What a file is that is no program, by its first bytes, and what a person may name instead."""

from __future__ import annotations

from typing import Final, NamedTuple

#: So much of a file is enough.
HEAD: Final = 512
_UNPACK: Final = "unpack it and name the program in it"
_INSTALL: Final = "install it and name the program that it installs"
_OPENED: Final = "name the program that opens it"
_TAR: Final = 257
_FAT_BINARY_COUNT: Final = 0x20


class Sniffed(NamedTuple):
    """What a file is, with its article, and what to do instead; ``then`` is empty where nothing is known."""

    what: str
    then: str = ""


_SIGNS: Final[tuple[tuple[bytes, Sniffed], ...]] = (
    (b"PK\x03\x04", Sniffed("a ZIP archive, or a format made of one (.jar, .whl, .apk)", _UNPACK)),
    (b"7z\xbc\xaf\x27\x1c", Sniffed("a 7-Zip archive", _UNPACK)),
    (b"Rar!\x1a\x07", Sniffed("a RAR archive", _UNPACK)),
    (b"\x1f\x8b", Sniffed("a gzip archive", _UNPACK)),
    (b"\xfd7zXZ\0", Sniffed("an xz archive", _UNPACK)),
    (b"\x28\xb5\x2f\xfd", Sniffed("a zstd archive", _UNPACK)),
    (b"BZh", Sniffed("a bzip2 archive", _UNPACK)),
    (b"MSCF", Sniffed("a cabinet archive", _UNPACK)),
    (b"!<arch>\ndebian", Sniffed("a Debian package", _INSTALL)),
    (
        b"!<arch>\n",
        Sniffed("a library for linking, not one to load", "name the program that was linked with it"),
    ),
    (b"\xed\xab\xee\xdb", Sniffed("an RPM package", _INSTALL)),
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        Sniffed("a Windows Installer package or an old document", _INSTALL),
    ),
    (b"L\0\0\0\x01\x14\x02\0", Sniffed("a Windows shortcut", "name the program that it points to")),
    (b"\xcf\xfa\xed\xfe", Sniffed("a program for macOS")),
    (b"\xce\xfa\xed\xfe", Sniffed("a program for macOS")),
    (b"%PDF", Sniffed("a PDF document", _OPENED)),
    (b"\x89PNG", Sniffed("a picture", _OPENED)),
    (b"\xff\xd8\xff", Sniffed("a picture", _OPENED)),
    (b"GIF8", Sniffed("a picture", _OPENED)),
    (b"SQLite format 3\0", Sniffed("a database", _OPENED)),
    (b"\x80\x02", Sniffed("a Python pickle", _OPENED)),
    (b"GGUF", Sniffed("a model (GGUF)", _OPENED)),
)
#: Scripts that Windows tells by the ending of their name alone.
_SCRIPTS: Final = {
    ".bat": Sniffed("a batch file", "name the program that it starts"),
    ".cmd": Sniffed("a batch file", "name the program that it starts"),
    ".ps1": Sniffed("a PowerShell script", "name the program that it starts"),
    ".vbs": Sniffed("a script", "name the program that it starts"),
    ".py": Sniffed("a Python script", "name the interpreter of its environment: --exe=python"),
    ".ipynb": Sniffed("a notebook", "name the interpreter of its environment: --exe=python"),
    ".js": Sniffed("a script", "name the program that runs it"),
    ".cu": Sniffed("CUDA source", "compile it and name the program that comes of it"),
}


_DATA: Final = Sniffed("data of a kind that is not known", _OPENED)
_TEXT: Final = Sniffed("a text file", _OPENED)
_CONTROLS: Final = frozenset((*range(32), 127)) - frozenset(b"\t\n\r\f\x1b")


def sniff(head: bytes, suffix: str) -> Sniffed:
    """Say what a file is by its first bytes; by the end of its name only where it is text."""
    if not head:
        return Sniffed("an empty file")
    if head.startswith(b"#!"):
        return _script(head)
    if head.startswith(b"\xca\xfe\xba\xbe"):  # a Java class says its version where a program its processors
        java = int.from_bytes(head[4:8], "big") >= _FAT_BINARY_COUNT
        return Sniffed("a Java class", "name java itself") if java else Sniffed("a program for macOS")
    known = next((told for sign, told in _SIGNS if head.startswith(sign)), None)
    if known is None and head[_TAR : _TAR + 5] == b"ustar":
        known = Sniffed("a tar archive", _UNPACK)
    text = head.startswith((b"\xff\xfe", b"\xfe\xff")) or _CONTROLS.isdisjoint(head)
    return known or (_SCRIPTS.get(suffix.lower(), _TEXT) if text else _DATA)


def _script(head: bytes) -> Sniffed:
    """Say what runs a script that names it in its first line."""
    words = head[2:128].split(b"\n", 1)[0].decode("utf-8", "replace").split()
    names = [word.rpartition("/")[2] for word in words if not word.startswith("-")]
    runs = next((name for name in names if name != "env"), "")
    if not runs:
        return Sniffed("a script", "name the program that it starts")
    return Sniffed(f"a script for {runs}", f"name what runs it, --exe={runs}, or the program that it starts")
