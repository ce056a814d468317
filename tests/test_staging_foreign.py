"""A stack for another machine is chosen by its system and GPU alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.errors import HostError, UsageError
from scripts.lock.reader import read_lock
from scripts.model import Level
from scripts.staging.select import select_for

LOCK = read_lock(Path(__file__).resolve().parents[1] / "pins.lock")


def nothing(_stack: str, _gfx: str) -> Level | None:
    return None


@pytest.mark.parametrize(
    ("os", "gfx", "stack", "needs"),
    [
        ("windows", "gfx1100", "zluda-v7p11-sdk72", "HIP SDK >=7.2,<7.3"),
        ("linux", "gfx1100", "zluda-v6-linux", "ROCm"),
    ],
)
def test_the_newest_that_covers_the_gpu_is_taken_and_what_else_is_needed_is_said(
    os: str, gfx: str, stack: str, needs: str
) -> None:
    chosen = select_for(LOCK, nothing, os=os, gfx=gfx)
    assert (chosen.stack_id, chosen.unproven) == (stack, True)
    assert needs in chosen.warnings[0]


def test_evidence_goes_first_and_a_named_stack_is_checked() -> None:
    def worth(stack: str, _gfx: str) -> Level | None:
        return Level.FUNCTIONAL if stack == "zluda-v6-sdk64" else None

    assert select_for(LOCK, worth, os="windows", gfx="gfx1100").stack_id == "zluda-v6-sdk64"
    assert select_for(LOCK, nothing, os="windows", gfx="", want="zluda-v6-sdk64").stack_id == "zluda-v6-sdk64"
    whole = select_for(LOCK, nothing, os="windows", gfx="gfx1200", want="zluda-v7p10-rocm101-gfx120x")
    assert whole.warnings == (), "it brings its own HIP"
    with pytest.raises(HostError):
        select_for(LOCK, nothing, os="linux", gfx="gfx1100", want="zluda-v6-sdk64")


@pytest.mark.parametrize(("os", "gfx"), [("mac", "gfx1100"), ("windows", ""), ("windows", "6700")])
def test_what_is_not_known_must_be_typed(os: str, gfx: str) -> None:
    with pytest.raises(UsageError):
        select_for(LOCK, nothing, os=os, gfx=gfx)


@pytest.mark.parametrize(
    ("os", "gfx", "hint"),
    [
        ("windows", "gfx1031", "pins.update --gpu=gfx1031 --for=windows --write"),
        ("linux", "gfx803", "native --gpu=gfx803"),
        ("windows", "gfx906", "native --gpu=gfx906"),
    ],
)
def test_a_gpu_without_a_stack_gets_the_way_out(os: str, gfx: str, hint: str) -> None:
    with pytest.raises(HostError) as caught:
        select_for(LOCK, nothing, os=os, gfx=gfx)
    assert hint in caught.value.hint
