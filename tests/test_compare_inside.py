"""The workloads notice what goes wrong: lost launches, damaged copies, wrong products of the native BLAS.

Small stand-ins play the driver and ROCm, each with one fault on demand; the real ones are measured on GPUs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.bench.workload_record import judge_run, parse_record
from scripts.model import Outcome
from tests.checkout import ROOT

pytestmark = pytest.mark.posix_only

#: A driver that "compiles" anything and whose only kernel adds one; memory is the host's.
DRIVER = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static int fault(const char *name) { const char *f = getenv("FAULT"); return f && !strcmp(f, name); }
int cuInit(unsigned f) { return 0; }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuDeviceGet(int *d, int n) { *d = 0; return 0; }
int cuDeviceGetName(char *t, int n, int d) { strncpy(t, "stand-in", n); return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = 0; return 0; }
int cuDevicePrimaryCtxRelease_v2(int d) { return 0; }
int cuCtxSetCurrent(void *c) { return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuMemAlloc_v2(uint64_t *p, size_t n) { *p = (uintptr_t)malloc(n); return *p ? 0 : 2; }
int cuMemFree_v2(uint64_t p) { free((void *)(uintptr_t)p); return 0; }
int cuMemAllocHost_v2(void **p, size_t n) { *p = malloc(n); return fault("pageable") ? 801 : 0; }
int cuMemcpyHtoD_v2(uint64_t d, const void *s, size_t n) {
  memcpy((void *)(uintptr_t)d, s, n);
  return 0;
}
int cuMemcpyDtoH_v2(void *d, uint64_t s, size_t n) {
  if (fault("no-copy-back") && n > 100) return 0;
  memcpy(d, (void *)(uintptr_t)s, n);
  return 0;
}
int cuMemcpyDtoD_v2(uint64_t d, uint64_t s, size_t n) {
  if (fault("no-copy-inside")) return 0;
  memcpy((void *)(uintptr_t)d, (void *)(uintptr_t)s, n);
  if (fault("one-bit")) ((char *)(uintptr_t)d)[n / 2] ^= 1;
  return 0;
}
int cuModuleLoadData(void **m, const void *text) { *m = 0; return strstr(text, "add_one") ? 0 : 218; }
int cuModuleGetFunction(void **f, void *m, const char *n) { *f = 0; return strcmp(n, "add_one") ? 500 : 0; }
int cuLaunchKernel(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g,
                   unsigned shared, void *stream, void **arguments, void **extra) {
  static int launches;
  if (fault("refuses-kernels")) return 801;
  if (fault("loses-one") && ++launches == 7) return 0;
  ++*(uint32_t *)(uintptr_t)*(uint64_t *)arguments[0];
  return 0;
}
"""

HIP = r"""
#include <stdlib.h>
#include <string.h>
int hipInit(unsigned f) { return 0; }
int hipDeviceGetName(char *t, int n, int d) { strncpy(t, "stand-in", n); return 0; }
int hipMalloc(void **p, size_t n) { *p = malloc(n); return *p ? 0 : 2; }
int hipMemcpy(void *d, const void *s, size_t n, int kind) { memcpy(d, s, n); return 0; }
int hipDeviceSynchronize(void) { return 0; }
"""

ROCBLAS = r"""
#include <stdlib.h>
int rocblas_create_handle(void **h) { *h = 0; return 0; }
#define GEMM(NAME, T) \
  int NAME(void *h, int ta, int tb, int m, int n, int k, const T *alpha, const T *a, int lda, const T *b, \
           int ldb, const T *beta, T *c, int ldc) { \
    if (ta != 111 || tb != 111 || *beta != 0) return 11; \
    for (int j = 0; j < n; j++) for (int i = 0; i < m; i++) { \
      double sum = 0; \
      for (int l = 0; l < k; l++) sum += (double)a[i + (size_t)l * lda] * b[l + (size_t)j * ldb]; \
      c[i + (size_t)j * ldc] = (T)(*alpha * sum); } \
    if (getenv("FAULT")) c[0] += 1; \
    return 0; }
GEMM(rocblas_sgemm, float)
GEMM(rocblas_dgemm, double)
"""
SOURCES = {"libcuda.so.1": DRIVER, "libamdhip64.so": HIP, "librocblas.so": ROCBLAS}


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    folder = tmp_path_factory.mktemp("stand-ins")
    for name, text in SOURCES.items():
        source = folder / f"{name}.c"
        source.write_text(text, encoding="utf-8")
        command = [compiler, "-shared", "-fPIC", "-O1", "-w", "-o", str(folder / name), str(source)]
        subprocess.run(command, check=True, timeout=60)
    return folder


