"""Known programs get known safe settings, always said, never over a person's own choice."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path, PurePosixPath

import pytest
from msgspec.structs import replace

from scripts.app.known_facts import profile_of
from scripts.app.wrap import wrap
from scripts.app.wrap_result import Inspected
from scripts.errors import LaunchError, UsageError
from scripts.host.support import native_ways
from scripts.launch.environ import plan_environment
from scripts.launch.profiles import AppFacts, changes, document, matching, recognised
from scripts.model import Runtime, Stack, StackKind
from tests.wrapping import runtime_in, staged_over, workspace

ROOT = Path(__file__).resolve().parents[1]
SAFE = ROOT / "scripts" / "inside" / "torch_safe"
PYTHON = AppFacts(name="python.exe", packages={"torch": "2.3.0"}, gfx="gfx1200", stack="zluda-v7p10-sdk72")
TORCH = """
class version: cuda = "11.8"
class Switches:
    set = {}
    def _set_sdp_use_flash(self, on): self.set["flash"] = on
    def _set_sdp_use_mem_efficient(self, on): self.set["efficient"] = on
    def _set_sdp_use_math(self, on): self.set["math"] = on
    def _set_cudnn_enabled(self, on): self.set["cudnn"] = on
_C = Switches()
class Cudnn: enabled = True
class backends: cudnn = Cudnn()
"""


def test_every_entry_says_why_and_by_which_source() -> None:
    for row in document():
        assert row.get("set") or row.get("note"), row["id"]
        assert any(row.get(key) for key in ("names", "files", "packages", "kinds", "together")), row["id"]
        for entry in (*row.get("set", ()), *row.get("note", ())):
            assert entry["source"]
            assert entry.get("why") or entry.get("text")
            assert not set(entry) - {
                "env",
                "value",
                "torch",
                "why",
                "text",
                "source",
                "gfx",
                "stacks",
                "has",
                "lacks",
                "versions",
            }


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (PYTHON, {"pytorch"}),
        (AppFacts(name="Llama-CLI.exe", stack="zluda-v6p69-sdk64"), {"llama-cpp"}),
        (AppFacts(name="server.exe", files=("ggml-cuda.dll",)), {"llama-cpp"}),
        (AppFacts(name="blender.exe", stack="zluda-v6p69-sdk64"), {"blender"}),
        (AppFacts(name="blender.exe", stack="zluda-v7p10-sdk72"), {"blender"}),
        (AppFacts(name="game.exe", files=("PhysXDevice64.dll",), stack="zluda-v6-sdk64"), {"physx"}),
        (AppFacts(name="python.exe", files=("comfy", "main.py")), {"comfyui"}),
        (AppFacts(name="app.exe", kinds=("pyinstaller",)), {"pyinstaller"}),
        (AppFacts(name="app.exe", kinds=("electron",)), {"electron"}),
        (AppFacts(name="python.exe"), set()),
        (replace(PYTHON, stack="cpu-reference", named_only=True), set()),
        (AppFacts(name="python", packages={"numba-cuda": "0.30.4"}, stack="cpu-reference"), {"numba"}),
        (AppFacts(name="python", packages={"numba-cuda": "0.30.4"}, stack="zluda-v6-linux"), set()),
        (AppFacts(name="python", packages={"cupy-cuda12x": "13"}, stack="cpu-reference"), {"cupy"}),
        (AppFacts(name="python", packages={"pycuda": "2026.1"}, stack="cpu-reference"), {"pycuda"}),
        (AppFacts(name="python", packages={"pycuda": "2026.1"}, stack="zluda-v6-linux"), set()),
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
        "pycuda-reference",
        "pycuda-layer",
    ],
)
def test_a_program_is_recognised_by_what_it_is(facts: AppFacts, found: set[str]) -> None:
    assert {profile.id for profile in matching(facts)} == found


#: The rows of programs that people ask for, each in a layout of its own: facts, what it is, how one of its
#: notes begins or what is set, and its own ways without translation.
ROWS: dict[str, tuple[AppFacts, str, str, set[str]]] = {
    "ComfyUI": (
        AppFacts(name="python.exe", files=("comfy", "main.py", "models")),
        *("comfyui", "--use-quad-cross-attention", {"comfyui-portable", "torch-rocm"}),
    ),
    "SD.Next": (
        AppFacts(name="python.exe", files=("installer.py", "webui.py", "modules", "modules/sd_models.py")),
        *("sdnext", "PyTorch for ROCm", {"sdnext-rocm", "torch-rocm"}),
    ),
    "A1111": (
        AppFacts(name="python.exe", files=("webui.py", "modules", "modules/sd_models.py")),
        *("webui", "torch 2.3.1+cu118", {"torch-rocm"}),
    ),
    "llama.cpp": (
        AppFacts(name="llama-server.exe"),
        *("llama-cpp", "GGML_CUDA_FORCE_CUBLAS", {"llama-hip", "llama-vulkan"}),
    ),
    "koboldcpp": (AppFacts(name="koboldcpp_cu12.exe"), "koboldcpp", "Vulkan", {"koboldcpp-vulkan"}),
    "Ollama": (AppFacts(name="ollama app.exe"), "ollama", "ROCm build", {"ollama-rocm"}),
    "Blender": (AppFacts(name="blender.exe"), "blender", "crash", {"blender-hip"}),
    "faster-whisper": (
        AppFacts(name="python.exe", packages={"ctranslate2": "4.6.0"}),
        *("ctranslate2", "4.7.1", {"ctranslate2-hip"}),
    ),
    "kohya_ss": (
        AppFacts(name="python.exe", files=("kohya_gui.py",)),
        *("trainer", "without bitsandbytes", {"torch-rocm"}),
    ),
    "OneTrainer": (
        AppFacts(name="python.exe", files=("start-ui.bat",)),
        *("trainer", "without xformers", {"torch-rocm"}),
    ),
    "32-bit PhysX": (
        AppFacts(name="game.exe", files=("PhysXDevice.dll",)),
        *("physx", "PhysX System Software", {"physx-cpu"}),
    ),
    "koharu": (AppFacts(name="koharu.exe"), "koharu", "dropped ZLUDA", {"koharu-own"}),
}


@pytest.mark.parametrize("row", ROWS)
def test_every_program_that_people_ask_for_has_a_profile_and_a_way(row: str) -> None:
    facts, profile, words, ways = ROWS[row]
    facts = replace(facts, stack="zluda-v7p11-sdk72", gfx="gfx1100")
    assert recognised(facts) == (profile,)
    [found] = matching(facts)
    assert any(words in note for note in found.notes), found.notes
    own = {w.id for w in native_ways(gfx="gfx1100", os="windows", programs=(profile,)) if w.own}
    assert own >= ways


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("2.7.1+cpu", "no CUDA in it"),
        ("2.9.0+cu126", "CUDA 11.8 is what"),
        ("2.7.1+cu118", ""),
        ("2.7.1", ""),
    ],
)
def test_a_wheel_that_cannot_work_is_said_with_the_one_that_was_reported_to(version: str, words: str) -> None:
    notes = [n for profile in matching(replace(PYTHON, packages={"torch": version})) for n in profile.notes]
    assert any(words in note and "cu118" in note for note in notes) is bool(words)


def test_nothing_is_set_without_being_said() -> None:
    [profile] = matching(PYTHON)
    said = "\n".join(profile.sentences)
    for setting in profile.settings:
        assert (setting.torch or f"{setting.env}={setting.value}") in said
        assert setting.source in said
    assert said.startswith("PyTorch (by package torch 2.3.0): math-sdp is set, because flash and memory-effi")
    assert "--without=math-sdp" in said


@pytest.mark.parametrize(
    ("gfx", "miopen", "off"),
    [
        ("gfx1200", True, False),
        ("gfx1200", False, True),
        ("gfx1200", None, False),
        ("gfx1150", True, True),
        ("", None, False),
    ],
)
def test_cudnn_is_off_where_miopen_is_missing_or_wrong_results_were_reported(
    gfx: str, miopen: bool | None, off: bool
) -> None:
    backends = {"miopen": miopen, "hipblaslt": miopen}
    facts = AppFacts(name="python.exe", packages={"torch": "2.4.1"}, gfx=gfx, backends=backends)
    values = {change.name: change.value for change in changes(matching(facts), PurePosixPath("/safe"))}
    assert ("no-cudnn" in values["CUDA_AMD_TORCH_POLICY"].split(",")) is off
    assert ("DISABLE_ADDMM_CUDA_LT" in values) is (miopen is False)
    assert ("MIOPEN_FIND_MODE" in values) is (miopen is True)
    assert values["PYTHONPATH"] == "/safe"


def test_each_setting_is_left_out_by_its_name() -> None:
    names = {s.name for profile in matching(PYTHON) for s in profile.settings}
    for name in names:
        left = {s.name for profile in matching(PYTHON, without=(name,)) for s in profile.settings}
        assert left == names - {name}
    with pytest.raises(UsageError) as caught:
        matching(PYTHON, without=("math-spd",))
    assert "math-sdp" in caught.value.hint


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (("-s", "ComfyUI/main.py", "--listen"), "ComfyUI"),
        (("-X", "utf8", "-u", "ComfyUI/main.py"), "ComfyUI"),
        (("sdnext/launch.py",), "SD.Next"),
        (("-m", "onetrainer"), "OneTrainer"),
        (("-c", "ComfyUI/main.py"), ""),
    ],
)
def test_a_script_is_recognised_behind_options_and_in_the_folder_it_starts_in(
    tmp_path: Path, args: tuple[str, ...], found: str
) -> None:
    (tmp_path / "ComfyUI" / "comfy").mkdir(parents=True)
    (tmp_path / "ComfyUI" / "main.py").touch()
    (tmp_path / "sdnext" / "modules").mkdir(parents=True)
    (tmp_path / "sdnext" / "modules" / "sd_models.py").touch()
    (tmp_path / "sdnext" / "installer.py").touch()
    python = tmp_path / "python_embeded" / "python.exe"
    python.parent.mkdir()
    python.touch()
    staged = staged_over(runtime_in(tmp_path / "runtime"), kind=StackKind.TRANSLATION)
    known = profile_of(workspace(ROOT), staged, python, args, cwd=tmp_path)
    assert any(note.startswith(found) for note in known.notes) if found else known.notes == ()


@pytest.mark.parametrize(
    ("args", "refused"),
    [
        (("mine.py",), "mine.py imports cupy: "),
        (("-s", "./mine.py", "x"), "./mine.py imports cupy: "),
        (("-c", "import os; import cupy as cp"), "the code of -c imports cupy: "),
        (("other.py",), ""),
        (("-c", "import os"), ""),
        (("-m", "numba"), ""),
        ((), ""),
    ],
    ids=["script", "behind-options", "code", "another-script", "other-code", "module", "input"],
)
def test_a_script_that_imports_cupy_is_refused_on_the_reference(
    tmp_path: Path, args: tuple[str, ...], refused: str
) -> None:
    python = tmp_path / "Python" / "python.exe"
    (python.parent / "Lib" / "site-packages" / "cupy_cuda12x-14.2.0.dist-info").mkdir(parents=True)
    python.touch()
    (tmp_path / "mine.py").write_text("import numpy\nif True:\n    from cupy import array\n")
    (tmp_path / "other.py").write_text("import cupyish\n# import cupy\n")
    runtime = replace(runtime_in(tmp_path / "runtime"), stack="cpu-reference")
    staged = staged_over(runtime)
    if refused:
        with pytest.raises(LaunchError) as error:
            profile_of(workspace(ROOT), staged, python, args, cwd=tmp_path)
        why = "CuPy's wheels have NVIDIA's CUDA runtime linked in, which runs on NVIDIA's driver only"
        assert (error.value.reference, error.value.message) == ("static-runtime", refused + why)
        assert profile_of(workspace(ROOT), staged, python, args, cwd=tmp_path, own=False).notes == ()
        return
    notes = profile_of(workspace(ROOT), staged, python, args, cwd=tmp_path).notes
    assert any("NVIDIA's CUDA runtime linked in" in note for note in notes)


@pytest.mark.parametrize(
    ("text", "imports"),
    [
        ("import numpy, cupy\n", True),
        ("import numpy as np, cupyx.scipy as cs\n", True),
        ("def f():\n    x = 1; from cupy.linalg import (\n        norm)\n", True),
        ("try:\n    import \\\n        cupy\nexcept ImportError:\n    pass\n", True),
        ("\ufeffimport cupy\n", True),
        ("import cupy\nx = '\\d'\n", True),
        ("x = 1  # " + "x" * (2 << 20) + "\nimport cupy\n", True),
        ("print 'of Python 2'\nimport numpy, cupy\n", True),
        ("print 'of Python 2'\nimport os;  import cupy as cp\n", True),
        ('"""How it was:\n\nimport cupy\n"""\nimport numpy\n', False),
        ("code = '''\nfrom cupy import array\n'''\n", False),
        ("from . import cupy\nfrom .cupy import array\nfrom mine import cupy\nimport mine.cupy\n", False),
        ("import numpy as cupy\nimport cupyish\ncupy = None\n", False),
        ("print 'of Python 2'\nimport cupyish, mine.cupy\n", False),
        ("x = 1  # " + "x" * (4 << 20) + "\nimport cupy\n", False),
    ],
    ids=[
        *("second", "renamed", "in-a-function", "continued", "mark", "warned-about", "long", "python-2"),
        *("python-2-second", "docstring", "string", "relative", "another-name", "python-2-other", "too-long"),
    ],
)
def test_what_a_script_imports_is_read_as_python_reads_it(
    tmp_path: Path, recwarn: pytest.WarningsRecorder, text: str, *, imports: bool
) -> None:
    python = tmp_path / "Python" / "python.exe"
    (python.parent / "Lib" / "site-packages" / "cupy_cuda12x-14.2.0.dist-info").mkdir(parents=True)
    python.touch()
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    staged = staged_over(replace(runtime_in(tmp_path / "runtime"), stack="cpu-reference"))
    with pytest.raises(LaunchError) if imports else nullcontext():
        profile_of(workspace(ROOT), staged, python, ("mine.py",), cwd=tmp_path)
    assert not recwarn.list


@pytest.mark.posix_only
def test_a_script_that_is_a_pipe_is_left_to_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening it, if only for a look, ends its writer before the program can read."""
    python = tmp_path / "Python" / "python.exe"
    (python.parent / "Lib" / "site-packages" / "cupy_cuda12x-14.2.0.dist-info").mkdir(parents=True)
    python.touch()
    os.mkfifo(tmp_path / "pipe.py")
    opened: list[str] = []
    real = os.open

    def recorded(path: str, *words: int, **options: int) -> int:
        opened.append(Path(path).name)
        return real(path, *words, **options)

    monkeypatch.setattr(os, "open", recorded)
    staged = staged_over(replace(runtime_in(tmp_path / "runtime"), stack="cpu-reference"))
    profile_of(workspace(ROOT), staged, python, ("pipe.py",), cwd=tmp_path)
    assert "pipe.py" not in opened


