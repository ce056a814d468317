"""The PPO workload: its size, answer and checkpoints; and that a wrong kernel or a coarse product is seen."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scripts.bench.workload_record import judge_run, parse_record
from scripts.model import Level, Outcome
from tests.checkout import ROOT
from tests.native_cpu import environment, no_compiler

FOLDER = ROOT / "scripts" / "inside" / "ppo"
NAMES = ("trainer", "environment", "policy", "reference", "ppo")
COARSE = 12


@pytest.fixture(scope="module")
def parts() -> Iterator[dict[str, ModuleType]]:
    """Import the program's modules as it finds them, and forget them: other folders have such names, too."""
    before, path = dict(sys.modules), list(sys.path)
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name) for name in NAMES}
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - set(before):
            if str(FOLDER) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


def ppo(*words: str, fault: str = "", before: str = "") -> Any:
    """Run the program on the CPU reference; ``before`` is done to its modules first."""
    start = f"import sys; sys.path.insert(0, {str(FOLDER)!r}); {before}\nimport ppo; sys.exit(ppo.main())"
    command = [sys.executable, "-c", start, "--network=small", *words]
    return subprocess.run(
        command, env=environment(fault), capture_output=True, text=True, encoding="utf-8", timeout=200,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def report(done: Any) -> dict[str, Any]:
    record = parse_record(done.stderr)
    assert not record.fault, done.stderr
    return dict(record.data)


needs_native = pytest.mark.skipif(bool(no_compiler()), reason=no_compiler() or "-")
SHORT = ("--size=8", "--reach=-9")


def test_the_default_policy_has_as_many_parameters_as_the_published_one(parts: Any) -> None:
    shape = parts["policy"].Shape("default")
    layers = [[(x.inputs, x.outputs) for x in getattr(shape, name)] for name in ("actor", "critic")]
    assert layers == [[(27, 1152), (1152, 832), (832, 13)], [(27, 1152), (1152, 1024), (1024, 1)]]
    counted = sum(i * o + o for network in layers for i, o in network) + 13
    assert counted == shape.parameters == shape.first(1).size == 2_216_347


def test_no_two_parameters_share_a_place(parts: Any) -> None:
    shape = parts["policy"].Shape("small")
    row = np.zeros(shape.parameters)
    for layers in (shape.actor, shape.critic):
        for weights, biases in parts["policy"].matrices(row, layers):
            np.add(weights, 1, out=weights)
            np.add(biases, 1, out=biases)
    row[shape.log_std :] += 1
    assert (row == 1).all()


def test_the_possible_return_is_what_play_gives(parts: Any) -> None:
    """The bounds come from a recursion; here they are played, with no force and with the best one."""
    world = parts["environment"]
    move, push = world.dynamics()
    state_cost, force_cost = world.costs()
    gains, best = [], np.zeros_like(move)
    for _ in range(world.STEPS):
        gain = np.linalg.solve(force_cost + push.T @ best @ push, push.T @ best @ move)
        best = state_cost + move.T @ best @ (move - push @ gain)
        gains.append(gain)
    found = []
    for factor in (0.0, 1.0, 0.9, 1.1):
        chains = world.Chains(4000)
        chains.start(np.random.default_rng(3))
        found.append(sum(chains.step(-factor * chains.state @ gain.T).mean() for gain in reversed(gains)))
    assert found[:2] == pytest.approx(world.bounds(), rel=0.01)
    assert found[1] > max(found[2:]) > found[0], "less force and more force are both worse"
    assert [world.score(x) for x in world.bounds()] == pytest.approx([0, 1])


def test_the_references_gradient_is_the_losss(parts: Any) -> None:
    """Every kind of parameter, by differences of a loss that is written down here once more."""
    trainer, reference = parts["trainer"], parts["reference"]
    settings, shape = trainer.Settings(seed=5, chains=4, network="small"), parts["policy"].Shape("small")
    policy = reference.DoublePolicy(shape, settings)
    batch, _, _ = trainer.Trainer(policy, settings).collect(np.random.default_rng(1))
    policy.begin(batch)
    rng = np.random.default_rng(2)
    policy.row = policy.row + 0.02 * rng.standard_normal(policy.row.size)
    rows = np.arange(0, len(batch.target), 3)

    def loss(row: np.ndarray) -> float:
        policy.row = row
        seen, forces, old, advantage, target = (part[rows] for part in batch.parts())
        log_std = row[shape.log_std :]
        apart = (forces - policy._forward(shape.actor, seen)[-1]) / np.exp(log_std)
        ratio = np.exp((-0.5 * apart**2 - log_std - 0.5 * np.log(2 * np.pi)).sum(1) - old)
        surrogate = np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage).mean()
        value = 0.5 * ((policy._forward(shape.critic, seen)[-1][:, 0] - target) ** 2).mean()
        return float(-surrogate + 0.5 * value - 0.0005 * log_std.sum())

    row, gradient = policy.row.copy(), policy._gradient(rows)
    starts = [x for layer in (*shape.actor, *shape.critic) for x in (layer.weights, layer.biases)]
    for place in (*starts, *(x + 3 for x in starts[:-1]), shape.log_std, shape.parameters - 1):
        step = np.zeros_like(row)
        step[place] = 1e-5
        slope = (loss(row + step) - loss(row - step)) / 2e-5
        assert gradient[place] == pytest.approx(slope, rel=1e-4, abs=1e-7), place


