"""``run --budget``, ``run --exe``, ``ab --slowdown`` and ``precompile --dynamic`` as a person types them."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.app.overhead import BudgetVerdict, Overhead, overhead_of
from scripts.app.run import read_job, run
from scripts.app.trial import Attempt
from scripts.bench.judgement import CompareVerdict, interval_of
from scripts.bench.judgement import compare as compare_runs
from scripts.bench.trials import read_record
from scripts.bench.workloads import workloads
from scripts.model import CapabilityResult, Level, Outcome
from tests.checkout import Checkout, make_ready
from tests.python_programs import write_python_program
from tests.test_compare_tasks import place, refused

STACK = "cpu-reference"
FIGURE = re.compile(r"GFLOP/s|gflops|GB/s|gbps|steps/s|_sps|_us\b|_ms\b|products")


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory, shared_store: Path) -> Checkout:
    """One checkout with the CPU reference for all tests here; they only add reports to it."""
    return make_ready(tmp_path_factory.mktemp("workloads"), cache=shared_store)


def right(figure: float, name: str = "gflops_float32") -> Attempt:
    result = CapabilityResult(capability="x", level=Level.FUNCTIONAL, outcome=Outcome.PASS, detail="")
    return Attempt(result=result, iterations=({name: figure}, {name: figure * 2}, {name: figure * 1.5}))


@pytest.mark.parametrize(
    ("rates", "budget", "verdict", "percent"),
    [
        ([(100, 101), (100, 101.2), (100, 101), (100, 101.1)], 20, "within", 1.07),
        ([(100, 150), (100, 151), (100, 152), (100, 151)], 20, "exceeded", 51.0),
        ([(100, 110), (100, 130), (100, 115), (100, 125)], 20, "inconclusive", 19.7),
        ([(100, 90), (100, 91), (100, 90), (100, 91)], 0, "within", -9.5),
        ([(100, 101)], 20, "inconclusive", 1.0),
    ],
    ids=["within", "exceeded", "inconclusive", "faster", "one-pair"],
)
def test_an_overhead_is_judged_by_its_whole_interval(
    rates: list[tuple[float, float]], budget: float, verdict: str, percent: float
) -> None:
    job = read_job("gemm", size="64", timeout="")
    found = overhead_of(job, budget, [(right(stack), right(native)) for stack, native in rates])
    assert found.verdict.value == verdict
    assert found.percent[0] == pytest.approx(percent, abs=0.2)
    assert found.to_json()["pairs"] == len(rates)


def test_a_time_counts_the_other_way_round() -> None:
    job = read_job("launch-latency", size="8", timeout="")
    pairs = [(right(11, "roundtrip_us"), right(10, "roundtrip_us")) for _ in range(4)]
    assert overhead_of(job, 20, pairs).percent[0] == pytest.approx(10)


@pytest.mark.proof
def test_run_beside_the_devices_own_library(mine: Checkout) -> None:
    got = mine.json("run", "--size=64", "--budget=10000")
    overhead = got["overhead"]
    assert (overhead["pairs"], overhead["budget_percent"], overhead["verdict"]) == (4, 10000, "within")
    assert overhead["device"] == "CPU"
    record = read_record(Path(got["record_file"]))
    assert [(t.runtime, t.number) for t in record.trials] == [
        (STACK, 1), ("native", 1), ("native", 2), (STACK, 2),
        (STACK, 3), ("native", 3), ("native", 4), (STACK, 4),
    ]  # fmt: skip
    assert all(t.right for t in record.trials)
    assert record.conditions["native"]["stack"] == "none"
    assert record.baseline == "native"
    shown = mine.run("run", "--size=64", "--budget=10000", "--trials=2").stdout
    assert "the budget is 10000 %: " in shown
    assert "simulated on the CPU" in shown


@pytest.mark.slow
def test_an_exceeded_budget_is_an_exit_code_of_its_own(
    mine: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Overhead(
        library="x",
        device="CPU",
        metric="gflops_float32",
        budget=20,
        interval=interval_of([0.5, 0.5, 0.51, 0.5]),
    )
    monkeypatch.setattr("scripts.app.run.overhead_of", lambda *_: slow)
    got = run(place(mine), size="64", budget="20", trials="1")
    assert (got.result.outcome, got.exit_code) == (Outcome.PASS, 3)
    assert slow.verdict is BudgetVerdict.EXCEEDED


@pytest.mark.slow
def test_a_wrong_answer_has_no_overhead(mine: Checkout) -> None:
    got = run(place(mine, CUDA_AMD_CPU_FAULT="wrong"), size="64", budget="20")
    assert (got.exit_code, got.result.outcome, got.overhead) == (3, Outcome.INCORRECT, None)
    assert len(read_record(Path(got.record_path)).trials) == 1, "the first wrong answer ends it"


@pytest.mark.parametrize(
    ("options", "reference"),
    [
        ({"budget": "x"}, "bad-budget"),
        ({"budget": "-1"}, "bad-budget"),
        ({"budget": "nan"}, "bad-budget"),
        ({"budget": "20", "workload": "copy"}, "no-native-baseline"),
        ({"exe": sys.executable, "workload": "own.toml"}, "own-program"),
    ],
    ids=["word", "negative", "nan", "nothing-beside", "own-program"],
)
def test_what_cannot_be_put_beside_is_refused(
    mine: Checkout, options: dict[str, str], reference: str
) -> None:
    assert refused(run, mine, **options).reference == reference


@pytest.mark.posix_only
def test_another_python_runs_a_workload(mine: Checkout, tmp_path: Path) -> None:
    """A stand-in for the person's own Python: it says who ran it, then does what ours does."""
    program = write_python_program(
        tmp_path / "their-python",
        """
        import os, sys
        sys.stderr.write("theirs ran\\n")
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
        """,
    )
    got = run(place(mine), workload="launch-latency", size="8", exe=str(program))
    assert got.result.outcome is Outcome.PASS, got.output
    assert b"theirs ran" in got.output


