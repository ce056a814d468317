"""The templates in ``docs/templates``, each with a program that prints what the real one prints."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from scripts.app.run import RunResult, run
from scripts.bench.trials import read_record
from scripts.bench.workloads import read_own_workload
from scripts.model import Outcome
from tests.checkout import ROOT, Checkout, make_ready
from tests.python_programs import write_python_program
from tests.test_compare_tasks import place

TEMPLATES = ROOT / "docs" / "templates"


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory, shared_store: Path) -> Checkout:
    """One checkout with the CPU reference for all tests here; they only add reports to it."""
    return make_ready(tmp_path_factory.mktemp("templates"), cache=shared_store)


def copied(name: str, folder: Path) -> Path:
    return Path(shutil.copy(TEMPLATES / name, folder))


def ran(mine: Checkout, description: Path) -> RunResult:
    return run(place(mine), workload=str(description), record=True)


def rows(result: RunResult) -> list[dict[str, float]]:
    return [dict(row) for row in read_record(Path(result.record_path)).trials[0].iterations]


def test_every_template_can_be_read_and_is_named_on_the_page() -> None:
    page = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")
    files = sorted(path.name for path in TEMPLATES.iterdir())
    assert files == ["comfyui.toml", "comfyui_prompt.py", "llama-bench.toml", "pytorch-training.toml"]
    assert all(f"`{name}`" in page for name in files)
    for path in TEMPLATES.glob("*.toml"):
        assert read_own_workload(path).name == path.stem


#: Two of llama-bench's lines (`-o jsonl`), with the keys in its order and some of those between left out.
LLAMA = """
import json, sys
assert sys.argv[1:] == {arguments!r}, sys.argv
for prompt, made, speed in ((512, 0, 7100.5), (0, 128, 118.25)):
    line = {{"build_commit": "8cf427ff", "build_number": 5163, "gpu_info": "a GPU", "backends": {backend!r},
            "model_n_params": 7615616512, "n_prompt": prompt, "n_gen": made, "n_depth": 0,
            "test_time": "2026-12-01T10:00:00Z", "avg_ns": 72135640, "stddev_ns": 1453752, "avg_ts": speed,
            "stddev_ts": 1.5, "samples_ns": [1, 2], "samples_ts": [speed, speed]}}
    print(json.dumps(line))
