"""What a download will cost, shown before the first byte."""

from __future__ import annotations

from collections.abc import Callable

from scripts.errors import UsageError
from scripts.model import Lock, Stack, Trust
from scripts.osal.text import size_text
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
    """Everything that would be downloaded for one stack.

    ``sets``: the variables that a custom lock would set for every program, as ``NAME=value``.
    """

    stack: str
    rows: tuple[DownloadRow, ...]
    sets: tuple[str, ...] = ()

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


def custom_settings(lock: Lock, stack: Stack) -> tuple[str, ...]:
    """Return what a lock other than the checkout's own sets for every program that a stack starts."""
    return tuple(f"{p.name}={p.value}" for p in stack.env if p.value is not None) if lock.custom else ()


def summarize_downloads(
    stack: str, plans: tuple[FetchPlan, ...], sets: tuple[str, ...] = ()
) -> DownloadSummary:
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
    return DownloadSummary(stack=stack, rows=tuple(rows), sets=sets)


def require_consent(
    summary: DownloadSummary, *, yes: bool, ask: Callable[[DownloadSummary], bool] | None
) -> None:
    """Go on only when the summary is empty, was accepted beforehand, or is accepted now.

    Raises:
        UsageError: there is no terminal to ask on, or the answer was no. Nothing was downloaded.
    """
    if yes or not (summary.to_download or summary.sets):
        return
    size = size_text(summary.known_bytes) + (
        "" if summary.size_is_exact else " and files of unpublished size"
    )
    if ask is None:
        wants = [f"needs a download of {size}"] * bool(summary.to_download)
        wants += ["sets variables for every program"] * bool(summary.sets)
        msg = f"{summary.stack} {' and '.join(wants)}, and there is no terminal to ask on"
        context = (
            *(f"{r.artifact}: {r.license}; {TRUST_WORDS[r.trust]}" for r in summary.to_download),
            *(f"the custom lock sets {setting}" for setting in summary.sets),
        )
        raise UsageError("consent-needed", msg, context=context, hint="add --yes to agree to it beforehand")
    if not ask(summary):
        what = f"download of {size}" if summary.to_download else "custom lock"
        msg = f"the {what} was declined; nothing was changed"
        raise UsageError("declined", msg, hint="run it again when you like; `invoke stacks` shows the others")
