"""Download an artifact once, verified, into the store."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from scripts.model import Artifact, Progress
from scripts.store.cache import Cache

#: A download of unknown size stops here.
MAX_UNKNOWN_SIZE: Final = 8 * 1024**3


@dataclass(frozen=True, kw_only=True)
class FetchOptions:
    """How to fetch: ``mirrors`` (folders or URLs) are asked before the artifact's own URLs."""

    offline: bool = False
    mirrors: tuple[str, ...] = ()
    max_unknown_size: int = MAX_UNKNOWN_SIZE


class FetchAction(StrEnum):
    """What has to happen for an artifact to be here."""

    HAVE = "have"
    FETCH = "fetch"
    OFFLINE_MISSING = "offline-missing"
    SUPPLIED = "supplied"


@dataclass(frozen=True, kw_only=True)
class FetchPlan:
    """The decision for one artifact, for the bill.

    ``download_bytes`` is 0 when nothing is downloaded and ``None`` when the size is not published;
    ``urls`` are the places that would be asked, in order.
    """

    artifact: Artifact
    action: FetchAction
    download_bytes: int | None
    urls: tuple[str, ...]


def plan_fetch(artifact: Artifact, cache: Cache, options: FetchOptions) -> FetchPlan:
    """Decide, reading nothing but the store's directory, what ``fetch`` would do."""
    raise NotImplementedError


def fetch(artifact: Artifact, cache: Cache, *, options: FetchOptions, progress: Progress) -> Path:
    """Return the verified blob of ``artifact``, downloading it if needed."""
    raise NotImplementedError
