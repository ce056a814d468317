"""A person's own program as a workload: what its description may say, and how its output is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.bench import workloads
from scripts.bench.workloads import OwnWorkload, read_own_workload
from scripts.errors import UsageError
from tests.bounds import in_proportion

GOOD = r"""
name = "train"
command = ["{python}", "train.py"]
timeout = 60
warmup = 1
primary = "sps"

[metrics.sps]
better = "higher"
unit = "steps/s"
regex = 'step \d+: ([0-9.,]+) it/s'

[metrics.learn_s]
better = "lower"
json = "learn_s"

[answer]
regex = "final loss ([0-9.eE+-]+|nan)"
value = 0.25
tolerance = 0.01
"""


def described(folder: Path, text: str) -> OwnWorkload:
    path = folder / "train.toml"
    path.write_text(text, encoding="utf-8")
    return read_own_workload(path)


def test_a_description_is_read(tmp_path: Path) -> None:
    own = described(tmp_path, GOOD)
    assert (own.name, own.command, own.timeout, own.warmup) == ("train", ("{python}", "train.py"), 60, 1)
    assert own.folder == tmp_path.absolute()
    assert own.metrics["learn_s"].better == "lower"


OUTPUT = (
    'step 1: 1,000.5 it/s\n{"learn_s": 2}\nnoise\nstep 2: 20 it/s\n {"learn_s": 2.5, "x": 1}\n{not json\n'
)


def test_every_finding_is_one_iteration(tmp_path: Path) -> None:
    rows = described(tmp_path, GOOD).iterations(OUTPUT, os.environ)
    assert rows == ({"sps": 1000.5, "learn_s": 2.0}, {"sps": 20.0, "learn_s": 2.5})


@pytest.mark.parametrize(
    ("output", "told"),
    [
        pytest.param('step 1: 5 it/s\nstep 2: 5 it/s\n{"learn_s": 1}', "equally often", id="counts-differ"),
        pytest.param("nothing to see", "no metric found", id="nothing"),
        pytest.param('step 1: 5 it/s\n{"learn_s": "NaN"}', "no number", id="nan"),
        pytest.param('step 1: 5 it/s\n{"learn_s": "fast"}', "no number", id="a-word"),
    ],
)
def test_output_that_cannot_be_read_is_an_error_not_a_guess(tmp_path: Path, output: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        described(tmp_path, GOOD).iterations(output, os.environ)


@pytest.mark.parametrize(
    ("output", "right"),
    [
        ("final loss 0.25", True), ("final loss 0.2599", True), ("final loss 0.2601", False),
        ("final loss nan", False), ("no loss", False), ("final loss 9\nfinal loss 0.25", True),
        ("final loss 0.25\nfinal loss 9", False),
    ],
)  # fmt: skip
def test_the_last_answer_counts_and_nan_never_passes(tmp_path: Path, output: str, right: bool) -> None:
    assert described(tmp_path, GOOD).answer.judge(output, os.environ)[0] is right


def test_an_answer_may_be_a_text(tmp_path: Path) -> None:
    text = GOOD.replace("value = 0.25\ntolerance = 0.01", 'equals = "0.25"')
    answer = described(tmp_path, text).answer
    assert answer.judge("final loss 0.25", os.environ) == (True, "0.25")
    assert answer.judge("final loss 0.250", os.environ) == (False, "0.250")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        pytest.param('name = "train"', "", "name", id="no-name"),
        pytest.param('name = "train"', 'name = "../x"', "name", id="name-is-a-path"),
        pytest.param('["{python}", "train.py"]', '"train.py"', "command", id="command-is-a-text"),
        pytest.param('["{python}", "train.py"]', "[]", "command", id="command-is-empty"),
        pytest.param("warmup = 1", "warmup = -1", "warmup", id="warm-up-negative"),
        pytest.param("warmup = 1", "warmup = true", "warmup", id="warm-up-true"),
        pytest.param("warmup = 1", "warm_up = 1", "warm_up", id="misspelt"),
        pytest.param("timeout = 60", "timeout = 0", "timeout", id="no-time"),
        pytest.param("timeout = 60", "timeout = inf", "timeout", id="endless"),
        pytest.param("timeout = 60", f"timeout = 1{'0' * 400}", "timeout", id="400-digits"),
        pytest.param('"train.py"]', '"a\\u0000b"]', "command", id="nul-in-the-command"),
        pytest.param('primary = "sps"', 'primary = "fps"', "primary", id="unknown-primary"),
        pytest.param('primary = "sps"', "primary = []", "primary", id="primary-is-a-list"),
        pytest.param('better = "lower"', 'better = "less"', "metrics.learn_s.better", id="direction"),
        pytest.param('better = "lower"', "better = []", "metrics.learn_s.better", id="direction-is-a-list"),
        pytest.param("([0-9.,]+) it/s", "a{99999999999}(b)", "regular expression", id="regex-too-large"),
        pytest.param('json = "learn_s"', "", "metrics.learn_s", id="no-way-to-find-it"),
        pytest.param('json = "learn_s"', 'json = "a"\nregex = "(b)"', "metrics.learn_s", id="two-ways"),
        pytest.param("([0-9.,]+) it/s", "[0-9]+ it/s", "one group", id="no-group"),
        pytest.param("([0-9.,]+) it/s", "([0-9", "regular expression", id="bad-regex"),
        pytest.param("value = 0.25", "", "answer", id="no-answer-value"),
        pytest.param("value = 0.25", 'value = 0.25\nequals = "x"', "answer", id="two-answers"),
        pytest.param("value = 0.25", 'value = "0.25"', "answer.value", id="answer-is-a-text"),
        pytest.param("tolerance = 0.01", "tolerance = -1", "answer.tolerance", id="negative-tolerance"),
        pytest.param("[answer]", "[answers]", "answers", id="no-answer"),
    ],
)
def test_a_wrong_description_is_refused_by_key(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in GOOD
    with pytest.raises(UsageError) as caught:
        described(tmp_path, GOOD.replace(old, new))
    assert caught.value.reference == "workload-invalid"
    assert told in caught.value.message


@pytest.mark.parametrize("text", ["name = ", "\x00", "a = " + "[" * 50_000], ids=["torn", "nul", "deep"])
def test_what_is_no_toml_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        described(tmp_path, text)
    assert caught.value.reference == "workload-unreadable"


@pytest.mark.parametrize("line", ["a" + ".a" * 100_000 + " = 1", "[a" + ".a" * 100_000 + "]"])
def test_deep_keys_are_refused_at_once(tmp_path: Path, line: str) -> None:
    with in_proportion(), pytest.raises(UsageError) as caught:
        described(tmp_path, f"# a comment\n{line}\n{GOOD}")
    assert caught.value.reference == "workload-invalid"
    assert "line 2: keys of at most 32 levels" in caught.value.message


def test_a_pattern_may_have_any_number_of_dots(tmp_path: Path) -> None:
    described(tmp_path, GOOD.replace("final loss ([", "." * 99 + "final loss (["))


@pytest.mark.slow
def test_a_pattern_that_never_ends_is_stopped_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take 2 to the power of 60 steps: without a bound this test does not end."""
    monkeypatch.setattr(workloads, "SEARCH_SECONDS", 2.0)
    own = described(tmp_path, GOOD.replace(r"step \d+: ([0-9.,]+) it/s", "((?:s+)+)x"))
    with pytest.raises(ValueError, match="takes more than 2 s"):
        own.iterations("s" * 60, os.environ)
    own = described(tmp_path, GOOD.replace("final loss ([0-9.eE+-]+|nan)", "((?:s+)+)x"))
    with pytest.raises(ValueError, match="takes more than 2 s"):
        own.answer.judge("s" * 60, os.environ)


def test_a_pattern_that_finds_too_much_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.osal.output_log.CAPTURE_CAP", 1000)
    monkeypatch.setattr(workloads, "CAPTURE_CAP", 1000)
    own = described(tmp_path, GOOD.replace(r"step \d+: ([0-9.,]+) it/s", "(s+)"))
    with pytest.raises(ValueError, match="finds too much"):
        own.iterations("s" * 2000, os.environ)


def test_a_search_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "_SEARCH", "raise SystemExit(7)")
    own = described(tmp_path, GOOD.replace(r"step \d+: ([0-9.,]+) it/s", "(s+)"))
    with pytest.raises(ValueError, match="ended with 7"):
        own.iterations("s", os.environ)
