"""What is known of the machine on which something failed; ``None`` and empty mean unknown, never "no"."""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from scripts.host.support import support

GPUS: Final = Path(__file__).resolve().parents[1] / "data" / "gpus.toml"
_GFX: Final = re.compile(r"\bgfx(?:[0-9]{3,4}|90[ac])\b")
_HIP: Final = re.compile(r"(?:rocm/|\bhip(?: sdk)? ?v?|\brocm ?)([5-9]\.\d|10\.\d)(?!\d)")
#: Lines that list the devices of a machine; others may list what a library was built for.
_LISTED: Final = re.compile(
    r"\b(?:dev|device|gpu)\b ?#?\d|agents?[=:]|\barch: |hip device|gcnarchname|marketing name"
    r"|\b(?:gpu|cpu|processor|graphics) ?[:=]"
)
#: How Windows names the GPU inside a processor.
_INSIDE: Final = re.compile(r"radeon\(tm\) graphics|with radeon (?:vega )?graphics")


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
    """Add what the text tells of the GPU and of HIP; ``lines`` are as ``letters.plain`` makes them.

    Where the text speaks of other GPUs only, it is another machine's, and is believed of GPUs and HIP alone.
    """
    told = list(lines)
    gfx = _architectures(told)
    hip = tuple(dict.fromkeys(_HIP.findall("\n".join(told))))[:4]
    if facts.gfx and (not gfx or set(gfx) & set(facts.gfx)):
        return replace(facts, hip=facts.hip or hip)
    if facts.gfx:
        return replace(facts, gfx=gfx[:4], hip=hip or facts.hip, mixed=_mixed(told), libraries=None)
    mixed = _mixed(told) if facts.mixed is None else facts.mixed
    return replace(facts, gfx=gfx[:4], hip=hip or facts.hip, mixed=mixed)


def _architectures(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the architectures that lines name, by name or by a product's."""
    joined = "\n".join(lines)
    named = _GFX.findall(joined) or [_models()[name] for name in _model_names().findall(joined)]
    return tuple(dict.fromkeys(named))


def _mixed(lines: Iterable[str]) -> bool | None:
    """Whether a text lists an integrated and a discrete GPU of one machine; it never denies it."""
    listed = [line for line in lines if _LISTED.search(line)]
    kinds = {_inside().get(gfx) for gfx in _architectures(listed)}
    kinds |= {True for line in listed if _INSIDE.search(line)}
    return True if {True, False} <= kinds else None


@cache
def _model_names() -> re.Pattern[str]:
    """Match any product name that stands for one architecture, the longest first."""
    names = sorted(_models(), key=len, reverse=True)
    return re.compile(r"\b(" + "|".join(re.escape(name) for name in names) + r")\b")


@cache
def _inside() -> Mapping[str, bool]:
    """Return by architecture whether it is a processor's; those that are both are left out."""
    found: dict[str, set[bool]] = {}
    for row in tomllib.loads(GPUS.read_text(encoding="utf-8"))["model"]:
        if "gfx" in row:
            found.setdefault(row["gfx"], set()).add(row["integrated"])
    return {gfx: kinds.pop() for gfx, kinds in found.items() if len(kinds) == 1}


@cache
def _models() -> Mapping[str, str]:
    """Return architectures by short product name (``rx 6600``), where a name means one only."""
    rows = tomllib.loads(GPUS.read_text(encoding="utf-8"))
    found: dict[str, str | None] = {}
    for row in rows["model"]:
        name = re.sub(r"\(tm\)|amd|radeon|graphics", "", row["name"].lower())
        short, gfx = " ".join(name.split()), row.get("gfx")
        found[short] = gfx if found.get(short, gfx) == gfx else None
    return {name: gfx for name, gfx in found.items() if gfx and any(c.isdigit() for c in name)}


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
