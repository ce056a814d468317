"""What documents say a stack failed on an architecture, and what that means for a program. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from scripts.evidence.document import IDLE
from scripts.evidence.evidence_io import Filed
from scripts.evidence.merging import (
    PROBES,
    Observation,
    gpu_key,
    observations_of,
    stack_key,
    what_stands,
    why_not,
)
from scripts.model import CapabilityResult, Outcome
from scripts.osal.text import listed
from scripts.preflight.needs import Need
from scripts.probing.catalogue import probes
from scripts.serialize import JsonRecord

#: Endings by which one call has several names: a newer form, and the default stream of each thread.
_FORM: Final = re.compile(r"(?:_v\d+|_ptsz|_ptds)+$")
#: So many calls in common are named in a sentence.
NAMED: Final = 3


class FailedProbe(JsonRecord, frozen=True, kw_only=True):
    """A probe that a stack does not pass on an architecture, and the document that shows it."""

    probe: str
    stack: str
    gfx: str
    outcome: Outcome
    provenance: str
    document: str
    detail: str = ""

    JSON = "probe stack gfx outcome provenance document detail? calls policy?"

    @property
    def calls(self) -> tuple[str, ...]:
        """The CUDA calls, or operations of PyTorch, that it makes."""
        return probes()[self.probe].calls

    @property
    def policy(self) -> str:
        """The setting that goes around it for PyTorch; empty: there is none."""
        return probes()[self.probe].policy

    @property
    def sentence(self) -> str:
        """Say it with its document."""
        ended = f"{self.outcome.value}, {self.provenance}"
        return f"{self.stack} failed {self.probe} on {self.gfx} ({ended}: {self.document})"


class ProbeWarning(JsonRecord, frozen=True, kw_only=True):
    """A failed probe that concerns a program: by calls of both, by a library, or by PyTorch.

    ``library`` is one that the program loads while its calls cannot be seen.
    """

    failed: FailedProbe
    shared: tuple[str, ...] = ()
    library: str = ""

    def to_json(self) -> dict[str, object]:
        """Return the failed probe, and why it concerns the program."""
        return {**self.failed.to_json(), "shared_calls": list(self.shared), "library": self.library or None}

    @property
    def sentence(self) -> str:
        """Say what failed and why it concerns the program."""
        if self.shared:
            return f"{self.failed.sentence}; the program's files ask for {listed(self.shared, NAMED)} too"
        if self.library:
            return f"{self.failed.sentence}; the program loads {self.library}, and its calls are hidden"
        policy = self.failed.policy
        way = f"; `wrap --policy=auto` switches {policy} on" if policy else ""
        return f"{self.failed.sentence}; the program has PyTorch{way}"


def failures_of(filed: Iterable[Filed], *, stack: str, gfx: str) -> tuple[FailedProbe, ...]:
    """Return the probes that stand as failed for a stack on an architecture, in the table's order."""
    seen: dict[str, list[Observation]] = {}
    for one in filed:
        document = one.document
        about = (document.subject.application, stack_key(document), gpu_key(document))
        if about == (PROBES, stack, gfx) and not why_not(document):
            for name, observation in observations_of(document, one.path).items():
                seen.setdefault(name, []).append(observation)
    standing = {name: what_stands(seen[name]) for name in probes() if name in seen}
    return tuple(
        FailedProbe(
            probe=name,
            stack=stack,
            gfx=gfx,
            outcome=found.outcome,
            provenance=found.provenance.value,
            document=found.document,
            detail=found.detail,
        )
        for name, found in standing.items()
        if not found.passed and found.outcome not in IDLE
    )


def warnings_for(
    failed: Iterable[FailedProbe], needs: Sequence[Need], *, torch: bool
) -> tuple[ProbeWarning, ...]:
    """Pick the failed probes that concern a program.

    ``needs`` are the libraries that it asks for; ``torch`` says whether its environment has PyTorch.
    """
    asked = {_plain(name) for need in needs if not need.spelled for name in need.functions}
    found = (_warning(one, asked, needs, torch=torch) for one in failed)
    return tuple(warning for warning in found if warning is not None)


def _warning(
    failed: FailedProbe, asked: AbstractSet[str], needs: Sequence[Need], *, torch: bool
) -> ProbeWarning | None:
    if probes()[failed.probe].torch:
        return ProbeWarning(failed=failed) if torch else None
    shared = tuple(call for call in failed.calls if _plain(call) in asked)
    if shared:
        return ProbeWarning(failed=failed, shared=shared)
    library = next((need.named.title for need in needs if _may_call(need, failed.calls)), "")
    return ProbeWarning(failed=failed, library=library) if library else None


def _may_call(need: Need, calls: Sequence[str]) -> bool:
    """Whether a library whose calls cannot be seen may be asked for one of these."""
    if need.spelled and need.functions:  # the names in its data tell which
        return any(_plain(call) in map(_plain, need.functions) for call in calls)
    names = need.named.library.functions
    return not need.calls_known and names is not None and any(names.match(call) for call in calls)


def _plain(call: str) -> str:
    """Return a call's name without what tells its forms apart."""
    return _FORM.sub("", call)


def policies_for(results: Sequence[CapabilityResult]) -> dict[str, tuple[str, ...]]:
    """Name the settings for PyTorch that go around what failed, each with the probes that say so."""
    found: dict[str, tuple[str, ...]] = {}
    for result in results:
        policy = probes()[result.capability].policy
        if policy and result.outcome is not Outcome.PASS and result.outcome not in IDLE:
            found[policy] = (*found.get(policy, ()), result.capability)
    return found
