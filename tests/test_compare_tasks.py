"""``run --record``, ``compare`` and ``ab`` typed as a person types them, on the CPU reference."""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from scripts.app.ab import ab
from scripts.app.compare import choose_sides, compare
from scripts.app.context import Workspace, staged_runtime, workspace_from_environ
from scripts.app.run import LAST_LETTERS, RunResult, read_job, run
from scripts.app.trial import attempt
from scripts.bench.judgement import compare as compare_runs
from scripts.bench.trials import read_record, write_record
from scripts.cli.console import Out
from scripts.cli.views.measuring import show_run
from scripts.errors import TargetError, UsageError
from scripts.model import CapabilityResult, Level, Outcome
from tests.checkout import ROOT, Checkout, make_ready
from tests.trial_records import pairs, runs_of

pytestmark = pytest.mark.proof

PUBLISHED = ROOT / "evidence" / "records" / "ppo-ab-2026-09-13.csv"
SMALL = "--size=64"
STACK = "cpu-reference"


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory, shared_store: Path) -> Checkout:
    """One checkout with the CPU reference for all tests here; they only add reports to it."""
    return make_ready(tmp_path_factory.mktemp("compare"), cache=shared_store)


def place(checkout: Checkout, **environ: str) -> Workspace:
    """Stand in a checkout as a command does, without a process of its own."""
    return workspace_from_environ({**checkout.environ, **environ}, root=checkout.root)


def refused(function: Callable[..., Any], checkout: Checkout, **options: str) -> UsageError:
    """Call a use case that must refuse."""
    with pytest.raises(UsageError) as caught:
        function(place(checkout), **options)
    return caught.value


def published(checkout: Checkout, *words: str, code: int = 3) -> dict[str, Any]:
    return checkout.json(
        "compare", *words, "--warmup=1", "--baseline=upstream", "--candidate=custom", code=code
    )


@pytest.mark.parametrize("spelling", ["{}", "--records={}"], ids=["bare", "option"])
def test_the_published_comparison_by_command(mine: Checkout, spelling: str) -> None:
    said = published(mine, spelling.format(PUBLISHED))
    metric = said["metrics"]["overall_sps"]
    assert round(metric["baseline_median"], 3) == 13278.458
    assert round(metric["candidate_median"], 3) == 12875.798
    beside = metric["published_definition"]
    assert round(beside["median_delta_percent"], 2) == -3.03
    assert round(beside["mean_delta_percent"], 2) == -3.97
    changes = {
        name: round(said["metrics"][name]["published_definition"]["median_delta_percent"], 2)
        for name in ("collection_sps", "consumption_sps", "inference_s", "ppo_learn_s")
    }
    assert list(changes.values()) == [-6.23, -2.15, 7.32, 2.75]
    assert round(metric["delta_percent"], 2) == -2.48, "the estimator's own, not the published one"
    assert "log ratios" in metric["estimator"]
    assert metric["pairs"] == 2
    assert metric["needed_pairs"] == 9
    assert [round(end, 1) for end in metric["ci95_percent"]] == [-22.0, 22.0]
    assert (said["primary"], said["verdict"]) == ("overall_sps", "inconclusive")


TOLD = """\
ppo-ab-2026-09-13: custom against upstream (warm-up 1)
overall_sps (decides), more is better: inconclusive
    2 pairs: −2.5 %, between −22.0 % and +22.0 %
    all iterations pooled: medians 13,278.46 and 12,875.80, −3.03 %; means −3.97 %
"""


def test_what_a_person_reads(mine: Checkout, tmp_path: Path) -> None:
    picture = tmp_path / "Bild ä.svg"
    words = ("--warmup=1", "--candidate=custom", f"--plot={picture}")
    done = mine.run("compare", str(PUBLISHED), *words)
    assert done.returncode == 3
    assert done.stdout.startswith(TOLD)
    assert (
        "inconclusive: 2 pairs cannot tell custom from upstream by overall_sps; about 9 would be needed"
        in (done.stdout)
    )
    assert "measure about 9 pairs where these came from" in done.stdout
    assert "Trials of upstream alone lie 5.7 % apart." in done.stdout
    assert "answers of these trials were right" in done.stdout
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def recorded(folder: Path, changes: Any, **more: Any) -> str:
    return str(write_record(folder / "r.json", runs_of(pairs(changes), **more)))


