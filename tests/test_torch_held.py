"""PyTorch's settings hold against what programs do, and each process reports what was in force.

With a real PyTorch where one is installed (the CPU's is enough); CUDA_AMD_TEST_TORCH names another Python
that has it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts.app.wrap_observations import HeldProcess, HeldSettings, TorchDevices, read_held
from scripts.launch.argv import keeps_out, read_python_line, through

SAFE = Path(__file__).resolve().parents[1] / "scripts" / "inside" / "torch_safe"
START = SAFE / "cuda_amd_start.py"
OTHER = os.environ.get("CUDA_AMD_TEST_TORCH", "")
PYTHON = OTHER or sys.executable
needs_torch = pytest.mark.skipif(
    not OTHER and importlib.util.find_spec("torch") is None, reason="no PyTorch is installed here"
)

STATE = """
def state():
    import torch
    cuda = torch.backends.cuda
    return [cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.cudnn_sdp_enabled(),
            cuda.math_sdp_enabled(), torch.backends.cudnn.enabled]
"""
#: What ComfyUI does when it takes the GPU for NVIDIA's (comfy/model_management.py@00184d1), in our words.
COMFYUI = """
import torch
cuda = torch.backends.cuda
for name in ("enable_math_sdp", "enable_flash_sdp", "enable_mem_efficient_sdp"):
    getattr(cuda, name)(True)
torch.backends.cudnn.enabled = True
"""
#: What SD.Next does under ZLUDA (modules/zluda.py@2a07741), in our words.
SDNEXT = """
import torch
cuda = torch.backends.cuda
for name in ("enable_math_sdp", "enable_flash_sdp", "enable_mem_efficient_sdp", "enable_cudnn_sdp"):
    if hasattr(cuda, name):
        getattr(cuda, name)(name != "enable_math_sdp")
        setattr(cuda, name, lambda *_: None)
torch.backends.cudnn.enabled = True
"""
CONTEXTS = """
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
q = torch.randn(1, 2, 8, 8)
for chosen in ([SDPBackend.FLASH_ATTENTION], [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]):
    with sdpa_kernel(chosen):
        assert state() == [False, False, False, True, False], state()
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
with torch.backends.cudnn.flags(enabled=True):
    assert state() == [False, False, False, True, False], state()
"""
PRINT = "\nimport sys\nprint(state(), sys.argv)\n"
HELD = "[False, False, False, True, False]"


def run_torch(tmp_path: Path, *words: str, policy: str = "math-sdp,no-cudnn") -> tuple[str, list[Any]]:
    """Run a Python with PyTorch; return what it printed and what its processes reported."""
    reports = tmp_path / "reports"
    reports.mkdir(exist_ok=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environ |= {
        "PYTHONPATH": str(SAFE),
        "CUDA_AMD_TORCH_POLICY": policy,
        "CUDA_AMD_TORCH_REPORT": str(reports),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [PYTHON, *words], env=environ, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), [json.loads(path.read_bytes()) for path in sorted(reports.iterdir())]


@needs_torch
@pytest.mark.parametrize("calls", [COMFYUI, SDNEXT, CONTEXTS], ids=["comfyui", "sdnext", "contexts"])
def test_no_sequence_of_calls_undoes_the_settings(tmp_path: Path, calls: str) -> None:
    shown, [report] = run_torch(tmp_path, "-c", STATE + calls + PRINT)
    assert shown == f"{HELD} ['-c']"
    assert report["policies"] == {"math-sdp": True, "no-cudnn": True}
    assert report["ended"] is True
    assert report["asked"]["math-sdp"] > 0, "the program asked for something else, and this is counted"


@needs_torch
def test_the_proof_can_fail(tmp_path: Path) -> None:
    around = """
import torch
for cell in torch._C._set_cudnn_enabled.__closure__:
    if type(cell.cell_contents).__name__ == "builtin_function_or_method":
        cell.cell_contents(True)
