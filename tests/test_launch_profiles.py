"""Known programs get known safe settings, always said, never over a person's own choice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest
from msgspec.structs import replace

from scripts.app.wrap.profile import profile_of
from scripts.app.wrap.wrap import wrap
from scripts.app.wrap.wrap_types import Inspected
from scripts.launch.environ import plan_environment
from scripts.launch.profiles import AppFacts, changes, document, kept_out, matching
from scripts.model import Runtime, Stack, StackKind
from tests.wrapping import runtime_in, staged_over, workspace

ROOT = Path(__file__).resolve().parents[1]
SAFE = ROOT / "scripts" / "inside" / "torch_safe"
PYTHON = AppFacts(name="python.exe", packages={"torch": "2.3.0"}, gfx="gfx1200", stack="zluda-v7p10-sdk72")
TORCH = """
class Cuda:
    def __init__(self): self.set = {}
    def enable_flash_sdp(self, on): self.set["flash"] = on
    def enable_mem_efficient_sdp(self, on): self.set["efficient"] = on
    def enable_math_sdp(self, on): self.set["math"] = on
class Cudnn: enabled = True
class backends: cuda, cudnn = Cuda(), Cudnn()
"""


def test_every_entry_says_why_and_by_which_source() -> None:
    for row in document():
        assert row.get("set") or row.get("note"), row["id"]
        assert any(row.get(key) for key in ("names", "files", "packages", "kinds")), row["id"]
        for entry in (*row.get("set", ()), *row.get("note", ())):
            assert entry["source"]
            assert entry.get("why") or entry.get("text")
            assert not set(entry) - {"env", "value", "torch", "why", "text", "source", "gfx", "stacks"}


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (PYTHON, {"pytorch"}),
        (AppFacts(name="Llama-CLI.exe", stack="zluda-v6p69-sdk64"), {"llama-cpp"}),
        (AppFacts(name="server.exe", files=("ggml-cuda.dll",)), {"llama-cpp"}),
        (AppFacts(name="blender.exe", stack="zluda-v6p69-sdk64"), {"blender"}),
        (AppFacts(name="blender.exe", stack="zluda-v7p10-sdk72"), set()),
        (AppFacts(name="game.exe", files=("PhysXDevice64.dll",), stack="zluda-v6-sdk64"), {"physx"}),
        (AppFacts(name="python.exe", files=("comfy", "main.py")), {"comfyui"}),
        (AppFacts(name="app.exe", kinds=("pyinstaller",)), {"pyinstaller"}),
        (AppFacts(name="app.exe", kinds=("electron",)), {"electron"}),
        (AppFacts(name="python.exe"), set()),
        (replace(PYTHON, stack="cpu-reference", named_only=True), set()),
        (AppFacts(name="python", packages={"numba-cuda": "0.30.4"}, stack="cpu-reference"), {"numba"}),
        (AppFacts(name="python", packages={"numba-cuda": "0.30.4"}, stack="zluda-v6-linux"), set()),
        (AppFacts(name="python", packages={"cupy-cuda12x": "13"}, stack="cpu-reference"), {"cupy"}),
    ],
    ids=[
        "torch",
        "llama",
        "ggml",
        "blender",
        "blender-v7",
        "physx",
        "comfy",
        "packed",
        "electron",
        "plain",
        "torch-reference",
        "numba-reference",
        "numba-layer",
        "cupy-reference",
    ],
)
def test_a_program_is_recognised_by_what_it_is(facts: AppFacts, found: set[str]) -> None:
    assert {profile.id for profile in matching(facts)} == found


def test_nothing_is_set_without_being_said() -> None:
    [profile] = matching(PYTHON)
    said = "\n".join(profile.sentences)
    for setting in profile.settings:
        assert (setting.torch or f"{setting.env}={setting.value}") in said
        assert setting.source in said
    assert said.startswith("PyTorch (by package torch 2.3.0): math-sdp is set, because flash and memory-effi")
    assert "--no-profile" in said


@pytest.mark.parametrize(
    ("gfx", "policy"), [("gfx1200", "math-sdp"), ("gfx1150", "math-sdp,no-cudnn"), ("", "math-sdp")]
)
def test_convolutions_are_moved_off_cudnn_only_where_it_was_reported(gfx: str, policy: str) -> None:
    facts = AppFacts(name="python.exe", packages={"torch": "2.4.1"}, gfx=gfx)
    values = {change.name: change.value for change in changes(matching(facts), PurePosixPath("/safe"))}
    assert values["CUDA_AMD_TORCH_POLICY"] == policy
    assert values["PYTHONPATH"] == "/safe"


def test_what_a_person_has_set_stays_and_paths_are_kept() -> None:
    base = {"TORCH_CUDNN_V8_API_DISABLED": "0", "PYTHONPATH": "/mine"}
    plan = plan_environment(
        base,
        platform="linux",
        stack=Stack(id="cpu", kind=StackKind.REFERENCE),
        runtime=Runtime(stack="cpu", digest="d", path=None),
        profile=changes(matching(PYTHON), PurePosixPath("/safe")),
        user_set={"CUDA_AMD_TORCH_POLICY": "no-cudnn"},
    )
    assert plan.environ["TORCH_CUDNN_V8_API_DISABLED"] == "0"
    assert plan.environ["PYTHONPATH"] == "/safe:/mine"
    assert plan.environ["CUDA_AMD_TORCH_POLICY"] == "no-cudnn"


@pytest.mark.parametrize(
    ("args", "notes"),
    [
        (("-I", "a.py"), 1),
        (("-sE", "-c", "x"), 1),
        (("a.py", "-I"), 0),
        (("--check-hash-based-pycs", "x"), 0),
    ],
)
def test_python_that_ignores_its_environment_is_said(args: tuple[str, ...], notes: int) -> None:
    assert len(kept_out(matching(PYTHON), args)) == notes


def test_profiles_are_for_translation_layers_alone(tmp_path: Path) -> None:
    program = tmp_path / "llama-cli"
    program.write_bytes(b"")
    runtime = runtime_in(tmp_path / "runtime")
    for kind, some in (
        (StackKind.TRANSLATION, True),
        (StackKind.REFERENCE, False),
        (StackKind.CONTROL, False),
    ):
        known = profile_of(workspace(tmp_path), staged_over(runtime, kind=kind), program, ())
        assert bool(known.notes) is some


@pytest.mark.parametrize("no_profile", [False, True])
def test_wrap_says_what_is_set_and_leaves_it_out_when_told(tmp_path: Path, no_profile: bool) -> None:
    program = tmp_path / ("llama-cli.exe" if sys.platform == "win32" else "llama-cli")
    program.write_bytes(b"MZ")
    staged = staged_over(runtime_in(tmp_path / "runtime"), kind=StackKind.TRANSLATION)
    runtime = replace(staged.runtime, path=None) if sys.platform == "win32" else staged.runtime
    result = wrap(
        workspace(tmp_path),
        exe=str(program),
        via="env",
        explain=True,
        no_profile=no_profile,
        staged=lambda _ws, _stack: replace(staged, runtime=runtime),
        inspect=lambda _staged, _program, facts: Inspected(facts=facts, kinds=("electron",)),
    )
    said = "\n".join(result.notes)
    assert ("llama.cpp (by llama-cli" in said) is not no_profile
    assert ("an Electron program (by its kind, electron)" in said) is not no_profile


def test_torch_in_the_programs_own_environment_is_seen(tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python3"
    info = tmp_path / "venv" / "lib" / "python3.11" / "site-packages" / "torch-2.3.0+cu118.dist-info"
    info.mkdir(parents=True)
    python.parent.mkdir()
    python.write_bytes(b"")
    staged = staged_over(runtime_in(tmp_path / "runtime"), kind=StackKind.TRANSLATION)
    known = profile_of(workspace(ROOT), staged, python, ("train.py",))
    assert [note for note in known.notes if "torch 2.3.0+cu118" in note and "math-sdp" in note]
    [path] = [change.value for change in known.changes if change.name == "PYTHONPATH"]
    assert (Path(path) / "sitecustomize.py").is_file()


def run_python(tmp_path: Path, code: str, *, policy: str, extra: str = "") -> str:
    """Run Python with the safe settings and a torch that records what it is told."""
    package = tmp_path / "torch"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text(TORCH, encoding="utf-8")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SAFE), extra, str(tmp_path)]))
    environ["CUDA_AMD_TORCH_POLICY"] = policy
    environ["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


SHOW = "import torch; print(sorted(torch.backends.cuda.set.items()), torch.backends.cudnn.enabled)"


@pytest.mark.parametrize(
    ("policy", "shown"),
    [
        ("math-sdp", "[('efficient', False), ('flash', False), ('math', True)] True"),
        ("math-sdp,no-cudnn", "[('efficient', False), ('flash', False), ('math', True)] False"),
        ("", "[] True"),
    ],
)
def test_torch_is_told_right_after_its_import(tmp_path: Path, policy: str, shown: str) -> None:
    assert run_python(tmp_path, SHOW, policy=policy) == shown


def test_a_sitecustomize_of_the_persons_own_still_runs(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("print('mine')\n", encoding="utf-8")
    lines = run_python(tmp_path, SHOW, policy="no-cudnn", extra=str(own)).splitlines()
    assert lines == ["mine", "[] False"]


def test_python_without_torch_is_not_disturbed() -> None:
    environ = {**os.environ, "PYTHONPATH": str(SAFE), "CUDA_AMD_TORCH_POLICY": "math-sdp"}
    environ["PYTHONDONTWRITEBYTECODE"] = "1"
    code = "try:\n import torch\nexcept ImportError: print('none')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert (done.stdout.strip(), done.stderr) == ("none", "")