@pytest.mark.parametrize(
    ("changes", "verdict", "code"),
    [
        ((0.05, 0.06, 0.05, 0.06), "better", 0),
        ((0.0, 0.001, 0.0, 0.001), "same", 0),
        ((-0.05, -0.06, -0.05, -0.06), "worse", 3),
        ((0.3, -0.3, 0.3, -0.3), "inconclusive", 3),
    ],
    ids=["better", "same", "worse", "inconclusive"],
)
def test_the_exit_code_is_the_verdict(
    mine: Checkout, tmp_path: Path, changes: Any, verdict: str, code: int
) -> None:
    said = mine.json("compare", recorded(tmp_path, changes), "--candidate=new", code=code)
    assert said["verdict"] == verdict
    assert said["conditions"]["different"]["stack"] == {"baseline": "old", "candidate": "new"}
    assert said["conditions"]["same"]["driver"] == "1.0"
    assert "gpu" in said["conditions"]["unknown"]


@pytest.mark.parametrize(
    ("option", "value", "reference"),
    [
        ("warmup", "x", "bad-number"),
        ("warmup", "9" * 5000, "bad-number"),
        ("margin", "0", "bad-margin"),
        ("margin", "nan", "bad-margin"),
        ("margin", "100", "bad-margin"),
        ("primary", "sps:sideways", "bad-primary"),
        ("primary", "watts", "no-primary"),
        ("baseline", "new", "which-runtimes"),
        ("candidate", "nobody", "which-runtimes"),
        ("and_", "missing.json", "record-unreadable"),
        ("plot", "x.gif", "bad-plot"),
        ("records", "", "records-needed"),
    ],
)
def test_what_cannot_be_read_is_usage(
    mine: Checkout, tmp_path: Path, option: str, value: str, reference: str
) -> None:
    options = {"records": recorded(tmp_path, (0.05, 0.06, 0.05, 0.06)), "candidate": "new", option: value}
    assert refused(compare, mine, **options).reference == reference


@pytest.mark.parametrize(("name", "start"), [("x.svg", b"<svg"), ("X.PNG", b"\x89PNG")])
def test_the_picture_has_the_form_its_name_asks_for(
    mine: Checkout, tmp_path: Path, name: str, start: bytes
) -> None:
    picture = tmp_path / name
    record = recorded(tmp_path, (0.05, 0.06, 0.05, 0.06))
    compare(place(mine), records=record, candidate="new", plot=str(picture))
    assert picture.read_bytes().startswith(start)


