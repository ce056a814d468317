"""Read what a ``cuda_check`` printed, and judge it.

ZLUDA's ``cuda_check`` prints its lines in random order, exits 0 whatever happened and may hang at its
end, so the printed lines decide; the exit code only tells a crash. The best it can show is ``loadable``.
Format and quirks: vosen/ZLUDA@8a7931b ``cuda_check/src/win.rs``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scripts.model import CapabilityResult, Outcome, StackKind

CORE: Final = ("nvcuda", "cublas", "cublaslt", "cusparse", "cufft")
OPTIONAL: Final = ("cudnn", "nvml", "nvapi")


@dataclass(frozen=True, kw_only=True)
class CheckLine:
    """One library's line. ``call`` and ``code`` are set for a failed initialisation."""

    name: str
    ok: bool
    path: str | None = None
    error: str = ""
    loading: bool = False
    call: str | None = None
    code: int | None = None


@dataclass(frozen=True, kw_only=True)
class CheckOutput:
    """Everything a run printed: the lines understood, and the others as they were."""

    lines: tuple[CheckLine, ...]
    noise: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CheckVerdict:
    """The judgement of one run.

    Attributes:
        results: one result a library (at most ``loadable``), sorted by name; a run that did not end
            cleanly adds one for ``cuda_check`` itself.
        groups: the worst outcome of each group that counted (``nvcuda``, ``cublas`` …).
        loads: every core group passed. This is the answer to "do the libraries load?".
        outcome: ``pass`` also needs a clean end; ``hang-after-result`` and ``crash-after-result``
            say that everything had been printed before.
        reason: one sentence.
    """

    results: tuple[CapabilityResult, ...]
    groups: Mapping[str, Outcome]
    loads: bool
    outcome: Outcome
    reason: str


def parse_output(data: bytes | str) -> CheckOutput:
    """Read the lines of a run, in any encoding, order and company; never fails."""
    raise NotImplementedError


def judge(
    output: CheckOutput,
    *,
    expected: Iterable[str],
    exit_code: int | None,
    timed_out: bool,
    kind: StackKind = StackKind.TRANSLATION,
) -> CheckVerdict:
    """Judge one run.

    Args:
        output: what was printed.
        expected: names that the stack provides (``cublas11`` …); what is expected but not printed is
            ``not-reached``. Empty: nothing is known, so every core group must show up.
        exit_code: the process's exit code; ``None`` if it was ended by us.
        timed_out: whether we ended it.
        kind: a translation stack's ``OK`` for cuFFT and NVML means little, and the result says so.
    """
    raise NotImplementedError
