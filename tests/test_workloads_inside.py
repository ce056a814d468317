"""The workloads beside gemm and PPO: right answers pass, wrong ones never, the first time is apart.

Small stand-ins play the mathematical libraries of CUDA and ROCm, with a fault on demand; memory and endurance
run on the CPU reference, which executes their kernels.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts.bench.workload_record import judge_run, parse_record
from scripts.bench.workloads import workloads
from tests.checkout import ROOT
from tests.native_cpu import environment, no_compiler
from tests.test_compare_inside import DRIVER, HIP

INSIDE = ROOT / "scripts" / "inside"

#: A transform by its definition; PLAN is what plans are in this library.
FFT = r"""
#include <math.h>
#include <stdlib.h>
typedef struct { float re, im; } Complex;
static int length, batch;
int PRE(Plan1d)(PLAN *plan, int n, int kind, int count) {
  if (n < 1 || kind != 0x29) return 8;
  length = n; batch = count; *plan = (PLAN)7;
  return 0;
}
int PRE(Destroy)(PLAN plan) { return plan == (PLAN)7 ? 0 : 1; }
int PRE(ExecC2C)(PLAN plan, Complex *in, Complex *out, int way) {
  if (plan != (PLAN)7 || way != -1) return 1;
  for (int b = 0; b < batch; b++, in += length, out += length)
    for (int k = 0; k < length; k++) {
      double re = 0, im = 0;
      for (int j = 0; j < length; j++) {
        double c = cos(-2 * 3.14159265358979323846 * j * k / length);
        double s = sin(-2 * 3.14159265358979323846 * j * k / length);
        re += in[j].re * c - in[j].im * s; im += in[j].re * s + in[j].im * c;
      }
      out[k].re = re; out[k].im = im;
    }
  if (getenv("FAULT")) out[-1].re += 0.01f;
  return 0;
}
"""
SPARSE = r"""
#include <stdint.h>
#include <stdlib.h>
typedef struct { int64_t rows; int *starts, *columns; float *values; } Matrix;
int PRE(Create)(void **h) { *h = (void *)5; return 0; }
int PRE(Destroy)(void *h) { return h == (void *)5 ? 0 : 1; }
int PRE(CreateCsr)(Matrix **m, int64_t r, int64_t c, int64_t n, void *s, void *k, void *v, int a, int b,
                   int z, int t) {
  if (a != 2 || b != 2 || z != 0 || t != 0 || r != c || n < r) return 3;
  Matrix made = {r, s, k, v};
  *m = malloc(sizeof made); **m = made;
  return 0;
}
int PRE(CreateDnVec)(void **v, int64_t n, void *at, int kind) { *v = at; return kind; }
int PRE(SpMV_bufferSize)(void *h, int o, float *a, Matrix *m, float *x, float *b, float *y, int k, int w,
                         size_t *n) {
  *n = 16;
  return 0;
}
int PRE(SpMV)(void *h, int o, float *a, Matrix *m, float *x, float *b, float *y, int kind, int way,
              void *space) {
  if (h != (void *)5 || o || *a != 1 || *b != 0 || kind || way || !space) return 3;
  for (int64_t i = 0; i < m->rows; i++) {
    float sum = 0;
    for (int j = m->starts[i]; j < m->starts[i + 1]; j++) sum += m->values[j] * x[m->columns[j]];
    y[i] = sum;
  }
  if (getenv("FAULT")) y[3] += 0.01f;
  return 0;
}
"""
DNN = r"""
#include <stdlib.h>
#define MAKE(what) int cudnnCreate##what(void **d) { *d = malloc(1); return 0; }
MAKE(TensorDescriptor) MAKE(FilterDescriptor) MAKE(ConvolutionDescriptor)
static int images;
int cudnnCreate(void **h) { *h = (void *)5; return 0; }
int cudnnDestroy(void *h) { return h == (void *)5 ? 0 : 3; }
int cudnnSetTensor4dDescriptor(void *d, int l, int t, int n, int c, int h, int w) {
  images = n;
  return l || t || c != 64 || h != 56 || w != 56;
}
int cudnnSetFilter4dDescriptor(void *d, int t,
                               int l, int k, int c, int h, int w) { return k != 64 || h != 3; }