@pytest.mark.parametrize("name", ["a folder.svg", "no such folder/x.png"])
def test_a_picture_that_cannot_be_written_is_said_and_leaves_nothing(
    mine: Checkout, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "plots"
    (folder / "a folder.svg").mkdir(parents=True)
    record = recorded(tmp_path, (0.05, 0.06, 0.05, 0.06))
    said = refused(compare, mine, records=record, candidate="new", plot=str(folder / name))
    assert said.reference == "plot-not-writable"
    assert [path.name for path in folder.iterdir()] == ["a folder.svg"]


def test_two_runtimes_without_a_name_are_not_guessed(mine: Checkout, tmp_path: Path) -> None:
    record = recorded(tmp_path, (0.05, 0.06, 0.05, 0.06))
    said = mine.json("compare", record, code=2)
    assert said["error"]["reference"] == "which-runtimes"
    assert "old, new" in said["error"]["hint"]


def test_a_runs_record_is_joined_with_another(mine: Checkout) -> None:
    one = mine.json("run", SMALL, "--trials=2")
    assert (one["outcome"], one["trials"]) == ("pass", 2)
    assert one["native"]["outcome"] == "pass"
    assert one["native"]["gflops_float32"] > 0
    record = read_record(Path(one["record_file"]))
    assert [(t.number, t.right, len(t.iterations)) for t in record.trials] == [(1, True, 7), (2, True, 7)]
    facts = record.conditions[STACK]
    assert facts["digest"] == mine.json("status")["active"]["digest"]
    assert (facts["seed"], facts["size"]) == ("20260101", "64")
    assert set(record.trials[0].state) == {"clocks", "power"}
    assert record.created <= record.trials[0].started <= record.trials[1].started
    alone = refused(compare, mine, records=one["record_file"], and_=one["record_file"], baseline=STACK)
    assert alone.reference == "which-runtimes", "one runtime alone cannot be compared"
    other = run(place(mine), size="65", record=True).record_path
    assert refused(compare, mine, records=one["record_file"], and_=other).reference == "workloads-differ"


def test_ab_of_a_stack_against_itself(mine: Checkout) -> None:
    done = mine.run("ab", f"--a={STACK}", f"--b={STACK}", SMALL, "--rounds=2")
    assert done.returncode in {0, 3}, done.stderr
    assert "block 1 of 2: 2 pairs" in done.stderr
    assert "block 2 of 2: 4 pairs" in done.stderr
    assert "2 blocks of A B B A; stopped because the rounds are used up." in done.stdout
    path = next((mine.root / "stage" / "reports").glob("*-ab-cpu-reference/gemm.record.json"))
    record = read_record(path)
    a, b = f"{STACK}/a", f"{STACK}/b"
    assert [(t.runtime, t.number) for t in record.trials] == [
        (a, 1), (b, 1), (b, 2), (a, 2), (a, 3), (b, 3), (b, 4), (a, 4),
    ]  # fmt: skip
    assert path.with_suffix(".svg").exists()
    assert path.with_suffix(".png").exists()
    said = mine.json("compare", str(path), code=done.returncode)
    assert (said["baseline"], said["candidate"]) == (a, b)
    assert said["metrics"]["gflops_float32"]["pairs"] == 4
    assert said["answers_known"] is True
    assert said["conditions"]["same"]["digest"]


def test_ab_ends_with_the_first_wrong_answer_which_is_never_compared(mine: Checkout, tmp_path: Path) -> None:
    wrong = place(mine, CUDA_AMD_CPU_FAULT="wrong")
    got = ab(wrong, a=STACK, b=STACK, size="64", rounds="2")
    assert (got.exit_code, got.stopped, got.rounds, got.result) == (3, "failure", 0, None)
    assert "incorrect" in got.failure
    assert got.to_json()["comparison"] is None
    record = read_record(Path(got.record))
    assert [t.right for t in record.trials] == [False]
    assert record.trials[0].iterations == ()
    right = replace(record.trials[0], runtime=f"{STACK}/b", right=True)
    both = write_record(tmp_path / "both.json", replace(record, trials=(*record.trials, right)))
    assert refused(compare, mine, records=str(both)).reference == "answer-wrong"


@pytest.mark.parametrize(
    ("options", "reference"),
    [
        ({"b": ""}, "two-stacks-needed"),
        ({"b": "nonsense"}, "unknown-stack"),
        ({"b": "native-cuda"}, "not-staged"),
        ({"rounds": "0"}, "bad-number"),
        ({"width": "0"}, "bad-width"),
        ({"size": "16385"}, "bad-size"),
        ({"workload": "none"}, "no-such-workload"),
        ({"workload": "own.toml", "size": "5"}, "bad-size"),
    ],
    ids=["one", "unknown", "not-staged", "rounds", "width", "size", "workload", "own-size"],
)
def test_ab_refuses_what_it_cannot_measure(mine: Checkout, options: dict[str, str], reference: str) -> None:
    assert refused(ab, mine, **({"a": STACK, "b": STACK} | options)).reference == reference


def test_copies_arrive_unchanged(mine: Checkout) -> None:
    got = run(place(mine), workload="copy", size="2", record=True)
    assert got.result.outcome is Outcome.PASS
    record = read_record(Path(got.record_path))
    assert set(record.trials[0].iterations[0]) == {"h2d_gbps", "d2h_gbps", "d2d_gbps"}
    assert record.primary == "h2d_gbps"


@pytest.mark.posix_only
def test_figures_of_another_places_libraries_do_not_count(mine: Checkout, tmp_path: Path) -> None:
    """A record that names a library outside of the stack, as a CUDA found elsewhere would."""
    staged = staged_runtime(place(mine), STACK)
    elsewhere = replace(staged, runtime=replace(staged.runtime, path=tmp_path))
    job = read_job("copy", size="1", timeout="")
    assert attempt(place(mine), staged, job).result.outcome is Outcome.PASS
    away = replace(place(mine), environ={**mine.environ, "LD_LIBRARY_PATH": str(staged.runtime.path)})
    got = attempt(away, elsewhere, job)
    assert got.result.outcome is Outcome.ERROR
    assert "libraries of another place" in got.result.detail


def test_the_reference_starts_kernels_and_calls_it_simulated(mine: Checkout) -> None:
    got = run(place(mine), workload="launch-latency")
    assert (got.exit_code, got.result.outcome, got.result.level) == (0, Outcome.PASS, Level.FUNCTIONAL)
    assert got.simulated


PROGRAM = """\
import sys, time
loss, code = sys.argv[1:]
for step in range(3 if code != "silent" else 0):
    print(f"step {step}: {100 + step} it/s", flush=True)
if loss != "none":
    print("final loss", loss, flush=True)
if code == "hang":
    time.sleep(600)
sys.exit(int(code) if code.isdecimal() else 0)
"""
DESCRIPTION = """\
name = "train"
command = ["{{python}}", "train.py", "{loss}", "{code}"]
warmup = 1
primary = "sps"
[metrics.sps]
better = "higher"
regex = 'step \\d+: ([0-9.]+) it/s'
[answer]
regex = 'final loss (\\S+)'
value = 0.25
"""


@pytest.mark.parametrize(
    ("loss", "code", "outcome", "exit_code"),
    [
        ("0.25", "0", "pass", 0),
        ("0.26", "0", "incorrect", 3),
        ("nan", "0", "incorrect", 3),
        ("none", "0", "error", 3),
        ("none", "7", "error", 3),
        ("none", "hang", "timeout", 124),
        ("0.25", "7", "crash-after-result", 3),
        ("0.25", "hang", "hang-after-result", 3),
        ("0.25", "silent", "error", 3),
        ("0.26", "7", "incorrect", 3),
    ],
    ids=[
        *("right", "wrong", "nan", "no-answer", "crash", "hang", "right-then-crash", "right-then-hang"),
        *("no-figures", "wrong-then-crash"),
    ],
)
def test_a_program_of_ones_own(
    mine: Checkout, tmp_path: Path, *, loss: str, code: str, outcome: str, exit_code: int
) -> None:
    folder = tmp_path / "mein Programm"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM, encoding="utf-8")
    (folder / "w.toml").write_text(DESCRIPTION.format(loss=loss, code=code), encoding="utf-8")
    got = run(
        place(mine), workload=str(folder / "w.toml"), record=True, timeout="4" if code == "hang" else ""
    )
    assert (got.exit_code, got.result.outcome.value, got.workload) == (exit_code, outcome, "train")
    record = read_record(Path(got.record_path))
    assert (record.warmup, record.primary) == (1, "sps")
    trial = record.trials[0]
    assert trial.right is (outcome == "pass")
    assert [row["sps"] for row in trial.iterations] == ([100.0, 101.0, 102.0] if trial.right else [])
    if outcome == "pass":
        assert got.result.level is Level.INTEGRATED


