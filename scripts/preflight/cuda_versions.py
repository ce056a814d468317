"""The CUDA version and compute capability that a stack reports, beside what a program was built for.

A driver serves every runtime of its own major version and of older ones; a runtime of a newer major version
gets error 35 (cudaErrorInsufficientDriver) from every call. Capabilities count only where a program compares
them itself: a translation layer takes PTX for any processor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from scripts.preflight.coverage import Reason, ReportedVersions, Verdict
from scripts.preflight.libraries import Part
from scripts.preflight.needs import RANKS, Closure, Code, Need


class WantedVersions(Struct, frozen=True, kw_only=True):
    """What a program was built for.

    Attributes:
        cuda: the newest major version among the CUDA runtimes that its files use; empty where none tells.
        runtime: the runtime's file, as asked for.
        targets: by file, the lowest processor that it has device code for.
    """

    cuda: str = ""
    runtime: str = ""
    targets: Mapping[str, int] = {}

    @property
    def lowest(self) -> int | None:
        """The oldest processor that any of its files has device code for."""
        return min(self.targets.values(), default=None)


def wanted_versions(closure: Closure) -> WantedVersions:
    """Return what the files of a program tell of what it was built for."""
    runtimes = [need for need in closure.needs if _runtime(need)]
    newest = max(runtimes, key=lambda need: int(need.named.cuda), default=None)
    targets = {
        visited.path.name: lowest
        for visited in closure.visited
        if (lowest := _lowest(visited.facts.code)) is not None
    }
    return WantedVersions(
        cuda=newest.named.cuda if newest is not None else "",
        runtime=newest.file if newest is not None else "",
        targets=targets,
    )


def version_reasons(closure: Closure, stack: str, reported: ReportedVersions | None) -> Iterator[Reason]:
    """Say where a program was built for more than a stack reports."""
    if reported is None:
        return
    major, capability = int(reported.cuda.split(".")[0]), _number(reported.capability)
    for need in closure.needs:
        if _runtime(need) and int(need.named.cuda) > major:
            name = need.asker.name
            text = (
                f"{name} uses the runtime of CUDA {need.named.cuda}, and {stack} reports "
                f"CUDA {reported.cuda}: every call of that runtime fails (error 35)"
            )
            sure = RANKS[need.how] <= RANKS["delay"]
            yield Reason(
                effect=Verdict.REFUSES if sure else Verdict.PARTIAL,
                weight=84,
                text=text,
                file=name,
                then=f"look for a build for CUDA {major}",
            )
    for name, lowest in wanted_versions(closure).targets.items():
        if lowest > capability:
            text = (
                f"{name} has device code for sm_{lowest} and newer alone, and {stack} reports capability "
                f"{reported.capability}: a program that compares the two may turn the GPU down"
            )
            yield Reason(effect=Verdict.UNKNOWN, weight=36, text=text, file=name)


def versions_sentence(wanted: WantedVersions, reported: ReportedVersions | None, stack: str) -> str:
    """Put both in one line; empty where the program tells nothing."""
    words = [f"CUDA {wanted.cuda} ({wanted.runtime})"] if wanted.cuda else []
    words += [f"sm_{wanted.lowest} and newer"] if wanted.lowest is not None else []
    if not words:
        return ""
    says = f"what {stack} reports is unknown"
    if reported is not None:
        says = f"{stack} reports CUDA {reported.cuda} and capability {reported.capability}"
    return f"Built for {', '.join(words)}; {says}"


def versions_json(wanted: WantedVersions, reported: ReportedVersions | None) -> dict[str, object]:
    """Return both as plain data."""
    lowest = wanted.lowest
    return {
        "wanted": {
            "cuda": wanted.cuda or None,
            "runtime": wanted.runtime or None,
            "capability": f"{lowest // 10}.{lowest % 10}" if lowest is not None else None,
        },
        "reported": None
        if reported is None
        else {"cuda": reported.cuda, "capability": reported.capability, "source": reported.source},
    }


def _runtime(need: Need) -> bool:
    """Whether a need is a CUDA runtime of a known version."""
    return need.named.library.part is Part.RUNTIME and need.named.cuda.isdigit()


def _lowest(code: Sequence[Code]) -> int | None:
    """Return the lowest processor that a file's loadable code is for."""
    loaded = [one for one in code if not one.relocatable]
    numbers = [
        *(sm for one in loaded for sm, _, _, _ in one.ptx),
        *(sm for one in loaded for sm, _, _ in one.sass),
    ]
    return min(numbers, default=None)


def _number(capability: str) -> int:
    """Turn 8.6 into 86."""
    major, _, minor = capability.partition(".")
    return int(major) * 10 + int(minor)