print("load_backend: loaded something", file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.posix_only
@pytest.mark.parametrize(("backend", "outcome"), [("CUDA", Outcome.PASS), ("CPU", Outcome.INCORRECT)])
def test_llama_bench(mine: Checkout, tmp_path: Path, backend: str, outcome: Outcome) -> None:
    description = copied("llama-bench.toml", tmp_path)
    arguments = tomllib.loads(description.read_text(encoding="utf-8"))["command"][1:]
    write_python_program(tmp_path / "llama-bench", LLAMA.format(arguments=arguments, backend=backend))
    got = ran(mine, description)
    assert got.result.outcome is outcome
    if outcome is Outcome.PASS:
        assert rows(got) == [{"prompt_tps": 7100.5, "generation_tps": 118.25}]


TRAINING = """
import json, time
for epoch in range(4):
    print("epoch", epoch, "of 4")
    print(json.dumps({"epoch": epoch, "samples_per_second": 100.0 * (epoch + 1)}))
print(json.dumps({"final_loss": LOSS}))
"""


@pytest.mark.parametrize(("loss", "outcome"), [("0.26", Outcome.PASS), ("0.3", Outcome.INCORRECT)])
def test_a_training_script(mine: Checkout, tmp_path: Path, loss: str, outcome: Outcome) -> None:
    description = copied("pytorch-training.toml", tmp_path)
    (tmp_path / "train.py").write_text(TRAINING.replace("LOSS", loss), encoding="utf-8")
    got = ran(mine, description)
    assert got.result.outcome is outcome
    if outcome is Outcome.PASS:
        assert [row["samples_per_second"] for row in rows(got)] == [100, 200, 300, 400]
        assert read_record(Path(got.record_path)).warmup == 1


#: ComfyUI's server as far as the template asks: it starts late, refuses a seed twice, and forgets nothing.
COMFY = """
import json, os, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
done, seeds = {}, set()
class Answers(BaseHTTPRequestHandler):
    def log_message(self, *words): pass
    def say(self, value, code=200):
        body = json.dumps(value).encode()
        self.send_response(code); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        if MODE == "slow" and self.path != "/system_stats": return self.say({})
        found = {k: v for k, v in done.items() if k in self.path}
        self.say({"system": {}} if self.path == "/system_stats" else found)
    def do_POST(self):
        graph = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["prompt"]
        seed = graph["3"]["inputs"]["seed"]
        if MODE == "ends": os._exit(7)
        if MODE == "refuses": return self.say({"error": "prompt_outputs_failed_validation"}, 400)
        images = [] if seed in seeds or MODE == "no image" else [{"filename": "a.png", "type": "output"}]
        seeds.add(seed)
        name = "id-%d" % len(done)
        status = "error" if MODE == "error" else "success"
        outputs = {"9": {"images": images}}
        done[name] = {"status": {"status_str": status, "completed": MODE != "error"}, "outputs": outputs}
        self.say({"prompt_id": name, "number": 1, "node_errors": {}})
assert "--disable-auto-launch" in sys.argv
if MODE == "does not start": sys.exit(1)
time.sleep(0.5)
print("Starting server")
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Answers).serve_forever()
"""
GRAPH = {
    "3": {"class_type": "KSampler", "inputs": {"seed": 5, "steps": 20, "model": ["4", 0]}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["3", 0]}},
}
COMFY_ENDS: dict[str, tuple[Outcome, str]] = {
    "right": (Outcome.PASS, "the answer is right"),
    "error": (Outcome.INCORRECT, "error"),
    "no image": (Outcome.INCORRECT, "no image"),
    "refuses": (Outcome.ERROR, "the answer is not in its output"),
    "ends": (Outcome.ERROR, "the answer is not in its output"),
    "does not start": (Outcome.ERROR, "the answer is not in its output"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", COMFY_ENDS)
def test_comfyui(
    mine: Checkout, tmp_path: Path, mode: str, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    outcome, told = COMFY_ENDS[mode]
    description = copied("comfyui.toml", tmp_path)
    text = description.read_text(encoding="utf-8")
    port = text.replace('"--rounds=4"', f'"--rounds=4", "--port={free_port}"')
    assert port != text
    description.write_text(port, encoding="utf-8")
    copied("comfyui_prompt.py", tmp_path)
    (tmp_path / "main.py").write_text(f"MODE = {mode!r}\n{COMFY}", encoding="utf-8")
    (tmp_path / "workflow_api.json").write_text(json.dumps(GRAPH), encoding="utf-8")
    got = ran(mine, description)
    assert got.result.outcome is outcome, got.output
    assert told in got.result.detail
    if outcome is Outcome.PASS:
        assert len(rows(got)) == 4, "each with another seed, or there would be no image"
        assert all(row["prompt_s"] > 0 for row in rows(got))


def ended(tmp_path: Path, main: str, port: int) -> subprocess.CompletedProcess[bytes]:
    """Start the template's program alone, with a ComfyUI of this text."""
    (tmp_path / "main.py").write_text(main, encoding="utf-8")
    (tmp_path / "workflow_api.json").write_text(json.dumps(GRAPH), encoding="utf-8")
    command = [sys.executable, str(TEMPLATES / "comfyui_prompt.py"), f"--port={port}", "--rounds=1"]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)


def test_what_already_listens_on_the_port_is_not_measured(tmp_path: Path) -> None:
    """A ComfyUI that was there before runs without the stack: its answers would prove nothing."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = ended(tmp_path, "open('started', 'w').close()", port)
    assert done.returncode == 1
    assert f"another program answers on port {port}".encode() in done.stderr
    assert done.stdout == b""
    assert not (tmp_path / "started").exists()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0, 2])
def test_an_answer_of_another_process_is_not_measured(tmp_path: Path, seconds: int, free_port: int) -> None:
    """The one that was started ends, at once or during a prompt; a child of its own answers on."""
    (tmp_path / "child.py").write_text(f"MODE = 'slow'\n{COMFY}", encoding="utf-8")
    main = f"""
import subprocess, sys, time
quiet = subprocess.DEVNULL  # or the pipes stay open
child = subprocess.Popen([sys.executable, "child.py", *sys.argv[1:]], stdout=quiet, stderr=quiet)
open("child.pid", "w").write(str(child.pid))
time.sleep({seconds})
sys.exit(5)
"""
    try:
        done = ended(tmp_path, main, free_port)
    finally:
        with contextlib.suppress(OSError):
            os.kill(int((tmp_path / "child.pid").read_text()), signal.SIGTERM)
    assert done.returncode == 1
    assert b"ComfyUI ended with exit code 5" in done.stderr
    assert b"success" not in done.stdout


@pytest.fixture
def free_port() -> Any:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_the_prompts_program_is_plain_python() -> None:
    """It runs in the Python of ComfyUI, which may have anything installed, or nothing."""
    text = (TEMPLATES / "comfyui_prompt.py").read_text(encoding="utf-8")
    named = {line.split()[1].partition(".")[0] for line in text.splitlines() if line.startswith("import ")}
    assert named <= set(sys.stdlib_module_names)
