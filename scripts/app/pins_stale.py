"""``pins.check --stale``: which pins are behind what upstream names. Nothing is downloaded but metadata."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from scripts.app.context import Workspace
from scripts.errors import FetchError
from scripts.lock import update
from scripts.lock.package_index import family_of, index_of, version_of, versions
from scripts.model import Artifact
from scripts.net.github import AssetRef, GitHub
from scripts.net.request import read_url
from scripts.net.session import Transport

#: No index page of one package is longer.
MOST_PAGE: Final = 8 << 20
#: How many newer releases are looked at for a file that corresponds to the pinned one.
MOST_RELEASES: Final = 10
#: An address in which no shell finds anything to do; the page of an index could hold any other.
_PLAIN: Final = re.compile(r"[A-Za-z0-9._~:/%+-]+")


class PinAge(StrEnum):
    """How a pin stands to what upstream names."""

    NEWEST = "newest"
    BEHIND = "behind"
    REPLACED = "replaced"
    NO_METADATA = "no-metadata"
    UNREACHABLE = "unreachable"


class AgedPin(Struct, frozen=True, kw_only=True):
    """One artifact: what is pinned, what is newest upstream, and what to do."""

    artifact: str
    status: PinAge
    pinned: str = ""
    newest: str = ""
    detail: str = ""


def ages(ws: Workspace, server: GitHub, way: Transport, artifacts: Sequence[Artifact]) -> tuple[AgedPin, ...]:
    """Ask releases and package indexes for newer versions, once for each family of files.

    ``way`` is how package indexes are asked. A family's older pins count as replaced by its newest one.
    """
    releases: dict[tuple[str, str, str], list[tuple[Artifact, AssetRef]]] = defaultdict(list)
    wheels: dict[str, list[Artifact]] = defaultdict(list)
    found: dict[str, AgedPin] = {}
    for item in artifacts:
        ref = server.ref(item.urls[0]) if item.urls else None
        if ref is not None:
            releases[ref.owner, ref.repo, update.shape(ref.name, ref.tag)].append((item, ref))
        elif item.urls and index_of(item.urls[0]):
            wheels[index_of(item.urls[0]) + family_of(item.urls[0])].append(item)
        else:
            why = "its host names no versions" if item.urls else "supplied by the user"
            found[item.id] = AgedPin(artifact=item.id, status=PinAge.NO_METADATA, detail=why)
    questions = len(releases) + len(wheels)
    ws.progress.note(
        f"asking for newer versions: {len(releases)} families of files, {len(wheels)} index pages"
    )
    with ws.progress.task("ask for newer versions", questions, unit="questions") as advance:
        for pairs in releases.values():
            found |= _of_release(server, pairs)
            advance(1)
        for family in wheels.values():
            found |= _of_index(way, family)
            advance(1)
    ws.progress.note(f"asked: {len(releases)} families of release files, {len(wheels)} index pages")
    return tuple(found[item.id] for item in artifacts)


def _of_release(server: GitHub, pairs: list[tuple[Artifact, AssetRef]]) -> dict[str, AgedPin]:
    """Compare files of one project's releases with the newest release that has such a file."""
    ref = pairs[0][1]
    try:
        tags = server.tags(ref.owner, ref.repo)
        ordered = update.newest_first(pairs, tags)
        top = ordered[0][1].tag
        newer = tags[: tags.index(top)] if top in tags else tags
        newest = next((tag for tag in newer[:MOST_RELEASES] if _has(server, ref, tag)), top)
    except FetchError as error:
        return _silent([item for item, _ in pairs], error)
    return _judged([(item, pair.tag) for item, pair in ordered], newest)


def _has(server: GitHub, ref: AssetRef, tag: str) -> bool:
    """Whether a release has the file that corresponds to a pinned one."""
    return update.counterpart(ref, server.release(ref.owner, ref.repo, tag)) is not None


def _of_index(way: Transport, family: list[Artifact]) -> dict[str, AgedPin]:
    """Compare wheels of one project for one system with what its index page lists."""
    try:
        page = read_page(way, index_of(family[0].urls[0]))
    except FetchError as error:
        return _silent(family, error)
    listed = versions(page, urls=[item.urls[0] for item in family])
    order = list(listed)
    pinned = [(item, version_of(item.urls[0])) for item in family]
    pinned.sort(key=lambda row: order.index(row[1]))
    address = listed[order[0]]
    plain = _PLAIN.fullmatch(address) is not None
    how = f"invoke pins.add --url={address}" if plain else f"see {index_of(family[0].urls[0])}"
    return _judged(pinned, order[0], how)


def read_page(way: Transport, url: str) -> str:
    """Read one page of a package index.

    Raises:
        FetchError: it did not arrive whole, or is longer than any index.
    """
    return read_url(url, way, most=MOST_PAGE, headers={"Accept": "text/html"}).decode("utf-8", "replace")


def _judged(ordered: list[tuple[Artifact, str]], newest: str, command: str = "") -> dict[str, AgedPin]:
    """Judge a family, its newest pin first: the older ones were replaced by it."""
    found = {}
    first, top = ordered[0]
    for item, version in ordered:
        status, detail = PinAge.NEWEST, ""
        if version != top:
            status, detail = PinAge.REPLACED, f"{first.id} is pinned too"
        elif version != newest:
            how = command or f"invoke pins.update --artifact={item.id}"
            status, detail = PinAge.BEHIND, f"upstream has {newest}: {how}"
        found[item.id] = AgedPin(
            artifact=item.id, status=status, pinned=version, newest=newest, detail=detail
        )
    return found


def _silent(family: list[Artifact], error: FetchError) -> dict[str, AgedPin]:
    """Say of a whole family that nothing is known."""
    why = " ".join((error.message, *error.context))
    return {item.id: AgedPin(artifact=item.id, status=PinAge.UNREACHABLE, detail=why) for item in family}