@pytest.mark.slow
@needs_native
def test_a_run_is_right_and_tells_the_first_iteration_apart() -> None:
    done = ppo("--iterations=3", *SHORT)
    said = report(done)
    assert done.returncode == 0, done.stdout
    assert said["parameters"] == 3739
    assert len(said["iterations"]) == 2
    named = {"overall_sps", "collection_sps", "consumption_sps", "inference_s", "ppo_learn_s"}
    named |= {"kl", "entropy", "value_loss", "return"}
    assert named <= set(said["first"]) & set(said["iterations"][0])
    assert "iteration 1 (cold): overall_sps " in done.stdout
    assert "not a GPU" in done.stdout.splitlines()[-1]
    apart = said["weights_in_rates"]
    assert apart["one"] < 0.01, "they stayed together"
    assert apart["moved"] > 1, "and moved by rates"
    verdict = judge_run(
        parse_record(done.stderr), capability="ppo", exit_code=0, timed_out=False, application=True
    )
    assert (verdict.outcome, verdict.level) == (Outcome.PASS, Level.INTEGRATED)


@needs_native
@pytest.mark.proof
def test_the_same_seed_gives_the_same_run() -> None:
    runs = [report(ppo("--iterations=2", *SHORT, f"--seed={seed}")) for seed in (7, 7, 8)]
    learned = [
        [row[name] for row in run["iterations"] for name in ("kl", "value_loss", "return")] for run in runs
    ]
    assert learned[0] == learned[1] != learned[2]


@needs_native
@pytest.mark.proof
def test_a_run_goes_on_from_its_checkpoint_as_if_nothing_had_happened(tmp_path: Path) -> None:
    whole, halves = tmp_path / "whole.npz", tmp_path / "halves.npz"
    assert ppo("--iterations=4", *SHORT, f"--checkpoint={whole}").returncode == 0
    assert ppo("--iterations=2", *SHORT, f"--checkpoint={halves}").returncode == 0
    resumed = ppo("--iterations=4", *SHORT, f"--checkpoint={halves}", "--resume")
    assert report(resumed)["resumed_at"] == 2
    with np.load(whole) as one, np.load(halves) as other:
        assert sorted(one.files) == sorted(other.files)
        assert all(np.array_equal(one[name], other[name]) for name in one.files)
    assert list(tmp_path.glob("*.part")) == []