def test_what_a_program_of_ones_own_said_before_it_failed_is_shown(mine: Checkout, tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(DESCRIPTION.format(loss="0.25", code="0"), encoding="utf-8")
    got = run(place(mine), workload=str(tmp_path / "w.toml"))  # train.py is not there
    assert "train.py" in got.last_words[-1]
    assert got.to_json()["last_words"] == list(got.last_words)
    output = io.StringIO()
    show_run(got, Out(stdout=output))
    assert f"    | {got.last_words[-1]}\n" in output.getvalue()


def test_last_words_are_few_short_and_printable() -> None:
    failed = CapabilityResult(capability="x", level=None, outcome=Outcome.ERROR)
    printed = b"\n".join(b"line %d" % n for n in range(9)) + b"\n\n\x1b[31m\xff" + b"a" * 5000 + b"\r\n"
    got = RunResult(stack="s", simulated=False, workload="w", result=failed, output=printed)
    assert got.last_words[:4] == ("line 5", "line 6", "line 7", "line 8")
    assert len(got.last_words) == 5
    assert len(got.last_words[-1]) == LAST_LETTERS
    assert all(line.isprintable() for line in got.last_words)
    assert replace(got, data={"outcome": "incorrect"}).last_words == ()


@pytest.mark.parametrize(
    ("workload", "outcome", "data", "figures"),
    [
        (
            "gemm",
            Outcome.PASS,
            {"gflops_float32": 7, "size": 9},
            [("cublas gemm", "gflops_float32", 7.0, "GFLOP/s")],
        ),
        ("gemm", Outcome.INCORRECT, {"gflops_float32": 7.0}, []),
        ("gemm", Outcome.PASS, {"gflops_float32": float("inf")}, []),
        ("gemm", Outcome.PASS, {"gflops_float32": "fast"}, []),
        ("of my own", Outcome.PASS, {"gflops_float32": 7.0}, []),
    ],
)
def test_a_right_answer_brings_its_figures(
    workload: str, outcome: Outcome, data: dict[str, object], figures: list[tuple[object, ...]]
) -> None:
    shown = CapabilityResult(capability="cublas gemm", level=Level.LOADABLE, outcome=outcome)
    got = RunResult(stack="s", simulated=False, workload=workload, result=shown, data=data)
    assert [(f.capability, f.metric, f.value, f.unit) for f in got.figures] == figures


def test_a_guarded_game_of_ones_own_is_not_started(mine: Checkout, tmp_path: Path) -> None:
    game = tmp_path / "game" / Path(sys.executable).name
    (game.parent / "EasyAntiCheat").mkdir(parents=True)
    (game.parent / "EasyAntiCheat" / "settings.json").write_text("{}", encoding="utf-8")
    shutil.copy(sys.executable, game)
    (tmp_path / "train.py").write_text("open('started', 'w')", encoding="utf-8")
    described = DESCRIPTION.format(loss="0.25", code="0").replace("{python}", f"game/{game.name}")
    (tmp_path / "w.toml").write_text(described, encoding="utf-8")
    with pytest.raises(TargetError) as caught:
        run(place(mine), workload=str(tmp_path / "w.toml"))
    assert caught.value.reference == "anti-cheat"
    assert not (tmp_path / "started").exists()


def test_the_control_collects_whatever_happens(tmp_path: Path) -> None:
    """The script for a real NVIDIA GPU, without one and without time: nothing is lost."""
    from tools import control  # noqa: PLC0415 - it is a program

    collected = control.Control(tmp_path / "out", tmp_path, control.ROOT, 0.0)
    collected.output.mkdir()
    step = collected.step("setup", "setup", most=5)
    assert step["detail"] == "no time left"
    collected.collect()
    assert sorted(p.name for p in collected.output.iterdir()) == [
        "control.tar.gz", "summary.json", "summary.txt",
    ]  # fmt: skip
    assert control.describe({"error": {"reference": "no-nvidia", "message": "none"}}) == "no-nvidia: none"


ROW = re.compile(r"^\| `(?P<file>[^`]+\.json)` \|.*\| (?P<verdict>[a-z]+): ", re.MULTILINE)
RECORDS = ROOT / "evidence" / "records"
SHOWN = {m["file"]: m["verdict"] for m in ROW.finditer((RECORDS / "README.md").read_text(encoding="utf-8"))}


def test_every_record_we_show_is_in_the_table() -> None:
    assert set(SHOWN) == {path.name for path in RECORDS.glob("*.json")}


@pytest.mark.parametrize("name", SHOWN)
def test_the_records_we_show_say_what_the_table_says(name: str) -> None:
    runs = read_record(RECORDS / name)
    baseline, candidate = choose_sides(runs, "", "")
    found = compare_runs(
        runs, baseline=baseline, candidate=candidate, warmup=runs.warmup, primary=runs.primary
    )
    assert found.verdict.value == SHOWN[name]
    assert found.answers_known is True