int cudnnSetConvolution2dDescriptor(void *d, int a, int b, int s, int u, int x, int y, int mode,
                                    int type) {
  return a != 1 || b != 1 || s != 1 || u != 1 || x != 1 || y != 1 || mode != 1;
}
int cudnnSetConvolutionMathType(void *d, int kind) { return kind != 3; }
int cudnnGetConvolutionForwardWorkspaceSize(void *h, void *x, void *w, void *c, void *y, int way,
                                            size_t *n) {
  *n = 64;
  return 0;
}
int cudnnConvolutionForward(void *h, float *one, void *xd, float *x, void *wd, float *w, void *c, int way,
                            void *space, size_t size, float *zero, void *yd, float *y) {
  if (h != (void *)5 || *one != 1 || *zero || way != 1 || !space || size != 64) return 3;
  for (int n = 0; n < images; n++) for (int k = 0; k < 64; k++) {
    float *out = y + (n * 64 + k) * 3136;
    for (int i = 0; i < 3136; i++) out[i] = 0;
    for (int c = 0; c < 64; c++) for (int r = 0; r < 3; r++) for (int q = 0; q < 3; q++) {
      float f = w[((k * 64 + c) * 3 + r) * 3 + q], *in = x + (n * 64 + c) * 3136;
      for (int i = 0; i < 56; i++) for (int j = 0; j < 56; j++) {
        int a = i + r - 1, b = j + q - 1;
        if (a >= 0 && a < 56 && b >= 0 && b < 56) out[i * 56 + j] += f * in[a * 56 + b];
      } } }
  if (getenv("FAULT")) y[9] += 0.1f;
  return 0;
}
"""
SOURCES = {
    "libcuda.so.1": DRIVER,
    "libamdhip64.so": HIP + "int hipFree(void *p) { free(p); return 0; }",
    "libcufft.so.12": "#define PLAN int\n#define PRE(x) cufft##x\n" + FFT,
    "libhipfft.so": "#define PLAN void *\n#define PRE(x) hipfft##x\n" + FFT,
    "libcusparse.so.12": "#define PRE(x) cusparse##x\n" + SPARSE,
    "libhipsparse.so": "#define PRE(x) hipsparse##x\n" + SPARSE,
    "libcudnn.so.9": DNN,
}
SIZES = {"fft.py": "4", "spmv.py": "300", "conv.py": "1"}
WAYS = [("fft.py", "cuda"), ("fft.py", "hip"), ("spmv.py", "cuda"), ("spmv.py", "hip"), ("conv.py", "cuda")]
#: HIP's libraries are called as CUDA's are; the short run looks at these.
every_way = pytest.mark.parametrize(
    ("script", "backend"),
    [pytest.param(*way, marks=[pytest.mark.proof] * (way[1] == "hip")) for way in WAYS],
)


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    folder = tmp_path_factory.mktemp("stand-ins")
    for name, text in SOURCES.items():
        (folder / f"{name}.c").write_text(text, encoding="utf-8")
        command = [
            compiler,
            "-shared",
            "-fPIC",
            "-O2",
            "-w",
            "-o",
            str(folder / name),
            str(folder / f"{name}.c"),
        ]
        subprocess.run([*command, "-lm"], check=True, timeout=60)
    return folder


def said(env: dict[str, str], script: str, *words: str) -> dict[str, Any]:
    command = [sys.executable, str(INSIDE / script), *words]
    done = subprocess.run(command, env=env, capture_output=True, timeout=120, check=False)
    record = parse_record(done.stderr)
    assert not record.fault, done.stderr
    judged = judge_run(record, capability="x", exit_code=done.returncode, timed_out=False)
    assert judged.outcome.value == record.data["outcome"], "the exit code and the record agree"
    return dict(record.data) | {"stdout": done.stdout.decode()}


def measured(folder: Path, script: str, backend: str, fault: str = "") -> dict[str, Any]:
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder), **({"FAULT": fault} if fault else {})}
    return said(env, script, f"--backend={backend}", f"--size={SIZES[script]}", "--iterations=2")


@pytest.mark.slow
@pytest.mark.posix_only
@every_way
def test_a_right_answer_passes_and_the_first_time_is_apart(
    stand_ins: Path, script: str, backend: str
) -> None:
    got = measured(stand_ins, script, backend)
    assert got["outcome"] == "pass", got
    assert got["device"] == "stand-in"
    assert got["error_over_tolerance"] < 1
    assert set(got["first"]) == {"gflops"}
    assert len(got["iterations"]) == 2
    library = "cudnn" if script == "conv.py" else backend.replace("cuda", "cu") + script.removesuffix(".py")
    assert got["library"] == library.replace("spmv", "sparse")
    assert str(stand_ins) in got["libraries"][got["library"]]


@pytest.mark.slow
@pytest.mark.posix_only
@every_way
def test_one_wrong_number_is_seen(stand_ins: Path, script: str, backend: str) -> None:
    got = measured(stand_ins, script, backend, fault="wrong")
    assert got["outcome"] == "incorrect"
    assert "gflops" not in got, "no speed of a wrong answer"


@pytest.mark.slow
@pytest.mark.parametrize("script", SIZES)
def test_numpy_stands_beside_it(tmp_path: Path, script: str) -> None:
    got = measured(tmp_path, script, "cpu")
    assert (got["outcome"], got["device"]) == ("pass", "CPU")


needs_native = pytest.mark.skipif(bool(no_compiler()), reason=no_compiler() or "-")


@pytest.mark.slow
@needs_native
@pytest.mark.parametrize(("script", "outcome"), [("fft.py", "refused"), ("spmv.py", "refused")])
def test_what_the_cpu_reference_has_no_code_for_is_refused(script: str, outcome: str) -> None:
    got = said(environment(), script, f"--size={SIZES[script]}")
    assert got["outcome"] == outcome
    assert got["libraries"], "it names the library that refused"


@pytest.mark.slow
@needs_native
def test_memory_is_filled_found_again_and_given_back() -> None:
    got = said(environment(), "memory_pressure.py", "--size=8", "--iterations=2")
    assert (got["outcome"], got["taken_mib"]) == ("pass", 8)
    assert set(got["first"]) == {"fill_gbps", "check_gbps", "take_ms", "give_ms"}
    assert "not a GPU" in got["stdout"]


@pytest.mark.slow
@needs_native
def test_a_place_that_lost_its_number_is_seen() -> None:
    """The kernel that fills leaves out one place; the one that counts must find it, in every round."""
    start = (
        f"import sys; sys.path.insert(0, {str(INSIDE)!r}); import memory_pressure as m;"
        "m.FILL = m.FILL.replace('MIX', 'setp.eq.u32 %p1, %r0, 4711; @%p1 add.u32 %mark, %mark, 1; MIX');"
        "sys.exit(m.main(['--size=8', '--iterations=2']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", start], env=environment(), capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 3, done.stderr
    assert "numbers are not what was written" in str(parse_record(done.stderr).data["wrong"])


class DeviceOnPaper:
    """A driver that keeps account of memory alone; a share of what is given back stays away."""

    device, files = "on paper", {"driver": "paper"}

    def __init__(self, module: Any, free: int, leak: float) -> None:
        self.failed, self.free_bytes, self.total, self.leak = module.CallFailed, free, 8 << 30, leak
        self.sizes: dict[int, int] = {}
        self.driver = self

    def call(self, name: str, *words: Any) -> None:
        if name == "cuMemGetInfo_v2":
            words[0]._obj.value, words[1]._obj.value = self.free_bytes, self.total
        elif name == "cuMemAlloc_v2":
            if words[1].value > self.free_bytes:
                raise self.failed("cuMemAlloc_v2", 2)
            words[0]._obj.value = len(self.sizes) + 1
            self.sizes[len(self.sizes) + 1] = words[1].value
            self.free_bytes -= words[1].value

    def upload(self, array: Any) -> Any:
        return ctypes.c_uint64(0)

    def read(self, array: Any, pointer: Any) -> None:
        pass

    def free(self, pointers: Any) -> None:
        self.free_bytes += sum(int(self.sizes.get(p.value, 0) * (1 - self.leak)) for p in pointers)

    def wait(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("free", "leak", "outcome", "told"),
    [
        (4 << 30, 0.0, "pass", ""),
        (4 << 30, 0.1, "incorrect", "153 MiB did not come back"),
        (4 << 30, 0.49, "incorrect", "752 MiB did not come back"),
        (1 << 20, 0.0, "unavailable", "less than 2 MiB of the device's memory are free"),
    ],
)
def test_memory_that_goes_away_round_by_round_is_seen(
    free: int, leak: float, outcome: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(INSIDE))
    module = importlib.import_module("memory_pressure")
    monkeypatch.setattr(module, "Driver", lambda: DeviceOnPaper(module, free, leak))
    report: dict[str, Any] = {"libraries": {}}
    options = argparse.Namespace(size=512, iterations=3, slowdown=0.0)
    module.guarded(report, lambda: module.measure(report, options))
    assert report["outcome"] == outcome
    assert told in str(report.get("wrong") or report.get("error") or "")


@needs_native
@pytest.mark.proof
def test_a_long_run_compares_every_window() -> None:
    got = said(environment(), "long_run.py", "--size=1")
    assert (got["outcome"], len(got["iterations"])) == ("pass", 10)
    assert said(environment("wrong"), "long_run.py", "--size=1")["outcome"] == "incorrect"


@pytest.mark.slow
@needs_native
@pytest.mark.parametrize("script", ["gemm.py", "launch_latency.py", "memory_copy.py"])
def test_the_older_ones_tell_the_first_time_apart_as_well(script: str) -> None:
    got = said(environment(), script, "--size=8", "--iterations=2")
    assert got["outcome"] == "pass"
    assert set(got["first"]) == set(got["iterations"][0])
    assert len(got["iterations"]) == 2


@pytest.fixture(scope="module")
def calls() -> Any:
    sys.path.insert(0, str(INSIDE))
    found = importlib.import_module("cuda_calls")
    sys.path.remove(str(INSIDE))
    return found


def test_a_slowdown_makes_a_piece_longer_by_what_is_stated(calls: Any) -> None:
    def nap() -> None:
        time.sleep(0.05)

    nothing: Callable[[], None] = lambda: None  # noqa: E731 - shorter than a function
    plain = min(calls.timed(nothing, nap) for _ in range(3))
    slow = min(calls.timed(nothing, nap, 100.0) for _ in range(3))
    assert 0.05 <= plain < slow
    assert slow >= 0.1, "twice as long as it took"
    assert slow < 2 * plain + 0.05


@pytest.mark.parametrize("text", ["-1", "1001", "nan", "much"])
def test_a_slowdown_is_percent(calls: Any, text: str) -> None:
    with pytest.raises(calls.argparse.ArgumentTypeError):
        calls.percentage(text)


def test_every_workload_is_described_and_can_be_started() -> None:
    page = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")
    for workload in workloads().values():
        assert f"`{workload.name}`" in page
        for script in (workload.script, *(words[0] for words in workload.native.values())):
            assert (INSIDE / script).is_file()
        assert workload.size <= workload.largest
    assert workloads()["ppo-torch"].metrics == workloads()["ppo"].metrics
