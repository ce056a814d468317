"""The version resource of a Windows program or library."""

from __future__ import annotations

from pathlib import Path


def file_version(path: Path) -> str | None:
    """Return the numeric file version (``10.0.3679.0``), or ``None`` where a file has none or is no PE."""
    import pefile  # noqa: PLC0415 - slow to import, and most runs read no such file

    try:
        with pefile.PE(str(path), fast_load=True) as image:
            image.parse_data_directories([pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_RESOURCE"]])
            for info in getattr(image, "VS_FIXEDFILEINFO", ()):
                high, low = info.FileVersionMS, info.FileVersionLS
                return f"{high >> 16}.{high & 0xFFFF}.{low >> 16}.{low & 0xFFFF}"
    except (OSError, pefile.PEFormatError, ValueError):  # an empty file cannot be mapped: ValueError
        return None
    return None


def company(path: Path) -> str:
    """Return the company a version resource names; empty where a file has none or is no PE."""
    import pefile  # noqa: PLC0415 - as above

    try:
        with pefile.PE(str(path), fast_load=True) as image:
            image.parse_data_directories([pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_RESOURCE"]])
            for part in (part for parts in getattr(image, "FileInfo", ()) for part in parts):
                for table in getattr(part, "StringTable", ()):
                    name = table.entries.get(b"CompanyName", b"")
                    if name:
                        return str(name.decode("utf-8", "replace"))
    except (OSError, pefile.PEFormatError, ValueError, AttributeError):
        return ""
    return ""