@pytest.mark.slow
def test_without_torch_the_torch_workload_is_unavailable(mine: Checkout) -> None:
    got = mine.json("run", "--workload=ppo-torch", "--size=2", code=3)
    assert got["outcome"] == "unavailable"
    assert "PyTorch" in got["detail"]


@pytest.mark.proof
def test_a_stated_slowdown_is_in_the_record_and_in_the_figures(mine: Checkout) -> None:
    """Made three times as slow: no noise hides that, and the truth is a third of the rate."""
    done = mine.json(
        "ab", f"--a={STACK}", f"--b={STACK}", "--size=256", "--rounds=2", "--slowdown=200", code=3
    )
    assert done["verdict"] == "worse"
    record = read_record(Path(done["record"]))
    a, b = f"{STACK}/a", f"{STACK}/b"
    assert record.conditions[b]["slowed by"] == "200 %"
    assert "slowed by" not in record.conditions[a]
    found = compare_runs(record, baseline=a, candidate=b, warmup=0, primary=record.primary)
    assert found.verdict is CompareVerdict.WORSE
    assert -80 < math.expm1(found.findings[record.primary].interval.mean) * 100 < -45
    assert all(t.first for t in record.trials), "the first update is kept apart"


@pytest.mark.parametrize("text", ["-1", "x", "2000"])
def test_a_slowdown_that_is_none_is_refused(mine: Checkout, text: str) -> None:
    from scripts.app.ab import ab  # noqa: PLC0415 - beside its only use

    assert refused(ab, mine, a=STACK, b=STACK, slowdown=text).reference == "bad-slowdown"