"""
    _shown, [report] = run_torch(tmp_path, "-c", around)
    assert report["policies"] == {"math-sdp": True, "no-cudnn": False}


@needs_torch
@pytest.mark.parametrize(
    "words",
    [
        ("-s", "prog.py"),
        ("-u", "prog.py"),
        ("-X", "utf8", "prog.py"),
        ("-m", "prog"),
        ("-E", str(START), "prog.py"),
        ("-E", str(START), "-m", "prog"),
        ("-I", str(START), "prog.py"),
    ],
    ids=["s", "u", "X", "m", "E", "E-m", "I"],
)
def test_the_settings_reach_every_way_of_starting_python(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "prog.py").write_text(STATE + COMFYUI + PRINT, encoding="utf-8")
    shown, [report] = run_torch(tmp_path, *words, "one", "two words")
    assert shown.startswith(HELD)
    assert shown.endswith("prog.py', 'one', 'two words']")
    assert report["ended"] is True


@needs_torch
def test_without_the_start_script_an_isolated_python_is_not_reached(tmp_path: Path) -> None:
    shown, reports = run_torch(tmp_path, "-I", "-c", STATE + COMFYUI + PRINT)
    assert not shown.startswith(HELD)
    assert reports == []


@needs_torch
@pytest.mark.parametrize("options", [(), ("-I", str(START)), ("-E", str(START))], ids=["plain", "I", "E"])
def test_child_processes_hold_the_settings_too(tmp_path: Path, options: tuple[str, ...]) -> None:
    code = (
        STATE
        + "def child(_):\n    import torch\n    torch.backends.cudnn.enabled = True\n    return state()\n"
        + "if __name__ == '__main__':\n    import multiprocessing\n"
        + "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        + "        print(pool.map(child, [1])[0])\n"
    )
    (tmp_path / "prog.py").write_text(code, encoding="utf-8")
    shown, _reports = run_torch(tmp_path, *options, "prog.py")
    assert shown == HELD


class Tensor:
    """Enough of a tensor of the GPU."""

    def __init__(self, where: str) -> None:
        self.device, self.is_cuda, self.shape = where, where == "cuda:0", (2,)

    def cpu(self) -> Tensor:
        return Tensor("cpu")

    def to(self, device: str) -> Tensor:
        return Tensor(device)

    def resize_(self, _shape: object) -> Tensor:
        return self

    def copy_(self, other: Tensor) -> Tensor:
        self.copied = other.device
        return self


@pytest.fixture
def policies(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SAFE))
    return importlib.import_module("cuda_amd_torch.policies")


def test_what_the_layer_cannot_do_is_computed_on_the_cpu(policies: Any) -> None:
    seen = []

    def topk(tensor: Tensor, k: int, *, largest: bool = True) -> tuple[Tensor, Tensor]:
        seen.append((tensor.device, k, largest))
        return tensor, Tensor("cpu")

    moved = policies.on_cpu(topk)
    assert [part.device for part in moved(Tensor("cuda:0"), 3, largest=False)] == ["cuda:0", "cuda:0"]
    assert [part.device for part in moved(Tensor("cpu"), 3)] == ["cpu", "cpu"]
    out = (Tensor("cuda:0"), Tensor("cuda:0"))
    assert moved(Tensor("cuda:0"), 1, out=out) is out
    assert out[0].copied == "cpu"
    assert seen == [("cpu", 3, False), ("cpu", 3, True), ("cpu", 1, True)]


@pytest.mark.parametrize("given", [None, ["CUDAExecutionProvider", "CPUExecutionProvider"]])
def test_onnx_runtime_is_not_given_nvidias_providers(policies: Any, given: list[str] | None) -> None:
    made: list[Any] = []

    class Session:
        def __init__(self, _model: str, **words: Any) -> None:
            made.append(words["providers"])

    ort = SimpleNamespace(
        InferenceSession=Session,
        get_available_providers=lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"],
    )
    holding = policies.Holding(iter(["no-ort-cuda"]))
    assert holding.in_force() == {}, "what is about a module that was not imported is not reported"
    holding.hold_onnxruntime(ort)
    ort.InferenceSession("m.onnx", providers=given)  # type: ignore[call-arg]  # as a program calls it
    assert made == [["CPUExecutionProvider"]]
    assert ort.get_available_providers() == ["CPUExecutionProvider"]
    assert holding.in_force() == {"no-ort-cuda": True}
    assert holding.asked == ({"no-ort-cuda": 1} if given else {})
    ort.get_available_providers = list
    assert holding.in_force() == {"no-ort-cuda": False}


def test_reports_are_read_once_and_odd_ones_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "held" / "1-1"
    folder.mkdir(parents=True)
    good = {"pid": 7, "torch": "2.7.1", "policies": {"math-sdp": True, "no-cudnn": False}, "ended": True}
    (folder / "torch-7.json").write_text(json.dumps(good), encoding="utf-8")
    (folder / "torch-8.json").write_text("{", encoding="utf-8")
    held = read_held(folder, ("math-sdp", "no-cudnn"))
    assert held.lost == ("no-cudnn",)
    assert held.sentences == (
        "PyTorch 2.7.1: math-sdp in force at the end",
        "PyTorch 2.7.1: no-cudnn NOT in force at the end",
    )
    assert not folder.parent.exists()


def test_a_process_that_was_ended_from_outside_is_not_said_to_have_held_to_the_end() -> None:
    one = HeldProcess(pid=1, torch="2.7.1", policies={"math-sdp": True}, devices=TorchDevices())
    [line] = HeldSettings(wanted=("math-sdp",), processes=[one]).sentences
    assert line.endswith("in force after the import; the end was not reported")
    [line] = HeldSettings(wanted=("math-sdp",)).sentences
    assert line.startswith("no process reported math-sdp")


@pytest.mark.parametrize(
    ("args", "target", "isolated"),
    [
        (("-s", r"ComfyUI\main.py", "--listen"), (r"ComfyUI\main.py",), ""),
        (("-X", "utf8", "-W", "ignore", "a.py", "-I"), ("a.py",), ""),
        (("-Xutf8", "-Wignore::I", "a.py"), ("a.py",), ""),
        (("-sEu", "a.py"), ("a.py",), "-E"),
        (("-Im", "pip", "list"), ("-m", "pip"), "-I"),
        (("-ucimport x", "a"), ("-c", "import x"), ""),
        (("--check-hash-based-pycs", "always", "a.py"), ("a.py",), ""),
        (("-S", "-"), (), "-S"),
        ((), (), ""),
    ],
)
def test_pythons_own_options_are_told_from_the_programs(
    args: tuple[str, ...], target: tuple[str, ...], isolated: str
) -> None:
    line = read_python_line(args)
    assert (line.target, line.isolated) == (target, isolated)


def test_a_portable_python_begins_in_the_start_script() -> None:
    line = read_python_line(("-s", r"ComfyUI\main.py", "--listen"))
    assert keeps_out(line, ("python.exe", "python312._pth")) == "python312._pth beside Python"
    assert keeps_out(line, ("python.exe",)) == ""
    assert through(line, "start.py") == ("-s", "start.py", r"ComfyUI\main.py", "--listen")
    line = read_python_line(("-Im", "pip", "list"))
    assert through(line, "start.py") == ("-I", "start.py", "-m", "pip", "list")
