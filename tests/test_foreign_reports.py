"""Reports of CUDA-for-AMD-Windows become documents of ours, at their true level and only where sound."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scripts.app.context import Workspace
from scripts.app.report import ReportResult, report
from scripts.errors import UsageError
from scripts.evidence.document import Document, Provenance
from scripts.evidence.evidence_io import dump, from_json
from scripts.evidence.foreign import documents_of, read_foreign
from scripts.lock.reader import read_lock
from scripts.model import Level, Outcome
from scripts.osal.redaction import Redactor

ROOT = Path(__file__).resolve().parents[1]

NOW = datetime(2099, 1, 1, tzinfo=UTC)  # their files may have been written today
#: As setup.ps1 writes it.
CONFIG: dict[str, Any] = {
    "schema": 2,
    "profile": "auto-gfx1200-zluda-v6-preview69-libtorch230-cu118",
    "gpu": {
        "name": "AMD Radeon RX 9060 XT",
        "arch": "gfx1200",
        "index": 0,
        "hip_visible_device": "0",
        "project_status": "validated-reference",
        "tested_reference": True,
        "scanner_report": "C:\\Users\\Jane Roe\\cuda\\.runtime\\gpu-report.json",
    },
    "zluda_root": "C:\\Users\\Jane Roe\\cuda\\.runtime\\zluda-core",
    "hip_root": "C:\\Program Files\\AMD\\ROCm\\6.4",
    "hip_sdk_target": "7.14.0a20260612",
    "libtorch_root": None,
    "custom_overlay_root": None,
    "zluda_cc": "8.6",
    "torch_allow_tf32_cublas_override": "1",
    "upstream": {
        "zluda_release": "v6-preview.69",
        "zluda_windows_asset": "zluda-windows-87531d3.zip",
        "libtorch": "2.3.0+cu118",
    },
}
#: As gpu-scan.ps1 writes it.
SCAN: dict[str, Any] = {
    "schema": 1,
    "generated_utc": "2026-09-21T08:00:00.1234567Z",
    "windows": "Microsoft Windows NT 10.0.26200.0",
    "hip_root": "C:\\Program Files\\AMD\\ROCm\\6.4\\",
    "hip_version": "6.4",
    "hip_info": "C:\\Program Files\\AMD\\ROCm\\6.4\\bin\\hipInfo.exe",
    "selected_gpu_index": 0,
    "selected_gpu": {
        "index": 0,
        "name": "AMD Radeon RX 9060 XT",
        "gfx": "gfx1200",
        "generation": "RDNA4",
        "memory": "15.92 GB",
        "driver_version": "32.0.31041.1004",
        "detection": "hipInfo",
        "project_tested": True,
        "project_status": "validated-reference",
    },
    "devices": [],
    "notes": "Use -GpuIndex to select a specific HIP device.",
}
#: As test-runtime.ps1 writes it.
RUNTIME: dict[str, Any] = {
    "schema": 2,
    "generated_utc": "2026-09-21T08:05:00.0000001Z",
    "core_ok": True,
    "core_groups_ok": True,
    "runtime_smoke_ok": True,
    "numerical_correctness_tested": False,
    "timed_out": False,
    "process_exit": 0,
    "cudnn_ok": False,
    "checks": {"nvcuda": True, "cublas": True, "cublaslt": True, "cusparse": True, "cufft": True},
    "stdout": "nvcuda: OK (C:\\Users\\Jane Roe\\cuda\\nvcuda.dll)\r\ncublas12: OK\r\ncublaslt12: OK\r\n"
    "cusparse12: OK\r\ncufft11: OK\r\n"
    "cudnn9: ERROR: Loading(LoadLibraryExW { source: Os { code: 126 } })",
    "stderr": "",
}


def probe(name: str, status: str, **more: Any) -> dict[str, Any]:
    """One entry as test-capabilities.ps1 writes it."""
    return {
        "test": name,
        "status": status,
        "capability_status": status,
        "elapsed_ms": 812.4,
        "timed_out": False,
        "process_hung_after_result": False,
        "process_crashed_after_result": False,
        "process_exit": 0,
        "result": {"schema": 1, "test": name, "status": status},
        "stdout": "",
        "stderr": "",
        "retried_after_timeout": False,
        "initial_attempt": None,
        **more,
    }


def numbers(largest: float) -> dict[str, Any]:
    """What their probes say of numbers that they compared."""
    return {
        "ok": True, "finite": True, "max_abs": largest, "mean_abs": 1e-6, "max_abs_over_ref_scale": 1e-6,
        "atol": 5e-3, "rtol": 5e-4,
    }  # fmt: skip


MATMUL = probe("matmul", "pass", result={"fp32": numbers(1e-4), "fp16": numbers(2e-2)})
CAPABILITY: dict[str, Any] = {
    "schema": 1,
    "generated_utc": "2026-09-21T08:20:00.5Z",
    "project_revision": "07638a7d9fa70415b99e8e0c227b34efbca619d0",
    "selected_tests": ["matmul", "amp", "sdpa_flash", "sdpa_mem_efficient", "fft", "conv2d", "nvml"],
    "runtime_hashes": {"launcher_sha256": None, "nvcuda_sha256": "AB" * 32},
    "runtime_root": "C:\\Users\\Jane Roe\\cuda\\.runtime",
    "hip_root": "C:\\Program Files\\AMD\\ROCm\\6.4",
    "pytorch": "2.3.0+cu118",
    "gpu": CONFIG["gpu"],
    "zluda_cc": "8.6",
    "tested_capabilities": 7,
    "passed": 2,
    "all_tested_capabilities_pass": False,
    "results": [
        MATMUL,
        probe("amp", "pass", result={"ok": True, "finite": True}),
        probe("sdpa_flash", "unsupported", result={"error": "no kernel in C:\\Users\\Jane Roe\\venv"}),
        probe("sdpa_mem_efficient", "incorrect", result={"numerics": numbers(0.9)}),
        probe("fft", "hang_after_result", capability_status="pass", result={"numerics": numbers(1e-6)}),
        probe("conv2d", "crash_after_result", capability_status="incorrect", result=numbers(3.0)),
        probe("nvml", "timeout", capability_status=None, result=None, timed_out=True),
    ],
}  # fmt: skip
#: As test-functional.ps1 writes it.
FUNCTIONAL: dict[str, Any] = {
    "schema": 1,
    "generated_utc": "2026-09-21T08:10:00Z",
    "available": True,
    "pytorch": "2.3.0+cu118",
    "gpu": CONFIG["gpu"],
    "core_tests": ["matmul"],
    "correctness_ok": True,
    "full_support": True,
    "tests": [MATMUL],
}
ALL = {
    "runtime-config.json": CONFIG,
    "gpu-report.json": SCAN,
    "runtime-test.json": RUNTIME,
    "functional-test.json": FUNCTIONAL,
    "capability-test.json": CAPABILITY,
}


def write(folder: Path, files: Mapping[str, Any]) -> Path:
    """Write files as Windows PowerShell does, with a mark at their start."""
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(b"\xef\xbb\xbf" + json.dumps(data, indent=4).encode())
    return folder


def imported(tmp_path: Path, source: Path) -> ReportResult:
    stage = tmp_path / "workspace" / "stage"
    ws = Workspace(
        root=stage.parent,
        lock_path=ROOT / "pins.lock",
        custom_lock=False,
        cache_root=tmp_path / "cache",
        stage=stage,
        state_root=tmp_path / "state",
        environ={},
    )
    return report(ws, import_=str(source), now=NOW)


def documents(tmp_path: Path, files: Mapping[str, Any], name: str = "") -> list[Document]:
    return [seen.document for seen in imported(tmp_path, write(tmp_path / "theirs", files) / name).added]


def shown(document: Document) -> dict[str, tuple[Level | None, Outcome]]:
    return {result.capability: (result.level, result.outcome) for result in document.results}


def test_a_folder_of_theirs_becomes_a_document_a_test(tmp_path: Path) -> None:
    runtime, functional, capability = documents(tmp_path, ALL)
    assert shown(runtime) == {
        "nvcuda": (Level.LOADABLE, Outcome.PASS),
        "cublas12": (Level.LOADABLE, Outcome.PASS),
        "cublaslt12": (Level.LOADABLE, Outcome.PASS),
        "cusparse12": (Level.LOADABLE, Outcome.PASS),
        "cufft11": (Level.LOADABLE, Outcome.PASS),
        "cudnn9": (None, Outcome.UNAVAILABLE),
    }
    assert shown(functional) == {"matmul": (Level.FUNCTIONAL, Outcome.PASS)}
    assert shown(capability) == {
        "matmul": (Level.FUNCTIONAL, Outcome.PASS),
        "amp": (Level.LOADABLE, Outcome.PASS),
        "sdpa_flash": (None, Outcome.REFUSED),
        "sdpa_mem_efficient": (Level.LOADABLE, Outcome.INCORRECT),
        "fft": (Level.FUNCTIONAL, Outcome.HANG_AFTER_RESULT),
        "conv2d": (Level.LOADABLE, Outcome.INCORRECT),
        "nvml": (None, Outcome.TIMEOUT),
    }
    for document in (runtime, functional, capability):
        assert document.provenance is Provenance.REPORTED
        assert document.subject.stack == "zluda-v6p69-sdk64"
        assert document.subject.digest is None
        assert document.subject.gpu is not None
        assert document.subject.gpu.gfx == "gfx1200"
        assert document.machine.driver == "32.0.31041.1004"
        assert document.source is not None
        assert document.source.date == "2026-09-21"
        text = dump(document).decode()
        assert "Jane" not in text
        assert "no hash shows which files were used" in text
        assert from_json(json.loads(text)) == document


def test_importing_again_files_nothing_twice(tmp_path: Path) -> None:
    source = write(tmp_path / "theirs", ALL)
    imported(tmp_path, source)
    assert len(imported(tmp_path, source).imported) == 3


@pytest.mark.parametrize("name", [n for n in ALL if n.endswith("-test.json")])
def test_one_file_is_known_by_its_content_and_asks_its_neighbours_where(tmp_path: Path, name: str) -> None:
    files = {"runtime-config.json": CONFIG, "gpu-report.json": SCAN, "sent by a friend.json": ALL[name]}
    (document,) = documents(tmp_path, files, "sent by a friend.json")
    assert document.source is not None
    assert document.source.name == f"CUDA-for-AMD-Windows, {name}"
    assert document.subject.stack == "zluda-v6p69-sdk64"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-8-sig"])
def test_every_encoding_of_powershell_is_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "gpu-profile.json"
    path.write_bytes(json.dumps(SCAN).encode(encoding))
    (seen,) = imported(tmp_path, path).added
    assert shown(seen.document) == {"device": (Level.DETECTED, Outcome.PASS)}


def changed(files: Mapping[str, Any], change: Callable[[Any], object]) -> dict[str, Any]:
    copied = copy.deepcopy(dict(files))
    change(copied)
    return copied


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "combination"),
    [
        (lambda f: f.pop("runtime-config.json"), "ZLUDA of unknown version with HIP 6.4"),
        (
            lambda f: f["runtime-config.json"].update(custom_overlay_root="C:\\overlay"),
            "ZLUDA v6-preview.69 with HIP 6.4 and a custom overlay",
        ),
        (lambda f: f["gpu-report.json"].update(hip_version="7.2"), "ZLUDA v6-preview.69 with HIP 7.2"),
        (
            lambda f: f["runtime-config.json"]["upstream"].update(
                zluda_windows_asset="zluda-windows-87531d3.zip.exe", zluda_release="mine"
            ),
            "ZLUDA mine with HIP 6.4",
        ),
        (
            lambda f: f["runtime-config.json"]["upstream"].update(
                zluda_windows_asset="zluda-windows-3fe1206.zip", zluda_release="v6"
            ),
            "ZLUDA v6 with HIP 6.4",
        ),
    ],
    ids=["no-configuration", "overlay", "another-hip", "another-archive", "another-nvcuda"],
)
def test_what_no_stack_pins_is_named_in_words(
    tmp_path: Path, change: Callable[[Any], object], combination: str
) -> None:
    document = documents(tmp_path, changed(ALL, change))[-1]
    assert (document.subject.stack, document.combination) == ("", combination)


def test_an_architecture_that_was_guessed_by_name_is_left_out(tmp_path: Path) -> None:
    files = changed(ALL, lambda f: f["gpu-report.json"]["selected_gpu"].update(detection="WMI-fallback"))
    for document in documents(tmp_path, files):
        assert document.subject.gpu is not None
        assert document.subject.gpu.gfx is None
        assert any("guessed" in note for note in document.notes)


def test_without_a_gpu_nothing_is_filed(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        documents(tmp_path, {"runtime-test.json": RUNTIME}, "runtime-test.json")
    assert caught.value.reference == "foreign-without-gpu"
    assert not (tmp_path / "workspace").exists()


def test_a_smoke_test_that_timed_out_shows_no_more_than_it_printed(tmp_path: Path) -> None:
    late = {**RUNTIME, "timed_out": True, "process_exit": None, "stdout": "nvcuda: OK\r\ncublas12: OK"}
    (document,) = documents(tmp_path, {**ALL, "late.json": late}, "late.json")
    assert document.outcome is Outcome.TIMEOUT
    assert shown(document)["nvcuda"] == (Level.LOADABLE, Outcome.PASS)


def test_words_of_theirs_raise_no_level(tmp_path: Path) -> None:
    claims = {**FUNCTIONAL, "full_support": True, "tests": [probe("matmul", "pass"), probe("x", "validated")]}
    (document,) = documents(tmp_path, {**ALL, "one.json": claims}, "one.json")
    assert shown(document) == {"matmul": (Level.LOADABLE, Outcome.PASS), "x": (None, Outcome.ERROR)}


def test_a_report_of_theirs_from_the_future_is_refused(tmp_path: Path) -> None:
    far = {**CAPABILITY, "generated_utc": "9999-12-31T23:59:59.9Z"}
    with pytest.raises(UsageError) as caught:
        documents(tmp_path, {"capability-test.json": far})
    assert caught.value.context == ("its date, 9999-12-31, is in the future",)


WITHIN = (Level.FUNCTIONAL, Outcome.PASS)
BEYOND = (Level.LOADABLE, Outcome.PASS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param({"max_abs": 99, "atol": 0.001}, BEYOND, id="far beyond"),
        pytest.param({"max_abs": 0.001, "atol": 0.001}, WITHIN, id="just within"),
        pytest.param({**numbers(99.0), "max_abs_over_ref_scale": 0.5}, BEYOND, id="rtol explains too little"),
        pytest.param({**numbers(2e-2), "max_abs_over_ref_scale": 1e-4}, WITHIN, id="rtol explains it"),
        pytest.param({"max_abs": 2e-2, "atol": 5e-3, "rtol": 1.0}, BEYOND, id="rtol of no known scale"),
        pytest.param({"max_abs": 1e-6, "atol": "large"}, BEYOND, id="no tolerance"),
        pytest.param({"max_abs": -1.0, "atol": 0.001}, BEYOND, id="no distance"),
        pytest.param({"rounds": [numbers(1e-6), {"max_abs": 9, "atol": 0.1}]}, BEYOND, id="in a list"),
        pytest.param({"rounds": [[numbers(1e-6)]]}, WITHIN, id="in a list of lists"),
    ],
)
def test_a_difference_counts_as_right_only_within_its_own_tolerance(
    tmp_path: Path, result: dict[str, Any], expected: tuple[Level, Outcome]
) -> None:
    entry = probe("matmul", "pass", result=result)
    files = {"capability-test.json": {**CAPABILITY, "results": [entry]}}
    (made,) = documents(tmp_path, files)
    assert shown(made) == {"matmul": expected}
    assert ("its own tolerance does not cover" in made.results[0].detail) is (expected != WITHIN)


def test_an_infinite_difference_is_wrong_even_where_a_hang_followed(tmp_path: Path) -> None:
    for status in ("pass", "hang_after_result"):
        result = {"max_abs": 12345.5, "atol": 0.001}
        entry = probe("matmul", status, capability_status="pass", result=result)
        folder = write(tmp_path / status, {})
        text = json.dumps({**CAPABILITY, "results": [entry]}).replace("12345.5", "1e400")
        (folder / "capability-test.json").write_text(text, encoding="utf-8")
        (seen,) = imported(tmp_path, folder).added
        assert shown(seen.document) == {"matmul": (Level.LOADABLE, Outcome.INCORRECT)}


def test_a_folder_of_documents_is_imported_and_what_is_none_is_named(tmp_path: Path) -> None:
    (good,) = documents(tmp_path, {"gpu-report.json": SCAN})
    folder = write(tmp_path / "mixed", {"functional-test.json": FUNCTIONAL, "odd.json": {"format": 1}})
    (folder / "good.json").write_bytes(dump(good))
    result = imported(tmp_path, folder)
    assert {seen.document.source.name for seen in result.added if seen.document.source} == {
        "CUDA-for-AMD-Windows, functional-test.json",
        "CUDA-for-AMD-Windows, gpu-report.json",
    }
    assert len(result.faults) == 1
    assert "odd.json" in result.faults[0]


def test_a_folder_without_any_document_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no document to import"):
        imported(tmp_path, write(tmp_path / "none", {"x.json": {}}))


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every value of a file, however deep it lies."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


#: Each takes the place of every value of every file of theirs.
WRONG: tuple[Any, ...] = (None, -1, True, [], {}, "x\n\u202ey" * 60, [[{}]])


@pytest.mark.slow
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.proof)])
def test_one_wrong_value_never_makes_an_invalid_document(tmp_path: Path, every: int) -> None:
    """Each value has its turn, with one of five wrong values; the slow proof tries all of them."""
    folder, lock = write(tmp_path / "theirs", ALL), read_lock(ROOT / "pins.lock")
    done = 0
    for name, data in ALL.items():
        for number, path in enumerate(places(data)):
            for wrong in WRONG[number % every :: every]:
                changed = copy.deepcopy(data)
                inner = changed
                for key in path[:-1]:
                    inner = inner[key]
                inner[path[-1]] = wrong
                write(folder, {name: changed})
                reports = read_foreign(folder / name)
                if reports is None:  # it is no file of theirs any more
                    continue
                try:
                    made = documents_of(reports, lock=lock, redactor=Redactor())
                except UsageError as error:
                    assert error.reference == "foreign-without-gpu"  # noqa: PT017 - the only refusal
                    continue
                done += 1
                for document in made:
                    assert document.provenance is Provenance.REPORTED
                    assert from_json(json.loads(dump(document))) == document
        write(folder, {name: data})
    assert done > 700 // every


def test_names_and_secrets_are_taken_out_of_every_text(tmp_path: Path) -> None:
    token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"  # noqa: S105 - planted, and no one's
    gpu = {"name": f"AMD {token}"}
    config = {**CONFIG, "gpu": {**CONFIG["gpu"], **gpu}}
    scan = {**SCAN, "selected_gpu": {**SCAN["selected_gpu"], **gpu, "driver_version": token}}
    for document in documents(tmp_path, {**ALL, "runtime-config.json": config, "gpu-report.json": scan}):
        assert token not in dump(document).decode()