def said(folder: Path, script: str, *arguments: str, fault: str = "") -> dict[str, Any]:
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder), "FAULT": fault}
    if not fault:
        del env["FAULT"]
    command = [sys.executable, str(ROOT / "scripts" / "inside" / script), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, timeout=60, check=False)
    record = parse_record(done.stderr)
    assert not record.fault, done.stderr
    judged = judge_run(record, capability="x", exit_code=done.returncode, timed_out=False)
    assert judged.outcome.value == record.data["outcome"], "the exit code and the record agree"
    return dict(record.data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "outcome", "detail"),
    [
        ("", Outcome.PASS, ""),
        ("loses-one", Outcome.INCORRECT, "200 launches, the counter says 199"),
        ("refuses-kernels", Outcome.REFUSED, "cuLaunchKernel returned 801"),
    ],
    ids=["right", "loses-one", "refuses"],
)
def test_every_launch_is_counted(stand_ins: Path, fault: str, outcome: Outcome, detail: str) -> None:
    got = said(stand_ins, "launch_latency.py", "--size=20", "--iterations=4", fault=fault)
    assert got["outcome"] == outcome
    assert got.get("detail", "") == detail
    if outcome is Outcome.PASS:
        assert len(got["iterations"]) == 4, "the first one warms up and does not count"
        assert got["launches"] == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "outcome", "memory"),
    [
        ("", Outcome.PASS, "page-locked"),
        ("pageable", Outcome.PASS, "pageable"),
        ("one-bit", Outcome.INCORRECT, "page-locked"),
        ("no-copy-inside", Outcome.INCORRECT, "page-locked"),
        ("no-copy-back", Outcome.INCORRECT, "page-locked"),
    ],
    ids=["right", "pageable", "one-bit", "no-copy-inside", "no-copy-back"],
)
def test_every_byte_is_compared(stand_ins: Path, fault: str, outcome: Outcome, memory: str) -> None:
    got = said(stand_ins, "memory_copy.py", "--size=1", "--iterations=3", fault=fault)
    assert got["outcome"] == outcome
    assert got["conditions"]["host_memory"] == memory
    assert len(got["iterations"]) == (3 if outcome is Outcome.PASS else 0), "no speed of a wrong copy"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("fault", ["", "wrong"], ids=["right", "wrong"])
def test_the_devices_own_product_is_judged_too(stand_ins: Path, dtype: str, fault: str) -> None:
    words = ("--backend=hip", "--size=40", "--iterations=2", f"--dtype={dtype}")
    got = said(stand_ins, "gemm_native.py", *words, fault=fault)
    assert got["outcome"] == ("incorrect" if fault else "pass")
    assert (got["library"], got["device"]) == ("rocBLAS", "stand-in")
    assert (f"gflops_{dtype}" in got) is not bool(fault), "no speed of a wrong product"


def test_numpys_own_product_stands_beside_the_cpu_reference(tmp_path: Path) -> None:
    got = said(tmp_path, "gemm_native.py", "--backend=cpu", "--size=64", "--iterations=2")
    assert (got["outcome"], got["device"]) == ("pass", "CPU")


def test_without_rocm_the_baseline_is_unavailable(tmp_path: Path) -> None:
    got = said(tmp_path, "gemm_native.py", "--backend=hip", "--size=16")
    assert got["outcome"] == "unavailable"
    assert "libamdhip64" in got["detail"]