def test_a_python_with_a_path_file_begins_in_the_start_script(tmp_path: Path) -> None:
    python = tmp_path / "python.exe"
    (tmp_path / "Lib" / "site-packages" / "torch-2.7.1.dist-info").mkdir(parents=True)
    python.touch()
    (tmp_path / "python312._pth").touch()
    staged = staged_over(runtime_in(tmp_path / "runtime"), kind=StackKind.TRANSLATION)
    known = profile_of(workspace(ROOT), staged, python, ("-s", "main.py", "x"), cwd=tmp_path)
    assert known.args == ("-s", str(SAFE / "cuda_amd_start.py"), "main.py", "x")
    assert [
        note for note in known.notes if note.startswith("python312._pth beside Python keeps PYTHONPATH out")
    ]
    known = profile_of(workspace(ROOT), staged, python, (), cwd=tmp_path)
    assert known.args is None
    assert any("keeps the settings for PyTorch out" in note for note in known.notes)


@pytest.mark.parametrize("kind", ["pyinstaller", "nuitka"])
def test_a_packed_python_is_said_not_to_be_reached(kind: str) -> None:
    [profile] = matching(AppFacts(name="app.exe", kinds=(kind,), stack="zluda-v7p11-sdk72"))
    assert profile.settings == ()
    assert "settings for PyTorch do not reach" in profile.notes[0]


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


SHOW = "import torch; print(sorted(torch._C.set.items()))"


@pytest.mark.parametrize(
    ("policy", "shown"),
    [
        ("math-sdp", "[('efficient', False), ('flash', False), ('math', True)]"),
        ("math-sdp,no-cudnn", "[('cudnn', False), ('efficient', False), ('flash', False), ('math', True)]"),
        ("", "[]"),
    ],
)
def test_torch_is_told_right_after_its_import(tmp_path: Path, policy: str, shown: str) -> None:
    assert run_python(tmp_path, SHOW, policy=policy) == shown


def test_a_sitecustomize_of_the_persons_own_still_runs(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("print('mine')\n", encoding="utf-8")
    lines = run_python(tmp_path, SHOW, policy="no-cudnn", extra=str(own)).splitlines()
    assert lines == ["mine", "[('cudnn', False)]"]


def test_python_without_torch_is_not_disturbed() -> None:
    environ = {**os.environ, "PYTHONPATH": str(SAFE), "CUDA_AMD_TORCH_POLICY": "math-sdp"}
    environ["PYTHONDONTWRITEBYTECODE"] = "1"
    code = "try:\n import torch\nexcept ImportError: print('none')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert (done.stdout.strip(), done.stderr) == ("none", "")