@needs_native
@pytest.mark.proof
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--seed=2",), "seed is not 2"),
        (("--size=9",), "chains is not 9"),
        (("--iterations=1",), "already has 1 iterations: ask for more with --iterations"),
        ((), "is no checkpoint"),
    ],
    ids=["seed", "size", "done", "torn"],
)
def test_a_checkpoint_that_a_run_cannot_go_on_from_is_refused(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    path = tmp_path / "c.npz"
    assert ppo("--iterations=1", *SHORT, "--seed=1", f"--checkpoint={path}").returncode == 0
    if not words:
        path.write_bytes(path.read_bytes()[:-2000])
    done = ppo("--iterations=2", *SHORT, "--seed=1", *words, f"--checkpoint={path}", "--resume")
    assert (done.returncode, report(done)["outcome"]) == (5, "error")
    assert told in report(done)["error"]


HOSTILE = {
    "object": {"done": np.array([{}], dtype=object)},
    "not a number": {"row": np.full(4, np.nan)},
    "text": {"row": np.array(["a"] * 4)},
    "complex": {"done": np.array(1j)},
    "infinite": {"format": np.array(np.inf)},
    "before the start": {"done": np.array(-(2**62))},
    "several": {"steps": np.arange(3)},
}


@pytest.mark.parametrize("name", [*HOSTILE, "a plain array", "no archive"])
def test_a_hostile_checkpoint_is_refused_in_a_sentence(
    tmp_path: Path, parts: dict[str, ModuleType], name: str
) -> None:
    trainer = parts["trainer"]
    whole = {"format": trainer.FORMAT, "seed": 1, "chains": 8, "done": 1, "steps": 1}
    whole |= {row: np.zeros(4) for row in ("row", "first", "second")}
    path = tmp_path / "c.npz"
    if name in HOSTILE:
        np.savez(path, **{**whole, **HOSTILE[name]})
    elif name == "no archive":
        path.write_bytes(b"PK\x03\x04" + bytes(60))
    else:
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    run = SimpleNamespace(
        settings=SimpleNamespace(seed=1, chains=8),
        policy=SimpleNamespace(shape=SimpleNamespace(parameters=4), restore=lambda *_: None),
    )
    with pytest.raises(ValueError, match=r"c\.npz "):
        trainer.resume(run, path)


def test_a_checkpoint_is_whole_or_not_there(
    parts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, shape = parts["trainer"], parts["policy"].Shape("small")
    settings = trainer.Settings(seed=1, chains=2, network="small")
    made = trainer.Trainer(parts["reference"].DoublePolicy(shape, settings), settings)
    trainer.save(made, tmp_path / "c.npz")
    before = (tmp_path / "c.npz").read_bytes()

    def full(file: Any, **_arrays: Any) -> None:
        file.write(b"half")
        raise OSError(28, "no space left")

    monkeypatch.setattr(trainer.np, "savez", full)
    with pytest.raises(OSError, match="no space"):
        trainer.save(made, tmp_path / "c.npz")
    assert (tmp_path / "c.npz").read_bytes() == before


#: What is changed in the kernels' text, and which part of the answer that spoils.
MUTANTS = {
    "no slope of tanh": ("back", "mul.f32 %f0, %f0, %f2;", ""),
    "wrong clip": ("loss", "and.pred", "or.pred"),
    "no entropy": ("loss", "sub.f32 %f8, %f8, %entropy_share;", ""),
    "no largest norm": ("norm", "min.f32 %f5, %f5, ONE;", "mov.f32 %f5, ONE;"),
    "another exponential": ("loss", "LOG2_E; ex2.approx.f32 %f14", "HALF; ex2.approx.f32 %f14"),
    "one row again and again": ("gather", "[%d0];", "[%rows];"),
}


@pytest.mark.slow
@needs_native
@pytest.mark.parametrize(
    "mutant",
    [pytest.param(name, marks=[pytest.mark.proof] * (name != "wrong clip")) for name in MUTANTS],
)
def test_a_wrong_kernel_is_seen(mutant: str) -> None:
    name, old, new = MUTANTS[mutant]
    body = f"kernels.BODIES[{name!r}]"
    changed = f"import trainer, kernels; {body} = {body}.replace({old!r}, {new!r})"
    done = ppo("--iterations=1", *SHORT, before=changed)
    assert done.returncode == 3, done.stdout
    assert "rates from the double precision run" in report(done)["wrong"]


@pytest.mark.slow
@needs_native
def test_a_wrong_product_is_seen() -> None:
    done = ppo("--iterations=1", *SHORT, fault="wrong")
    assert (done.returncode, report(done)["outcome"]) == (3, "incorrect")


@pytest.mark.slow
@needs_native
def test_a_policy_that_does_not_learn_is_not_right() -> None:
    done = ppo("--iterations=1", "--size=8")
    assert done.returncode == 3
    assert "of what is possible, not 0.50" in report(done)["wrong"]


@pytest.mark.slow
def test_products_of_tensor_cores_are_beyond_the_tolerance(parts: Any) -> None:
    """Inputs rounded to TF32 (10 bits): the weights differ by hundreds of times what is allowed."""
    policy, reference, program = parts["policy"], parts["reference"], parts["ppo"]

    def coarse(values: np.ndarray) -> np.ndarray:
        whole = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64) + (1 << COARSE)
        bits = (whole >> (COARSE + 1)) << (COARSE + 1)
        return bits.astype(np.uint32).view(np.float32).astype(np.float64)

    class Coarse(reference.DoublePolicy):  # type: ignore[name-defined,misc]  # its module is loaded by a fixture
        def _forward(self, layers: Any, seen: Any) -> Any:
            values = [seen]
            for number, (weights, biases) in enumerate(policy.matrices(self.row, layers)):
                sums = coarse(values[-1]) @ coarse(weights) + biases
                values.append(np.tanh(sums) if number < len(layers) - 1 else sums)
            return values

    options = program.parse(["--network=small"])
    apart = program.compare(lambda settings: Coarse(policy.Shape("small"), settings), options)
    assert apart["all"] > 100 * program.WEIGHTS[1]


@needs_native
@pytest.mark.proof
def test_the_small_policy_learns_on_the_cpu_reference() -> None:
    done = ppo()
    said = report(done)
    assert done.returncode == 0, done.stdout
    assert said["score"] >= 0.5
    assert said["iterations"][-1]["return"] > said["first"]["return"] + 2


def test_bad_options_are_usage_errors(parts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--size=0"], ["--iterations=0"], ["--seed=-1"], ["--resume"], ["--slowdown=-1"]):
        with pytest.raises(SystemExit) as caught:
            parts["ppo"].parse(words)
        assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_the_page_states_what_the_program_asks(parts: Any) -> None:
    page = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")
    assert "2,216,347" in page
    assert f"{parts['policy'].Shape('small').parameters:,}" in page
    assert [str(x) in page for x in parts["ppo"].WEIGHTS] == [True, True]
    assert json.dumps(parts["ppo"].DEFAULTS["default"][2]) in page
