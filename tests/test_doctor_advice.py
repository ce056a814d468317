"""Advice fits the person: no DLL on Linux, the missing file by name, light steps first, nothing made up."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from scripts.doctor.diagnose import Finding, diagnose
from scripts.doctor.event import read_event
from scripts.doctor.knowledge import knowledge
from scripts.doctor.machine import Facts
from tests.doctor_cases import cases, ordinary, reports

#: What takes a download, an administrator or another machine.
HEAVY = re.compile(r"^(?:Install|Reinstall|Update|Build|Compile|Buy|Replace|Downgrade|Switch)\b")
#: What would have to be looked at first.
MADE_UP = re.compile(r"\byour (?:GPU|machine|driver|card|system) (?:is|has|lacks|runs|does)\b", re.IGNORECASE)
LINUX = "Ubuntu 24.04, Radeon RX 7900 XTX, torch 2.6.0+rocm6.2\n"
WINDOWS = "Windows 11, Radeon RX 7900 XTX, C:\\app\\run.exe\n"
LIBRARIES = (
    *("amdhip64", "rocblas", "hipblas", "rocsparse", "rocsolver", "rocfft", "hiprtc", "amd_comgr", "hiprand"),
    *("cublas", "cusparse", "nvrtc", "nvml", "bitsandbytes_rocm", "ggml-hip", "program_own"),
)


def said(finding: Finding) -> Iterator[str]:
    """Yield every sentence of a finding."""
    yield finding.cause
    yield from finding.fix
    yield from finding.tell


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_missing_library_is_named_in_the_words_of_its_system(name: str) -> None:
    linux = diagnose(f"{LINUX}ImportError: lib{name}.so.6: cannot open shared object file: No such file\n")
    windows = diagnose(f"{WINDOWS}FileNotFoundError: Could not find module 'C:\\app\\{name}.dll'\n")
    assert f"lib{name}.so.6" in linux[0].cause
    assert f"{name}.dll" in windows[0].cause
    assert not any("DLL" in sentence for finding in linux for sentence in said(finding))


CORPORA = {"cases": cases, "reports": reports}
every_corpus = pytest.mark.parametrize("corpus", ["cases", pytest.param("reports", marks=pytest.mark.proof)])


@pytest.mark.slow
@every_corpus
def test_no_report_from_linux_is_told_of_dlls_and_no_hole_stays_open(corpus: str) -> None:
    for case in CORPORA[corpus]():
        linux = read_event(case.text).context.system == "linux"
        for finding in diagnose(case.text, case.facts):
            for sentence in said(finding):
                assert not re.search(r"\{\w+\}", sentence), (case.id, finding.rule)
                assert not (linux and re.search(r"\bDLLs?\b", sentence)), (case.id, finding.rule)


@pytest.mark.slow
@every_corpus
def test_to_whom_amds_own_software_runs_nothing_is_wrapped_first(corpus: str) -> None:
    native = [case for case in CORPORA[corpus]() if read_event(case.text).native]
    assert len(native) > 100
    for case in native:
        for finding in diagnose(case.text, case.facts):
            assert len(finding.fix) == 1 or "invoke wrap" not in finding.fix[0], (case.id, finding.rule)


@pytest.mark.slow
@pytest.mark.parametrize("system", ["linux", "windows", ""])
def test_light_steps_come_first_and_nothing_is_made_up(system: str) -> None:
    for text in texts_of_every_cause():
        for finding in diagnose(text, Facts(os=system, amd=True)):
            assert not HEAVY.search(finding.fix[0]), (finding.rule, finding.fix[0])
            assert not any(MADE_UP.search(sentence) for sentence in said(finding)), finding.rule


def texts_of_every_cause() -> list[str]:
    """Return up to three texts for each cause that has any, each text once."""
    every = (*cases(), *reports())
    found = [[case.text for case in every if case.accepts(c.reference)][:3] for c in knowledge().causes]
    return list(dict.fromkeys(text for texts in found for text in texts))


#: What is no evidence, with a failure's words in it.
NO_EVIDENCE = {
    "calls itself harmless": "{}, but that is OK",
    "may be ignored": "{} (this can be safely ignored)",
    "a note": "note: {}",
    "a box of a form": "- [x] I have searched for: {}",
    "a page's address": "see https://github.com/ROCm/ROCm/issues/{}",
    "a probe": "cuGetProcAddress_v2(cuX) -> NOT_FOUND {}",
}
WORDS = (
    "MIOpen Error: Code object build failed",
    "rocBLAS error: Cannot read TensileLibrary.dat",
    "HIP error: invalid device function",
    "libcudart.so.12: cannot open shared object file",
    "Memory access fault by GPU node-1",
    "CUDA error: operation not supported",
)


@pytest.mark.parametrize("words", WORDS, ids=range(len(WORDS)))
@pytest.mark.parametrize("kind", NO_EVIDENCE)
def test_what_is_no_evidence_gives_no_finding(kind: str, words: str) -> None:
    text = words.replace(" ", "-").replace(":", "") if kind == "a page's address" else words
    assert [
        f.rule for f in diagnose(f"{LINUX}{NO_EVIDENCE[kind].format(text)}\ndone\n") if f.confidence.sure
    ] == []


@pytest.mark.slow
def test_ordinary_logs_get_no_sure_word_on_any_system() -> None:
    for path in ordinary()[::3]:
        for system in ("linux", "windows"):
            found = diagnose(path.read_bytes(), Facts(os=system))
            assert not any(finding.confidence.sure for finding in found), path.name
