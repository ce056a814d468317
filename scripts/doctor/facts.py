"""What is known of the machine on which something failed; ``None`` and empty mean unknown, never "no"."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from scripts.doctor.context import architectures, hip_versions, lists_both_kinds
from scripts.host.support import support


class Facts(Struct, frozen=True, kw_only=True):
    """What a doctor on the machine knows.

    Attributes:
        os: ``windows`` or ``linux``.
        amd: whether AMD's software is what this is about.
        gfx: the AMD GPUs' architectures, the one in use first.
        mixed: whether an integrated and a discrete AMD GPU are both there.
        hip: versions of the HIP runtimes, the one in use first.
        libraries: HIP libraries that were found (``rocblas``, ``miopen`` …); ``None`` if nobody looked.
        variables: names of the environment variables that are set.
        non_ascii: whether the user's or the temporary folder has letters outside ASCII.
        overwritten: whether files beside the program are others than those that were put there.
        vc_runtime: whether the Visual C++ runtime is there.
        driver_lacks: whether the driver's HIP runtime lacks functions that the layer asks for.
        vanished: whether files of ours are gone, or an antivirus program says that it took some.
    """

    os: str = ""
    amd: bool | None = None
    gfx: tuple[str, ...] = ()
    mixed: bool | None = None
    hip: tuple[str, ...] = ()
    libraries: frozenset[str] | None = None
    variables: frozenset[str] | None = None
    non_ascii: bool | None = None
    overwritten: bool | None = None
    vc_runtime: bool | None = None
    driver_lacks: bool | None = None
    vanished: bool | None = None

    @property
    def support(self) -> str | None:
        """What AMD says of the GPU and the HIP version in use: ``RL``, ``R`` or ``none``."""
        if not self.gfx or not self.hip:
            return None
        said = support(self.gfx[0], self.hip[0]).verdict.value.replace(" ", "")
        return None if said == "unknown" else said


def holds(when: Mapping[str, object], facts: Facts) -> bool | None:
    """Say whether all conditions hold; ``None`` where one is unknown and none is false."""
    answers = [_CONDITIONS[name](wanted, facts) for name, wanted in when.items()]
    if False in answers:
        return False
    return None if None in answers else True


def with_text(facts: Facts, lines: Iterable[str]) -> Facts:
    """Add what the text tells of the GPU and of HIP; ``lines`` are as ``decoding.plain`` makes them.

    Where the text speaks of other GPUs only, it is another machine's, and is believed of GPUs and HIP alone.
    """
    told = list(lines)
    gfx, hip = architectures(told), hip_versions(told)
    if facts.gfx and (not gfx or set(gfx) & set(facts.gfx)):
        return replace(facts, hip=facts.hip or hip)
    mixed = lists_both_kinds(told)
    if facts.gfx:
        return replace(facts, gfx=gfx[:4], hip=hip or facts.hip, mixed=mixed, libraries=None)
    return replace(
        facts, gfx=gfx[:4], hip=hip or facts.hip, mixed=mixed if facts.mixed is None else facts.mixed
    )


def _gfx(wanted: object, facts: Facts) -> bool | None:
    patterns = wanted if isinstance(wanted, list) else [wanted]
    if not facts.gfx:
        return None
    return any(fnmatch.fnmatchcase(gfx, str(pattern)) for gfx in facts.gfx for pattern in patterns)


def _hip(wanted: object, facts: Facts) -> bool | None:
    try:
        return SpecifierSet(str(wanted)).contains(Version(facts.hip[0]), prereleases=True)
    except (IndexError, InvalidVersion):
        return None


def _support(wanted: object, facts: Facts) -> bool | None:
    return None if facts.support is None else facts.support in (wanted if isinstance(wanted, list) else [])


def _equal(known: object, wanted: object) -> bool | None:
    return None if known is None or known == "" else known == wanted


def _names(wanted: object, known: frozenset[str] | None, *, there: bool) -> bool | None:
    return None if known is None else (wanted in known) is there


_CONDITIONS: Final[Mapping[str, Callable[[object, Facts], bool | None]]] = {
    "os": lambda wanted, facts: _equal(facts.os, wanted),
    "gfx": _gfx,
    "hip": _hip,
    "support": _support,
    "mixed": lambda wanted, facts: _equal(facts.mixed, wanted),
    "absent": lambda wanted, facts: _names(wanted, facts.libraries, there=False),
    "set": lambda wanted, facts: _names(wanted, facts.variables, there=True),
    "non_ascii": lambda wanted, facts: _equal(facts.non_ascii, wanted),
    "overwritten": lambda wanted, facts: _equal(facts.overwritten, wanted),
    "vc_runtime": lambda wanted, facts: _equal(facts.vc_runtime, wanted),
    "driver_lacks": lambda wanted, facts: _equal(facts.driver_lacks, wanted),
    "vanished": lambda wanted, facts: _equal(facts.vanished, wanted),
}
#: What a rule may ask of the machine.
CONDITIONS: Final = frozenset(_CONDITIONS)
