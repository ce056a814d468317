"""``wrap --trace`` held against the PTX table: where the trace shows otherwise, the table is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.app.wrap_tracing import DOCUMENT, read_trace
from scripts.cli.views.wrap import trace_lines
from scripts.evidence.tracelog import TraceSummary
from tests.ptx_texts import function, kernel, text

TABLE = "zluda-v6"
FINE = text(kernel("fine"))
DROPS = text(kernel("gone", "lop3.b32 %r1, %r2, %r3, %r4, 1;"))
FAILS = text(kernel("lost", "mov.u64 %rd1, %clock64;"))
UNREADABLE = text(kernel("k", "add.s32 %r1, %r2, ~1;"))
ERRORS = "    Error parsing module, log has been written to module_0001.log\n"


def traced(
    tmp_path: Path, ptx: bytes, *, errors: bool, status: str = "CUDA_SUCCESS", table: str = TABLE
) -> TraceSummary:
    home = tmp_path / "trace" / "app.exe"
    home.mkdir(parents=True)
    call = f"cuModuleLoadData(module: 0x1, image: 0x2) -> {status}\n    Saved module to module_0001.ptx\n"
    (home / "log.txt").write_text(call + (ERRORS if errors else ""), encoding="utf-8")
    (home / "module_0001.ptx").write_bytes(ptx)
    if errors:
        (home / "module_0001.log").write_text("Unrecognized statement lop3\n", encoding="utf-8")
    return read_trace(tmp_path / "trace", Path("app.exe"), table=table)


@pytest.mark.parametrize(
    ("ptx", "errors", "status"),
    [
        (FINE, False, "CUDA_SUCCESS"),
        (DROPS, True, "CUDA_SUCCESS"),
        (UNREADABLE, True, "CUDA_SUCCESS"),
        (FAILS, False, "CUDA_ERROR_UNKNOWN"),
        (FINE, False, "CUDA_ERROR_OUT_OF_MEMORY"),
    ],
    ids=["fine", "drops", "unreadable", "fails", "another failure"],
)
def test_what_is_as_predicted_is_one_line(tmp_path: Path, ptx: bytes, errors: bool, status: str) -> None:
    summary = traced(tmp_path, ptx, errors=errors, status=status)
    assert summary.table is not None
    assert (summary.table.modules, summary.table.faults, summary.table.document) == (1, (), "")
    assert "  table    as the table zluda-v6 predicts for all 1 PTX texts" in list(trace_lines(summary))
    assert not (tmp_path / "trace" / DOCUMENT).exists()


@pytest.mark.parametrize(
    ("ptx", "errors", "status", "predicted", "shown"),
    [
        (FINE, True, "CUDA_SUCCESS", "takes all of it", "the layer's parser reports errors"),
        (
            DROPS,
            False,
            "CUDA_SUCCESS",
            "drops 1 function: gone: lop3.b32: unknown opcode",
            "the layer's parser reports no error",
        ),
        (
            UNREADABLE,
            False,
            "CUDA_SUCCESS",
            "cannot read it: the character ~",
            "the layer's parser reports no error",
        ),
        (FAILS, False, "CUDA_SUCCESS", "fails as a whole: %clock64", "the module was loaded"),
        (FINE, False, "CUDA_ERROR_UNKNOWN", "takes all of it", "loading it gave CUDA_ERROR_UNKNOWN"),
    ],
    ids=["takes less", "takes more", "reads more", "loads", "does not load"],
)
def test_where_the_trace_shows_otherwise_the_table_is_wrong_and_a_document_is_kept(
    tmp_path: Path, ptx: bytes, errors: bool, status: str, *, predicted: str, shown: str
) -> None:
    summary = traced(tmp_path, ptx, errors=errors, status=status)
    assert summary.table is not None
    (fault,) = summary.table.faults
    assert (fault.predicted, fault.shown) == (predicted, shown)
    lines = "\n".join(trace_lines(summary))
    assert "the table zluda-v6 is wrong for 1 of 1 PTX texts" in lines
    assert summary.table.document in lines
    kept = json.loads(Path(summary.table.document).read_text(encoding="utf-8"))
    assert (kept["table"], kept["modules"][0]["file"]) == (TABLE, "module_0001.ptx")
    assert kept["source"].startswith("vosen/ZLUDA@")
    assert kept["modules"][0]["errors"] == (["Unrecognized statement lop3"] if errors else [])
    body = summary.to_json()["table"]
    assert json.loads(json.dumps(body))["faults"][0]["shown"] == shown


@pytest.mark.parametrize(
    ("ptx", "table"),
    [
        (FINE, ""),
        (FINE, "zluda-unknown"),
        (text(".func other()\n;\n" + kernel("k", "call other, ();")), TABLE),
    ],
    ids=["no table", "unknown table", "made for linking"],
)
def test_what_cannot_be_compared_is_not(tmp_path: Path, ptx: bytes, table: str) -> None:
    assert traced(tmp_path, ptx, errors=True, table=table).table is None


def test_a_text_that_was_not_saved_is_passed_over(tmp_path: Path) -> None:
    summary = traced(tmp_path, FINE, errors=False)
    (tmp_path / "trace" / "app.exe" / "module_0001.ptx").unlink()
    assert read_trace(tmp_path / "trace", Path("app.exe"), table=TABLE).table is None
    assert summary.table is not None


def test_functions_that_are_dropped_are_counted_with_kernels(tmp_path: Path) -> None:
    ptx = text(function("helper", "red.global.add.u32 [%rd1], 1;"), kernel("k"))
    summary = traced(tmp_path, ptx, errors=True)
    assert summary.table is not None
    assert summary.table.faults == ()
