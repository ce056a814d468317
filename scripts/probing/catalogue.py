"""The table of probes, ``data/probes.toml``, and which of them are meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Final

from msgspec import Struct, convert

from scripts.errors import UsageError
from scripts.osal.text import count_of
from scripts.serialize import data_table

SECONDS: Final = 120.0
#: How many seconds a probe lasts that shows that something lasts.
LASTING: Final = 600.0


class Probe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table.

    Attributes:
        name: also the capability that its result stands for.
        group: the heading it stands under, with a reference and a tolerance in common.
        module: the file in ``scripts/inside/probes``.
        calls: the CUDA calls, or operations of PyTorch, that it makes.
        why: what goes wrong where it fails.
        seed: the probe of the project we follow that asks the same; empty: theirs has none.
        quick: part of ``setup`` and ``validate``.
        seconds: how long one attempt may take.
        gpu: why the CPU reference does not have it.
        alone: nothing else may use the GPU meanwhile.
        policy: the setting of ``data/apps.toml`` that goes around it for PyTorch.
        unshown: why no document shows that it passes on NVIDIA's own CUDA.
        leaves_out: what it does not ask although one might expect it, and why.
    """

    name: str
    group: str
    module: str
    calls: tuple[str, ...]
    why: str
    seed: str = ""
    quick: bool = False
    seconds: float = SECONDS
    gpu: str = ""
    alone: bool = False
    policy: str = ""
    unshown: str = ""
    leaves_out: str = ""

    @property
    def torch(self) -> bool:
        """Whether it needs PyTorch in the program that runs it."""
        return self.group == "torch"

    @property
    def lasting(self) -> bool:
        """Whether it uses up ``LASTING`` wherever it is given that much."""
        return self.seconds > LASTING


class ProbeGroup(Struct, frozen=True, kw_only=True):
    """What several probes have in common: what answers are compared with, and how far they may be off."""

    name: str
    reference: str
    tolerance: str
    probes: tuple[Probe, ...]


@cache
def groups() -> tuple[ProbeGroup, ...]:
    """Read the table."""
    found = []
    for group, table in data_table("probes.toml")["groups"].items():
        rows = [{"name": name, "group": group, **row} for name, row in table["probes"].items()]
        found.append({**table, "name": group, "probes": rows})
    return convert(found, tuple[ProbeGroup, ...])


@cache
def probes() -> Mapping[str, Probe]:
    """Return every probe by its name, in the order of the table."""
    return {probe.name: probe for group in groups() for probe in group.probes}


def choose(only: str, *, quick: bool = False) -> tuple[Probe, ...]:
    """Return the probes that are meant.

    ``only`` holds names and patterns such as ``cufft-*``, comma separated; one that begins with ``!`` leaves
    out. Empty: all. ``quick``: only those of the quick subset.

    Raises:
        UsageError: ``no-such-probe``: a name or pattern fits none.
    """
    plain = only.strip().strip("'\"")  # cmd hands quotes on
    words = [word.strip() for word in plain.split(",") if word.strip()]
    for word in words:
        if not any(fnmatchcase(name, word.removeprefix("!")) for name in probes()):
            msg = f"no probe is called {word.removeprefix('!')!r}"
            raise UsageError("no-such-probe", msg, hint="see docs/probes.md, which lists them all")
    wanted = [word for word in words if not word.startswith("!")] or ["*"]
    without = [word[1:] for word in words if word.startswith("!")]
    return tuple(
        probe
        for probe in probes().values()
        if (probe.quick or not quick) and _fits(probe.name, wanted) and not _fits(probe.name, without)
    )


def beginning(todo: Sequence[Probe], stack: str, *, limit: float, known: int = 0) -> str:
    """Say what is run now, which of it lasts, how to leave that out, and what is known already."""
    kept = f"{count_of(known, 'result')} with {stack} known from the interrupted run; --fresh asks again"
    if not todo:
        return kept
    text = f"{count_of(len(todo), 'probe')} with {stack}; this can take minutes"
    for probe in (one for one in todo if one.lasting):
        at_most = f"an attempt of it ends after {limit or probe.seconds:.0f} s at the latest"
        text += f"; {probe.name} comes last: {at_most}; to leave it out: --only='!{probe.name}'"
    return f"{text}; {kept}" if known else text


def _fits(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
