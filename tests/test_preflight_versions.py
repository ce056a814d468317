"""What a stack reports beside what a program was built for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.app.context import ROOT
from scripts.app.known_facts import reported_versions, stack_facts
from scripts.lock.reader import read_lock
from scripts.model import Host
from scripts.preflight.coverage import (
    ReportedVersions,
    Verdict,
    versions_json,
    versions_sentence,
    wanted_versions,
)
from scripts.preflight.libraries import data_table
from scripts.preflight.ptx_table import ptx_tables
from tests.fatbins import container, ptx, sass
from tests.preflight_programs import dll, examined, exe, judged, ship, zluda

REPORTED = ReportedVersions(cuda="12.8", capability="8.6", source="a test")


def program(tmp_path: Path, runtime: str, *images: bytes) -> Path:
    sections = {".nv_fatb": container(*images)} if images else {}
    return ship(
        tmp_path / "p", {"app.exe": exe({runtime: ["cudaMalloc"]}, sections=sections), runtime: dll()}
    )


@pytest.mark.parametrize(
    ("runtime", "refused"),
    [("cudart64_110.dll", False), ("cudart64_12.dll", False), ("cudart64_13.dll", True)],
)
def test_only_a_runtime_of_a_newer_major_version_is_refused(
    tmp_path: Path, runtime: str, refused: bool
) -> None:
    verdict = judged(program(tmp_path, runtime), tmp_path, zluda(reported=REPORTED))
    found = [reason for reason in verdict.reasons if "error 35" in reason.text]
    assert bool(found) is refused
    if refused:
        assert (verdict.verdict, found[0].then) == (Verdict.REFUSES, "look for a build for CUDA 12")
        assert found[0].text.startswith(
            "app.exe uses the runtime of CUDA 13, and zluda-test reports CUDA 12.8"
        )
    assert not any("error 35" in r.text for r in judged(program(tmp_path, runtime), tmp_path).reasons)


@pytest.mark.parametrize(
    ("images", "said"),
    [((ptx(50), sass(90)), False), ((ptx(86),), False), ((sass(90), ptx(90)), True), ((), False)],
    ids=["older too", "equal", "newer alone", "none"],
)
def test_code_for_newer_gpus_alone_is_said(tmp_path: Path, images: tuple[bytes, ...], said: bool) -> None:
    path = program(tmp_path, "cudart64_12.dll", *images)
    reasons = judged(path, tmp_path, zluda(reported=REPORTED)).reasons
    found = [reason for reason in reasons if "reports capability 8.6" in reason.text]
    assert [reason.effect for reason in found] == ([Verdict.UNKNOWN] if said else [])


def test_both_are_said_in_one_line_and_in_json(tmp_path: Path) -> None:
    path = program(tmp_path, "cudart64_12.dll", ptx(52), sass(90))
    wanted = wanted_versions(examined(path, tmp_path).closure)
    assert versions_sentence(wanted, REPORTED, "zluda") == (
        "Built for CUDA 12 (cudart64_12.dll), sm_52 and newer; zluda reports CUDA 12.8 and capability 8.6"
    )
    assert versions_sentence(wanted, None, "zluda").endswith("; what zluda reports is unknown")
    assert versions_json(wanted, REPORTED) == {
        "wanted": {"cuda": "12", "runtime": "cudart64_12.dll", "capability": "5.2"},
        "reported": {"cuda": "12.8", "capability": "8.6", "source": "a test"},
    }
    nothing = wanted_versions(examined(ship(tmp_path / "q", {"plain.exe": exe()}), tmp_path).closure)
    assert versions_sentence(nothing, REPORTED, "zluda") == ""


def test_every_release_with_a_ptx_table_has_a_row_with_its_source() -> None:
    rows = data_table("reported.toml")["reported"]
    assert {table.name for table in ptx_tables()} <= {row.get("release") for row in rows}
    assert all(row["source"] for row in rows)


def test_what_the_lock_sets_is_what_is_reported() -> None:
    lock, host = read_lock(ROOT / "pins.lock"), Host(os="windows", machine="x86_64")
    inherited = {**os.environ, "ZLUDA_CC": "7.5", "CUDA_AMD_CPU_CUDA": "12.8", "CUDA_AMD_CPU_CAPABILITY": "x"}
    found = {
        name: stack_facts(lock, lock.stacks[name], host, None, inherited).reported
        for name in ("zluda-v6p69-sdk64", "overlay-hip713", "native-cuda", "cpu-reference")
    }
    assert [one and (one.cuda, one.capability) for one in found.values()] == [
        ("13.1", "8.6"),
        None,
        None,
        ("12.8", "12.1"),
    ]
    plain = reported_versions("", ("zluda-v7-preview.9",), {})
    assert plain is not None
    assert plain.capability == "8.5"
