"""Probes: the table, the choice, the judgement of an attempt, the score, two matrices side by side."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from scripts.app.probe import read_attempt
from scripts.bench.workload_record import MARK
from scripts.errors import UsageError
from scripts.model import CapabilityResult, Outcome
from scripts.osal.processes import Captured, Dialog
from scripts.probing import probe_matrix as matrices
from scripts.probing.catalogue import choose, probes
from scripts.probing.known_failures import policies_for
from scripts.probing.probe_matrix import MatrixKey, ProbeAttempt, ProbeChange, ProbeMatrix, differences, score
from tools.probes_page import questions

INSIDE = Path(__file__).resolve().parents[1] / "scripts" / "inside" / "probes"
#: The names in scripts/capability_probe.py of github.com/Speedstu/CUDA-for-AMD-Windows.
SEED = frozenset({
    "device_info", "driver_pci_bus_id", "driver_api", "driver_launch_ex", "driver_pdl_semantics",
    "driver_func_attributes", "driver_function_metadata", "driver_ptx_selection",
    "driver_buffer_clear", "nvml", "memory_copy", "streams_events", "elementwise", "reductions",
    "matmul", "bf16_matmul", "fft", "sparse_mm", "linalg_solve", "linalg_cholesky", "linalg_qr",
    "linalg_inv", "linalg_lstsq", "linalg_svd", "linalg_pinv", "linalg_eigh", "linalg_eigvalsh",
    "softmax", "layernorm", "gather_scatter", "random", "autograd_backward", "optimizer_sgd",
    "optimizer_adam", "amp", "conv2d", "batch_norm", "sdpa_math", "sdpa_flash",
    "sdpa_mem_efficient", "cuda_graph",
})  # fmt: skip


@pytest.fixture(scope="module")
def kit() -> ModuleType:
    """The kit as probes see it: they are started by path."""
    folders = [str(INSIDE), str(INSIDE.parent)]
    sys.path[:0] = folders
    try:
        import kit as found  # noqa: PLC0415 - as probes find it

        return found
    finally:
        for folder in folders:
            sys.path.remove(folder)


def result(name: str, outcome: Outcome, detail: str = "") -> CapabilityResult:
    return CapabilityResult(capability=name, level=None, outcome=outcome, detail=detail)


def captured(record: Any = None, *, code: int = 0, timed_out: bool = False, box: str = "") -> Captured:
    line = f"{MARK} {json.dumps(record)}\n" if record is not None else ""
    dialogs = (Dialog(title=box, text="amdhip64_7.dll was not found"),) if box else ()
    return Captured(returncode=code, stdout=b"", stderr=line.encode(), timed_out=timed_out, dialogs=dialogs)


def right(**more: Any) -> dict[str, Any]:
    case = {"case": "one", "outcome": "pass", "detail": "", "error_over_tolerance": 0.25}
    return {"outcome": "pass", "cases": 1, "results": [case], "error_over_tolerance": 0.25, **more}


def judged(given: Captured) -> ProbeAttempt:
    return read_attempt(probes()["cufft-1d"], given, folders=())


def test_every_probe_of_the_table_is_there_and_the_other_way_round() -> None:
    script = [sys.executable, str(INSIDE / "probe.py"), "--list"]
    listed = subprocess.run(script, capture_output=True, text=True, check=True, timeout=60).stdout.split("\n")
    there = {line.split()[1]: line.split()[0] for line in listed if line}
    assert there == {probe.name: probe.module for probe in probes().values()}


def test_all_names_of_the_project_we_follow_have_one_of_ours() -> None:
    assert {probe.seed for probe in probes().values() if probe.seed} == SEED
    assert len(SEED) == 41


def test_every_probe_says_what_it_asks_and_why() -> None:
    for probe in probes().values():
        assert questions(probe.module)[probe.name].rstrip(")").rstrip(), probe.name
        assert probe.why
        assert probe.calls


def test_probes_are_chosen_by_name_by_pattern_and_by_leaving_out() -> None:
    names = [probe.name for probe in choose("cufft-*,!cufft-many, memory-copy")]
    assert names == ["memory-copy", "cufft-1d", "cufft-2d", "cufft-3d", "cufft-refusals"]
    assert choose("'cufft-*,!cufft-many'") == choose("cufft-*,!cufft-many"), "cmd hands the quotes on"
    assert len(choose("")) == len(probes())
    assert 0 < len(choose("", quick=True)) < 10
    assert "endurance-soak" not in {probe.name for probe in choose("!endurance-soak")}
    with pytest.raises(UsageError, match="no probe is called 'cufft-9d'"):
        choose("cufft-1d,cufft-9d")


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        (captured(right()), Outcome.PASS),
        (captured(right(), timed_out=True), Outcome.HANG_AFTER_RESULT),
        (captured(right(), code=-11), Outcome.CRASH_AFTER_RESULT),
        (captured(right(error_over_tolerance=float("nan"))), Outcome.INCORRECT),
        (captured({**right(), "results": [{"outcome": "incorrect", "detail": "off"}]}), Outcome.INCORRECT),
        (captured({"outcome": "refused", "detail": "no"}, code=4), Outcome.REFUSED),
        (captured(timed_out=True), Outcome.TIMEOUT),
        (captured(code=-11), Outcome.ERROR),
        (captured(timed_out=True, box="System error"), Outcome.DIALOG),
        (captured(right(), box="System error"), Outcome.DIALOG),
    ],
)
def test_an_attempt_is_judged_by_its_line_and_its_end(given: Captured, outcome: Outcome) -> None:
    assert judged(given).result.outcome is outcome


def test_a_message_box_gives_its_title_as_the_reason() -> None:
    assert (
        "System error: amdhip64_7.dll" in judged(captured(timed_out=True, box="System error")).result.detail
    )


def test_libraries_from_elsewhere_show_nothing(tmp_path: Path) -> None:
    record = right(libraries={"driver": "/usr/lib/libcuda.so.1"})
    attempt = read_attempt(probes()["memory-copy"], captured(record), folders=(tmp_path,))
    assert (attempt.result.outcome, attempt.result.level) == (Outcome.ERROR, None)


def test_only_a_first_attempt_without_an_answer_is_made_again() -> None:
    slow = judged(captured(timed_out=True))
    assert matrices.again(slow)
    assert not matrices.again(judged(captured(right(), timed_out=True)))
    assert not matrices.again(judged(captured(code=1)))


def test_a_growing_cache_is_named_where_time_ran_out() -> None:
    from msgspec.structs import replace  # noqa: PLC0415 - used here alone

    slow = replace(judged(captured(timed_out=True)), compiled=4096)
    assert "it was compiling" in matrices.compiling(slow).result.detail
    assert "compiling" not in matrices.compiling(replace(slow, compiled=0)).result.detail


def test_the_score_counts_refusals_apart_and_leaves_out_what_is_absent() -> None:
    outcomes = [Outcome.PASS] * 6 + [Outcome.INCORRECT, Outcome.TIMEOUT, Outcome.REFUSED, Outcome.REFUSED]
    counted = score([result("x", outcome) for outcome in (*outcomes, Outcome.UNAVAILABLE)])
    assert (counted.passed, counted.failed, counted.refused, counted.absent) == (6, 2, 2, 1)
    assert counted.percent == 60.0
    assert score([result("x", Outcome.UNAVAILABLE)]).percent is None


def test_two_matrices_side_by_side() -> None:
    first = [result("a", Outcome.PASS), result("b", Outcome.REFUSED), result("c", Outcome.PASS)]
    second = [result("a", Outcome.INCORRECT, "off"), result("b", Outcome.PASS), result("d", Outcome.PASS)]
    found = {d.probe: d.change for d in differences(first, second)}
    assert found == {
        "a": ProbeChange.WORSE,
        "b": ProbeChange.BETTER,
        "c": ProbeChange.ONLY_FIRST,
        "d": ProbeChange.ONLY_SECOND,
    }
    assert all(d.change is ProbeChange.SAME for d in differences(first, first))


def test_a_matrix_survives_being_written_and_read() -> None:
    key = MatrixKey(stack="cpu-reference", digest="ab", program="python")
    matrix = ProbeMatrix(key=key, attempts=(judged(captured(right(libraries={"driver": "/x"}))),))
    assert matrices.from_json(json.loads(json.dumps(matrices.to_json(matrix)))) == matrix
    with pytest.raises(ValueError, match="no matrix"):
        matrices.from_json({"format": 2})


def test_a_matrix_that_grows_is_a_table_by_groups() -> None:
    chosen = choose("nvml,driver-api,memory-copy,memory-set")
    done = [result("nvml", Outcome.UNAVAILABLE), result("memory-set", Outcome.INCORRECT)]
    assert matrices.rows_of(chosen, done) == (
        ("driver", "0", "0", "0", "1", "1"),
        ("memory", "0", "1", "0", "0", "1"),
        ("all", "0", "1", "0", "1", "2"),
    )
    assert len(matrices.COLUMNS) == len(matrices.rows_of(chosen, done)[0])


def test_what_failed_names_the_setting_that_goes_around_it() -> None:
    found = policies_for([result("torch-fft", Outcome.INCORRECT), result("torch-conv2d", Outcome.PASS)])
    assert found == {"fft-on-cpu": ("torch-fft",)}
    assert policies_for([result("torch-fft", Outcome.UNAVAILABLE)]) == {}


# ---- the kit: what must not pass does not pass ----


def session(kit: ModuleType) -> Any:
    return kit.ProbeSession(seed=1, device="cuda", seconds=1.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1.1])
def test_near_lets_no_nan_no_infinity_and_no_error_beyond_pass(kit: ModuleType, bad: float) -> None:
    s = session(kit)
    assert s.near("right", np.array([1.0, 1.05]), [1.0, 1.0], 0.06)
    assert not s.near("wrong", np.array([1.0, bad]), [1.0, 1.0], 0.06)
    assert not s.near("shape", np.array([1.0]), [1.0, 1.0], 0.06)
    assert [case["outcome"] for case in s.cases] == ["pass", "incorrect", "incorrect"]


def test_near_refuses_a_nan_that_the_reference_has_too(kit: ModuleType) -> None:
    assert not session(kit).near("both", np.array([np.nan]), [np.nan], 1.0)
    assert not session(kit).near("both", np.array([np.inf]), [np.inf], 1.0)
    assert not session(kit).equal("both", np.array([np.nan]), np.array([np.nan]))
    assert not session(kit).near("no allowance", np.array([1.0]), [2.0], np.nan)


def test_a_refusal_must_be_the_right_one(kit: ModuleType) -> None:
    s = session(kit)
    assert s.refuses("any", 7)
    assert s.refuses("this", 1, 1, 2)
    assert not s.refuses("success", 0)
    assert not s.refuses("another", 7, 1, 2)


def test_a_written_guard_is_a_wrong_answer(kit: ModuleType) -> None:
    class Broken:
        def broken_guards(self) -> list[str]:
            return ["memory around buffer 0 was written"]

        def close(self) -> None:
            pass

    s = session(kit)
    s._cuda = Broken()
    s.need("right", right=True)
    s.close()
    assert s.cases[-1]["outcome"] == "incorrect"


def test_bfloat16_rounds_to_even(kit: ModuleType) -> None:
    halfway = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, -1 - 2.0**-8], np.float32)
    assert kit.from_bf16(kit.to_bf16(halfway)).tolist() == [1.0, 1.015625, -1.0]
