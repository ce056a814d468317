"""What a download will cost, shown before the first byte."""

from __future__ import annotations

from collections.abc import Callable

from scripts.errors import UsageError
from scripts.model import Trust
from scripts.serialize import JsonRecord
from scripts.store.fetch import FetchAction, FetchPlan

#: How well a hash is known, in words a person can weigh.
TRUST_WORDS = {
    Trust.UPSTREAM_DIGEST: "hash published by the project itself",
    Trust.INDEPENDENT: "hash agreed on by independent sources",
    Trust.SINGLE_REPORT: "hash from a single report",
}


class DownloadRow(JsonRecord, frozen=True, kw_only=True):
    """One artifact; ``bytes`` and ``disk`` (packed and unpacked, about) are ``None`` where not published."""

    artifact: str
    action: FetchAction
    bytes: int | None
    license: str
    trust: Trust
    note: str
    disk: int | None = None

    JSON = "id=artifact action bytes license trust note"


class DownloadSummary(JsonRecord, frozen=True, kw_only=True):
    """Everything that would be downloaded for one stack."""

    stack: str
    rows: tuple[DownloadRow, ...]

    JSON = "stack bytes=known_bytes exact=size_is_exact disk_bytes=known_disk artifacts=rows"

    @property
    def to_download(self) -> tuple[DownloadRow, ...]:
        """The rows that cost traffic."""
        return tuple(row for row in self.rows if row.action is FetchAction.FETCH)

    @property
    def known_bytes(self) -> int:
        """Bytes to download as far as sizes are published."""
        return sum(row.bytes or 0 for row in self.to_download)

    @property
    def known_disk(self) -> int:
        """About how many bytes of disk the downloads will take, unpacked, as far as sizes are published."""
        return sum(row.disk or 0 for row in self.to_download)

    @property
    def size_is_exact(self) -> bool:
        """Whether every size is published."""
        return all(row.bytes is not None for row in self.to_download)


def summarize_downloads(stack: str, plans: tuple[FetchPlan, ...]) -> DownloadSummary:
    """Turn the decisions of the fetcher into a summary; pure."""
    rows = (
        DownloadRow(
            artifact=plan.artifact.id,
            action=plan.action,
            bytes=plan.download_bytes,
            license=plan.artifact.license,
            trust=plan.artifact.trust,
            note=plan.artifact.note,
            disk=plan.disk_bytes,
        )
        for plan in plans
    )
    return DownloadSummary(stack=stack, rows=tuple(rows))


def require_consent(
    summary: DownloadSummary, *, yes: bool, ask: Callable[[DownloadSummary], bool] | None
) -> None:
    """Go on only when the summary is empty, was accepted beforehand, or is accepted now.

    Raises:
        UsageError: there is no terminal to ask on, or the answer was no. Nothing was downloaded.
    """
    if not summary.to_download or yes:
        return
    size = f"{summary.known_bytes / 1e6:,.1f} MB" + (
        "" if summary.size_is_exact else " and files of unpublished size"
    )
    if ask is None:
        msg = f"{summary.stack} needs a download of {size}, and there is no terminal to ask on"
        context = tuple(f"{r.artifact}: {r.license}; {TRUST_WORDS[r.trust]}" for r in summary.to_download)
        raise UsageError("consent-needed", msg, context=context, hint="add --yes to agree to it beforehand")
    if not ask(summary):
        msg = f"the download of {size} was declined; nothing was changed"
        raise UsageError("declined", msg, hint="run it again when you like; `invoke stacks` shows the others")
