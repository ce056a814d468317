"""What a GitHub release publishes about its files: names, sizes, digests.

Other hosts publish nothing of the kind; for them there is no metadata, and callers say so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated, Final, TypeVar
from urllib.parse import quote, unquote, urlsplit

import msgspec
import requests
from msgspec import Meta, Struct

from scripts.errors import FetchError, UsageError
from scripts.net.request import open_url
from scripts.net.session import AttemptError, Transport, retry
from scripts.net.sources import allowed, origin, shown
from scripts.osal.text import count

API: Final = "https://api.github.com"
HOST: Final = "github.com"
#: Metadata larger than this is no metadata.
MAX_ANSWER: Final = 8 * 1024**2

T = TypeVar("T")
Text = Annotated[str, Meta(min_length=1)]
_DIGEST: Final = re.compile(r"sha256:([0-9a-fA-F]{64})")
_DOWNLOAD: Final = re.compile(r"/([^/]+)/([^/]+)/releases/download/([^/]+)/([^/]+)")
_LIMITED: Final = frozenset({403, 429})
_NOT_FOUND: Final = 404
_UNAUTHORIZED: Final = 401


class AssetRef(Struct, frozen=True, kw_only=True):
    """Where a release's file is: owner, repository, tag and file name, percent-decoded."""

    owner: str
    repo: str
    tag: str
    name: str


class Asset(Struct, frozen=True, kw_only=True):
    """One file of a release; ``sha256`` is ``None`` where the release gives no SHA-256 digest."""

    name: str
    url: str
    size: int
    sha256: str | None


class _AssetJson(Struct, frozen=True, kw_only=True):
    name: Text
    browser_download_url: Text
    size: Annotated[int, Meta(ge=0)]
    digest: Text | None = None


class _ReleaseJson(Struct, frozen=True, kw_only=True):
    tag_name: Text
    assets: tuple[_AssetJson, ...]


class _TagJson(Struct, frozen=True, kw_only=True):
    tag_name: Text
    draft: bool = False


class Release(Struct, frozen=True, kw_only=True):
    """One release and its files."""

    owner: str
    repo: str
    tag: str
    assets: tuple[Asset, ...]

    def asset(self, name: str) -> Asset | None:
        """Return a file by its exact name."""
        return next((asset for asset in self.assets if asset.name == name), None)


def asset_of(url: str, *, hosts: tuple[str, ...] = (HOST,)) -> AssetRef | None:
    """Read a release download URL; ``None`` for a host or path without release metadata."""
    parts = urlsplit(url)
    match = _DOWNLOAD.fullmatch(parts.path)
    if match is None or parts.netloc not in hosts:
        return None
    owner, repo, tag, name = (unquote(part) for part in match.groups())
    return AssetRef(owner=owner, repo=repo, tag=tag, name=name)


def api_base(value: str) -> str:
    """Check the address of a metadata server: https, or http on loopback.

    Raises:
        UsageError: it is neither, or holds credentials.
    """
    parts = urlsplit(value)
    if allowed(value, loopback=True) and parts.username is None and not parts.query:
        return value.rstrip("/")
    msg = "CUDA_AMD_GITHUB_API is not an https address (http is allowed on loopback only)"
    raise UsageError("bad-api-address", msg, context=(shown(value),), hint=f"unset it to ask {API}")