#: Sizes that take a second on the CPU reference; what it has no code for is left out.
QUICK = {"gemm": 64, "gemm-float64": 64, "copy": 1, "launch-latency": 8, "memory-pressure": 4, "long-run": 1}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.proof] * (name not in {"gemm", "copy"})) for name in QUICK]
)
def test_figures_of_the_cpu_reference_are_never_a_gpus(mine: Checkout, name: str) -> None:
    words = ("run", f"--workload={name}", f"--size={QUICK[name]}", "--record")
    shown = mine.run(*words)
    assert shown.returncode == 0, shown.stderr
    assert FIGURE.search(shown.stdout), "there is a figure that could be taken for a GPU's"
    assert "simulated: this is the CPU, not a GPU" in shown.stdout.splitlines()[0]
    said = mine.json(*words)
    assert said["simulated"] is True
    assert "not a GPU" in said["record"]["device"]
    conditions = read_record(Path(said["record_file"])).conditions[STACK]
    assert conditions["gpu"] == "none (simulated on the CPU)"


@pytest.mark.slow
def test_a_comparison_of_the_cpu_reference_says_so(mine: Checkout) -> None:
    done = mine.run("ab", f"--a={STACK}", f"--b={STACK}", "--size=64", "--rounds=1")
    assert f"Simulated on the CPU, not a GPU's figures: {STACK}/a, {STACK}/b" in done.stdout
    path = next(
        line.removeprefix("Record: ") for line in done.stdout.splitlines() if line.startswith("Record: ")
    )
    assert "simulated on the CPU" in Path(path).with_suffix(".svg").read_text(encoding="utf-8")
    again = mine.run("compare", path)
    assert "Simulated on the CPU" in again.stdout


def test_every_size_here_is_of_a_workload() -> None:
    left_out = {"fft", "spmv", "conv", "ppo", "ppo-small", "ppo-torch"}
    assert set(QUICK) | left_out == set(workloads())


ANSWER = {
    "workload": "warm-torch", "outcome": "pass", "ok": True, "device": "stand-in", "libraries": {},
    "first": {"forward_s": 2.0, "backward_s": 3.0, "optimizer_s": 1.0, "update_s": 6.0, "loss": 2.3},
    "iterations": [
        {"forward_s": 0.1, "backward_s": 0.2, "optimizer_s": 0.1, "update_s": u, "loss": 2.2}
        for u in (0.4, 0.6, 0.5)
    ],
}  # fmt: skip


def warmed(folder: Path, answer: dict[str, Any]) -> Path:
    """A stand-in for a Python with a PyTorch that finds a GPU: it prints what our program would there."""
    text = f"import sys; sys.stderr.write('@@cuda-amd-result ' + {json.dumps(json.dumps(answer))} + '\\n')"
    ending = "sys.exit(0 if 'warm_torch.py' in sys.argv[1] else 9)"
    return write_python_program(folder / "their-python", f"{text}\n{ending}")


@pytest.mark.slow
@pytest.mark.posix_only
def test_one_update_warms_a_pytorch_up(mine: Checkout, tmp_path: Path) -> None:
    python = warmed(tmp_path, ANSWER)
    got = mine.json("precompile", "--dynamic", f"--exe={python}")
    assert got["updates"]["first"]["update_s"] == 6.0
    assert got["updates"]["later"]["update_s"] == 0.5, "the median"
    assert got["outcome"] == "pass"
    shown = mine.run("precompile", "--dynamic", f"--exe={python}").stdout
    assert "first update: forward 2 s, backward 3 s, optimizer 1 s, update 6 s" in shown
    assert "later ones, median: 0.5 s" in shown


@pytest.mark.slow
def test_a_python_without_torch_is_said_so(mine: Checkout) -> None:
    got = mine.json("precompile", "--dynamic", f"--exe={sys.executable}", code=3)
    assert got["outcome"] == "unavailable"
    assert "PyTorch" in got["detail"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("--dynamic",), (f"--exe={sys.executable}",), ("--dynamic", f"--exe={sys.executable}", "--path=.")],
)
def test_dynamic_needs_a_python_and_no_path(mine: Checkout, words: tuple[str, ...]) -> None:
    assert mine.json("precompile", *words, code=2)["error"]["reference"] == "dynamic-needs-python"
