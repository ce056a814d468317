"""A package index's page: which file has which digest, and whether a newer version is listed; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape
from itertools import islice
from typing import Final
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from msgspec import Struct

from scripts.lock.values import url_problem

_HREF: Final = re.compile(r"""href\s*=\s*["']([^"']+)["']""", re.IGNORECASE)
#: What a page is read for: so many links of so many characters, and names of wheels as people make them.
MOST_LINKS: Final = 20_000
MOST_ADDRESS: Final = 2_048
MOST_NAME: Final = 255
MOST_DOTS: Final = 24
_DIGEST: Final = re.compile(r"sha256=([0-9a-f]{64})")


class IndexedFile(Struct, frozen=True, kw_only=True):
    """A file as an index names it."""

    url: str
    sha256: str


def indexed(page: str, *, base: str, file: str) -> IndexedFile | None:
    """Find a file in a package index's page; ``None`` where it is not listed, or without a digest.

    An address on another host, or one that a lock may not hold, is not taken.
    """
    for address, name, fragment in _listed(page, base):
        digest = _DIGEST.fullmatch(fragment)
        if digest is not None and name == file and url_problem(address) is None:
            return IndexedFile(url=address, sha256=digest[1])
    return None


def index_of(url: str) -> str:
    """Return the address of the index page that lists a wheel; empty where the URL has no such shape.

    A wheel lies in the folder of its project, which is the project's page (PEP 503).
    """
    folder, _, name = url.rpartition("/")
    read = _wheel(unquote(name))
    project = unquote(folder.rpartition("/")[2])
    return f"{folder}/" if read is not None and project == read[0] else ""


def versions(page: str, *, urls: Sequence[str]) -> dict[str, str]:
    """Return version to address of what a page lists beside pinned wheels of one project, newest first.

    ``urls`` are the pinned ones, which are always in it. A version before a release counts only where one of
    them is such a version too, and an address only where a lock may hold it.
    """
    from packaging.version import Version  # noqa: PLC0415 - slow to import, seldom asked

    pinned = {version_of(url): url for url in urls}
    family = family_of(urls[0])
    listed = {
        version_of(address): address
        for address, name, _ in _listed(page, index_of(urls[0]))
        if _wheel(name) is not None and family_of(address) == family and url_problem(address) is None
    }
    early = any(Version(version).is_prerelease for version in pinned)
    counted = {v: a for v, a in listed.items() if early or not Version(v).is_prerelease} | pinned
    return {version: counted[version] for version in sorted(counted, key=Version, reverse=True)}


def version_of(url: str) -> str:
    """Return the version in a wheel's URL; empty where it names no wheel."""
    read = _wheel(unquote(url.rpartition("/")[2]))
    return read[1] if read is not None else ""


def family_of(url: str) -> str:
    """Return what is the same for every version of a wheel: project and systems."""
    project, _, tags = _wheel(unquote(url.rpartition("/")[2])) or ("", "", "")
    return f"{project} {tags}"


def _listed(page: str, base: str) -> Iterator[tuple[str, str, str]]:
    """Yield address, file name and fragment of each link that stays on the index's own host."""
    for match in islice(_HREF.finditer(page), MOST_LINKS):
        if len(match[1]) > MOST_ADDRESS:
            continue
        try:
            address, fragment = urldefrag(urljoin(base, unescape(match[1])))
            own = urlsplit(address).netloc == urlsplit(base).netloc
        except ValueError:  # anything can stand in a page, for example half an IPv6 address
            continue
        if own:
            yield address, unquote(urlsplit(address).path.rpartition("/")[2]), fragment


def _wheel(name: str) -> tuple[str, str, str] | None:
    """Read a wheel's file name: project, version, systems; ``None`` where it is none."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename  # noqa: PLC0415 - as above
    from packaging.version import InvalidVersion  # noqa: PLC0415 - as above

    # Tags are multiplied out: a short name could stand for millions of them.
    if len(name) > MOST_NAME or name.count(".") > MOST_DOTS:
        return None
    try:
        project, version, _, tags = parse_wheel_filename(name)
    except (InvalidWheelFilename, InvalidVersion, ValueError):
        return None
    return project, str(version), " ".join(sorted(map(str, tags)))
