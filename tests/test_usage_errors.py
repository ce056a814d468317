"""Every line that asks for what cannot be ends with one code: 2, and 121 where ``wrap`` is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.cli.parse import LineError, read_line
from scripts.cli.verbs import TEST, VERBS, WRAP
from scripts.errors import ExitCode
from tests.checkout import ROOT, TYPIST, Checkout

WRAP_CODE = 121
RECORD = str(ROOT / "evidence" / "records" / "ppo-ab-2026-09-13.csv")
COMPARED = f"compare {RECORD} --baseline=upstream"
TRUE = f"--exe={sys.executable}"
AB = "ab --a=cpu-reference --b=cpu-reference"


def unreadable(task: str) -> list[list[str]]:
    """Return lines of one task that the parser refuses."""
    lines = [["--nope", task], [task, "--nope"], [task, "--json=1"], [task, "--json", "=", "x"]]
    if not VERBS[task].bare:
        lines.append([task, "stray"])
    for option in VERBS[task].options:
        name = f"--{option.name}"
        if option.is_switch:
            lines.append([task, f"{name}=1"])
        else:
            lines += [[task, name], [task, f"{name}="], [task, name, "--json"]]
        if not option.is_switch and not option.many:
            lines.append([task, *[name, *["x"] * option.takes] * 2])
    return lines


@pytest.mark.parametrize("task", [name for name in VERBS if name != TEST])
def test_a_line_that_cannot_be_read_is_a_usage_error(task: str) -> None:
    for line in unreadable(task):
        with pytest.raises(LineError) as refused:
            read_line(line)
        expected = WRAP_CODE if line[0] == WRAP else ExitCode.USAGE
        assert refused.value.code == expected, line
        assert refused.value.error.hint, line


@pytest.mark.parametrize(
    "line", ["chek", "--nope status", "-x status", "--help nothing", "help nothing", "--list nothing"]
)
def test_a_line_without_a_task_is_a_usage_error(line: str) -> None:
    with pytest.raises(LineError) as refused:
        read_line(line.split())
    assert refused.value.code == ExitCode.USAGE


#: What can be read, and asks for what cannot be: by kind.
REFUSED = {
    "missing required": [
        *("use", "preflight", "shim", "precompile", "compare", "ab", "ab --a=cpu-reference", "pins.add"),
        *("validate-round", "pins.add --url=https://example.org/x", "wrap", "wrap --keep"),
    ],
    "wrong choice": [
        *("setup --stack=nonsense", "use nonsense", "verify --stack=nonsense", "check --stack=nonsense"),
        *("fetch --for=plan9", "stage --for=plan9", "pins.update --for=plan9", "pins.check --only=nonsense"),
        *("pins.update --artifact=nonsense", "stacks --sbom=nonsense", "stacks --for-gpu=nonsense"),
        *("scan --gpu=abc", "setup --gpu=gfx9999", "setup --with=nonsense", "native --gpu=nonsense"),
        *("probe --only=nonsense", "probe --device=tpu", "run --workload=nonsense", "doctor --code=nonsense"),
        *("validate --stack=nonsense", "validate --stack=cpu-reference --require=nonsense"),
        *("validate-round --folder=FOLDER --require=nonsense", f"{AB} --workload=nonsense"),
        *(f"wrap {TRUE} --via=zzz", f"wrap {TRUE} --policy=zzz", f"wrap {TRUE} --without=zzz"),
        *(f"wrap {TRUE} --stack=nonsense", f"shim {TRUE} --stack=nonsense", f"{COMPARED} --candidate=zzz"),
        *(f"{COMPARED} --primary=zzz", f"{COMPARED} --plot=x.gif", "pins.add --url=http://x/y"),
    ],
    "out of range": [
        *("scan --gpu=99", "rollback --to=0", "rollback --to=abc", "rollback --to=99", "run --size=0"),
        *("run --size=99999999999", "run --trials=0", "run --budget=-1", "run --timeout=0"),
        *("check --timeout=abc", "probe --timeout=-1", "precompile --path=/ --timeout=abc"),
        *(f"{AB} --rounds=0", f"{AB} --width=abc", f"{AB} --margin=100", f"{AB} --slowdown=abc"),
        *(f"{COMPARED} --warmup=-1", f"{COMPARED} --margin=200", f"wrap {TRUE} --timeout=0"),
        *(f"wrap {TRUE} --set=NAME",),
    ],
    "excluded by another": [
        *("unwrap --ours --theirs", "unwrap --all --target=x", "precompile --path=/ --dynamic"),
        *(f"wrap {TRUE} --keep --via=env",),
    ],
    "no such input": [
        *("doctor --log=FOLDER/no", "scan --from-hipinfo=FOLDER/no", "report --import=FOLDER/no"),
        *("compare FOLDER/no.json", f"{COMPARED} --and=FOLDER/no", f"wrap {TRUE} --args-file=FOLDER/no"),
        *("matrix --output=FOLDER/file/site",),
    ],
}


@pytest.mark.proof
@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_is_a_usage_error(ready: Checkout, tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").touch()
    ready.front_door()
    wrong = {}
    for line in REFUSED[kind]:
        words = line.replace("FOLDER", str(tmp_path)).split(" ")
        done = TYPIST.type(ready.root, words, cwd=ready.root, env=ready.environ, timeout=240)
        expected = WRAP_CODE if words[0] == WRAP else ExitCode.USAGE
        if done.returncode != expected:
            wrong[line] = (done.returncode, done.stderr)
    assert wrong == {}


@pytest.mark.proof
@pytest.mark.parametrize(
    "line", ["--nope status", "chek", "status --nope", "scan --gpu", "use", "run --size=0", "wrap --nope"]
)
def test_both_forms_end_alike(ready: Checkout, line: str) -> None:
    ready.front_door()
    expected = WRAP_CODE if line.startswith(WRAP) else ExitCode.USAGE
    for form in ([sys.executable, "-m", "invoke"], [sys.executable, "-m", "scripts"]):
        done = subprocess.run(
            [*form, *line.split()],
            cwd=ready.root,
            env=ready.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if "site-packages" in p)},
            capture_output=True,
            text=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == expected, done.stdout + done.stderr
