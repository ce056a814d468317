"""What a person sees of ``pins.check``, ``pins.update`` and ``pins.add``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scripts.app.pins import PinStatus
from scripts.app.pins_stale import PinAge
from scripts.cli.console import Out
from scripts.errors import ExitCode
from scripts.model import Trust

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scripts.app.pins import PinsAddResult, PinsCheckResult
    from scripts.app.pins_stale import AgedPin
    from scripts.app.pins_update import PinsUpdateResult


def show_pins_check(result: PinsCheckResult, out: Out) -> None:
    """Print one row per URL, in full those that are not the same, and what to do about differences."""
    if result.ages:
        _ages(result.ages, out)
        return
    good = {PinStatus.SAME, PinStatus.SUPPLIED}
    rows = [(r.artifact, r.status.value, r.detail if r.status in good else "below") for r in result.checked]
    out.table(("artifact", "status", "detail"), rows, title="Pinned downloads, hashed again")
    for row in result.checked:
        if row.status not in good:
            out.mark("fail" if row.status is PinStatus.DIFFERS else "unknown", f"{row.artifact}: {row.url}")
            out.line(f"    {row.detail}")
    found = [row.status for row in result.checked]
    if PinStatus.DIFFERS in found:
        out.loud(
            "Bytes upstream are not the pinned ones. Do not change the pin: find out why they changed, "
            "for example in the project's release notes, and report it."
        )
    if PinStatus.UNREACHABLE in found:
        out.mark(
            "unknown", f"{found.count(PinStatus.UNREACHABLE)} could not be asked; what they hold is unknown"
        )
    if set(found) <= {PinStatus.SAME, PinStatus.SUPPLIED}:
        out.mark("ok", f"{found.count(PinStatus.SAME)} downloads are what pins.lock says")


def _ages(pins: Sequence[AgedPin], out: Out) -> None:
    """Print how each pin stands to what upstream names, and the commands for those behind."""
    rows = [(pin.artifact, pin.status.value, pin.pinned, pin.newest) for pin in pins]
    out.table(("artifact", "upstream", "pinned", "newest"), rows, title="Pins and what upstream names")
    found = [pin.status for pin in pins]
    for pin in pins:
        if pin.status in {PinAge.BEHIND, PinAge.UNREACHABLE}:
            out.mark("warn" if pin.status is PinAge.BEHIND else "unknown", f"{pin.artifact}: {pin.detail}")
    if PinAge.UNREACHABLE in found:
        out.mark("unknown", "what could not be asked may be behind too")
    elif PinAge.BEHIND not in found:
        out.mark("ok", "no pin is behind what upstream names, as far as hosts name versions")


def show_pins_update(result: PinsUpdateResult, out: Out) -> None:
    """Print what upstream says, the difference, and how to take it over."""
    rows = [(row.artifact, row.status, row.detail) for row in result.asked]
    out.table(("artifact", "upstream says", "detail"), rows, title="Pins and their releases")
    if result.exit_code == ExitCode.FETCH:
        out.mark("unknown", "an index did not answer, or does not list a file; the rest is below")
    elif result.exit_code:
        out.loud(
            "Upstream contradicts a pin. It was left as it is: find out why the file changed, "
            "for example in the project's release notes, and report it."
        )
    out.lines(result.diff.lines(), "")
    if result.written:
        out.now("pins.lock is written; read the difference: git diff pins.lock")
    elif result.diff:
        out.now("take it over: invoke pins.update --write")
    else:
        out.mark("ok", "nothing to change in pins.lock")


def show_pins_add(result: PinsAddResult, out: Out) -> None:
    """Print the new pin, how far it can be trusted, and how to take it over."""
    item = result.artifact
    out.lines(result.diff.lines(), "")
    if item.trust is Trust.UPSTREAM_DIGEST:
        out.mark("ok", "the release's own digest is the same")
    else:
        out.mark("warn", "no other source confirms this hash: compare it with one made on another network")
    if result.written:
        out.now(f"{item.id} is in pins.lock; add its root and members, and name it in a stack")
    else:
        out.now("take it over: the same line with --write")