class GitHub(Struct, frozen=True, kw_only=True):
    """A GitHub, or a server that answers like one.

    Attributes:
        transport: how it is asked.
        api: the metadata server; an Enterprise server's downloads come from the same host.
        token: sent to that server alone, and not along with a redirect to another host.
    """

    transport: Transport
    api: str = API
    token: str = ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts whose download URLs this server knows."""
        return (HOST,) if self.api == API else (HOST, urlsplit(self.api).netloc)

    def ref(self, url: str) -> AssetRef | None:
        """Read a download URL of this server."""
        return asset_of(url, hosts=self.hosts)

    def release(self, owner: str, repo: str, tag: str) -> Release:
        """Return one release by its tag.

        Raises:
            FetchError: no such release, no answer, or one that cannot be read.
        """
        path = f"repos/{quote(owner, safe='')}/{quote(repo, safe='')}/releases/tags/{quote(tag, safe='')}"
        found = self._ask(path, _ReleaseJson)
        try:
            assets = tuple(map(_asset, found.assets))
        except ValueError:
            raise self._malformed(path) from None
        return Release(owner=owner, repo=repo, tag=found.tag_name, assets=assets)

    def tags(self, owner: str, repo: str) -> tuple[str, ...]:
        """Return the tags of the newest published releases, newest first; drafts are left out."""
        path = f"repos/{quote(owner, safe='')}/{quote(repo, safe='')}/releases?per_page=30"
        return tuple(one.tag_name for one in self._ask(path, tuple[_TagJson, ...]) if not one.draft)

    def _ask(self, path: str, kind: type[T]) -> T:
        url = f"{self.api}/{path}"
        body = retry(url, self.transport, lambda session: self._read(session, url))
        try:
            return msgspec.json.decode(body, type=kind)
        except (ValueError, RecursionError):
            raise self._malformed(path) from None

    def _read(self, session: requests.Session, url: str) -> bytes:
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        try:
            reply = open_url(session, url, self.transport, loopback=True, headers=headers, token=self.token)
        except AttemptError as error:
            raise self._explained(url, error) or error from None
        with closing(reply):
            body = reply.whole(MAX_ANSWER)
        if body is None:
            raise self._malformed(url.removeprefix(f"{self.api}/"))
        return body

    def _explained(self, url: str, error: AttemptError) -> FetchError | None:
        """Turn GitHub's refusals into errors that say what to do; ``None`` leaves it to the general rule."""
        asked_to_wait = error.headers.get("X-RateLimit-Remaining") == "0" or "Retry-After" in error.headers
        if error.status in _LIMITED and asked_to_wait:
            return _rate_limited(url, error.headers, token=bool(self.token))
        if error.status == _NOT_FOUND:
            msg = "there is no such release, or it is private"
            hint = "look at the project's release page; a tag is written exactly as there"
            return FetchError("upstream-not-found", msg, context=(shown(url),), hint=hint)
        if error.status == _UNAUTHORIZED:
            hint = "replace GITHUB_TOKEN, or unset it: public releases need none"
            return FetchError("upstream-token-refused", "the server does not accept the token", hint=hint)
        return None

    def _malformed(self, path: str) -> FetchError:
        msg = f"{origin(self.api)[1]} sends an answer that cannot be read as release metadata"
        hint = "try again later; if CUDA_AMD_GITHUB_API is set, check that it is a GitHub API address"
        return FetchError("upstream-malformed", msg, context=(f"{self.api}/{path}",), hint=hint)


def _rate_limited(url: str, headers: Mapping[str, str], *, token: bool) -> FetchError:
    reset = count(headers.get("X-RateLimit-Reset", ""))
    try:
        when = "later" if reset is None else f"after {datetime.fromtimestamp(reset, tz=UTC):%H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        when = "later"
    more = "" if token else ", or set GITHUB_TOKEN to a token without any permission, which raises the limit"
    hint = f"ask again {when}{more}"
    return FetchError(
        "upstream-rate-limited", "GitHub API rate limit reached", context=(shown(url),), hint=hint
    )


def _asset(found: _AssetJson) -> Asset:
    """Read ``sha256:…``; other algorithms and old releases give no hash, nonsense is an error."""
    match = _DIGEST.fullmatch(found.digest or "")
    if match is None and (found.digest or "").startswith("sha256:"):
        raise ValueError(found.digest)
    sha256 = match[1].lower() if match else None
    return Asset(name=found.name, url=found.browser_download_url, size=found.size, sha256=sha256)
