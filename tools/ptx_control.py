"""The cases of ``ptx_cases`` and random programs on a real GPU, to be compared with the engine.

``write CASES`` puts all kernels and their inputs into one file. ``run CASES RESULTS [--library NAME]`` needs only
Python and a CUDA driver: it runs them there and writes the bits that came out. ``compare CASES RESULTS`` runs the
engine here and lists the forms whose bits differ.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import json
import sys
import zlib
from pathlib import Path
from typing import Any

Case = dict[str, Any]
THREADS = 64


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def form_cases() -> list[Case]:
    """Return a case for each form: its module, inputs by column, and the rows that the manual leaves open."""
    from tools.ptx_cases import bits_of, every_form, module_text, rows

    cases = []
    for form in every_form():
        inputs = rows(form)
        columns = [
            b"".join(row[k].to_bytes(bits_of(kind) // 8, "little") for row in inputs)
            for k, kind in enumerate(form.sources)
        ]
        size = bits_of(form.out) // 8
        cases.append(
            {
                "name": form.text, "text": module_text([form], form.least, max(form.version, 70 if form.least < 80 else 78)),
                "columns": [packed(column) for column in columns], "rows": len(inputs), "size": size, "out": size * len(inputs),
                "open": [i for i, row in enumerate(inputs) if form.compute(*row) is None], "error": form.error, "kind": form.out,
                "least": form.least,
            }
        )  # fmt: skip
    return cases


def program_cases(count: int) -> list[Case]:
    """Return random programs; what the manual leaves open in them is marked word by word."""
    from tools.ptx_fuzz import Run, UnknownBranchError, batch, memory_of, registers, text_of

    cases = []
    for program in batch(77, count):
        try:
            want = Run(program).run()
        except UnknownBranchError:
            continue
        names = [name for name, _ in registers()]
        unknown = [
            t * len(names) + k
            for t in range(program.threads)
            for k, name in enumerate(names)
            if want[name][t] is None
        ]
        data = memory_of(program).tobytes()
        cases.append(
            {
                "name": program.name, "text": text_of([program]), "kernel": program.name, "threads": program.threads,
                "columns": [packed(data)], "rows": 0, "size": 8, "out": len(data), "open": unknown, "error": 0.0, "kind": "u64",
            }
        )  # fmt: skip
    return cases


def small_cases() -> list[Case]:
    """Return the small programs of the tests, with what the tests say that each must give."""
    import numpy as np

    from tests import test_native_ptx_small as small
    from tests.native_ptx import u32

    found = [
        *((name, small.value_text(name), 1, 4, 0, *small.VALUES[name][1:]) for name in small.VALUES),
        *((name, small.program_text(name), 1, 8, 64, *small.PROGRAMS[name][2:]) for name in small.PROGRAMS),
        *((name, small.warp_text(name), 64, 64, 0, (), small.WARPS[name][1]) for name in small.WARPS),
    ]
    return [
        {
            "name": f"small: {name}", "text": text, "kernel": "k", "threads": threads, "shared": shared, "rows": 0, "size": 4,
            "columns": [packed(u32(*given, *(0,) * (8 - len(given))).tobytes())], "out": 4 * words, "error": 0.0, "kind": "u32",
            "open": list(range(len(want), words)), "want": np.array(want, np.int64).astype(np.uint32).tolist(),
            "least": int(small.TARGETS.get(name, "sm_90")[3:].rstrip("a")),
        }
        for name, text, threads, words, shared, given, want in found
    ]  # fmt: skip


# ---- a CUDA driver: nothing but ctypes ----


class Driver:
    """The few calls that loading and launching take."""

    def __init__(self, name: str) -> None:
        self.cuda = ctypes.CDLL(name)
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        title = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", title, 100, device)
        self.name = title.value.decode()
        self.sm = 10 * self.attribute(75, device) + self.attribute(76, device)

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.cuda, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} returned {code}")

    def attribute(self, number: int, device: ctypes.c_int) -> int:
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, device)
        return value.value

    def upload(self, data: bytes) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(len(data), 16)))
        self.call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
        return address

    def run(self, case: Case) -> bytes:
        """Run one case; the memory that comes out is filled with zeros before."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), case["text"].encode() + b"\0")
        columns = [self.upload(unpacked(column)) for column in case["columns"]]
        out = self.upload(bytes(case["out"]))
        try:
            self.call(
                "cuModuleGetFunction", ctypes.byref(function), module, case.get("kernel", "k0").encode()
            )
            threads = case.get("threads", THREADS)
            grid = (case["rows"] + THREADS - 1) // THREADS if case["rows"] else 1
            values: list[Any] = (
                [out, *columns, ctypes.c_uint32(case["rows"])] if case["rows"] else [*columns, out]
            )
            pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
            shared = case.get("shared", 0)
            self.call("cuLaunchKernel", function, grid, 1, 1, threads, 1, 1, shared, None, pointers, None)
            self.call("cuCtxSynchronize")
            result = ctypes.create_string_buffer(case["out"])
            self.call("cuMemcpyDtoH_v2", result, out, ctypes.c_size_t(case["out"]))
            return result.raw
        finally:
            for address in (*columns, out):
                self.call("cuMemFree_v2", address)
            self.call("cuModuleUnload", module)


def run(cases: list[Case], library: str) -> Case:
    driver = Driver(library)
    results: Case = {"device": driver.name, "out": {}, "errors": {}}
    for case in cases:
        if case.get("least", 0) > driver.sm:
            results["errors"][case["name"]] = f"needs sm_{case['least']}, this is sm_{driver.sm}"
            continue
        try:
            results["out"][case["name"]] = packed(driver.run(case))
        except RuntimeError as error:
            results["errors"][case["name"]] = str(error)
    return results


# ---- comparing ----


def engine_output(case: Case) -> bytes:
    """Run one case on the engine."""
    import numpy as np

    from tests.native_ptx import Module, aligned

    columns = [aligned(np.frombuffer(unpacked(column), np.uint8)) for column in case["columns"]]
    out = aligned(np.zeros(case["out"], np.uint8))
    arguments = [out, *columns, np.uint32(case["rows"])] if case["rows"] else [*columns, out]
    grid = (case["rows"] + THREADS - 1) // THREADS if case["rows"] else 1
    with Module(case["text"]) as module:
        block = (case.get("threads", THREADS), 1, 1)
        name, shared = case.get("kernel", "k0"), case.get("shared", 0)
        module.launch(name, arguments, grid=(grid, 1, 1), block=block, shared=shared)
    return out.tobytes()


def values_of(data: bytes, size: int) -> list[int]:
    return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]


def shown_inputs(case: Case, index: int) -> str:
    if not case["rows"]:
        return f"word {index}"
    columns = [unpacked(column) for column in case["columns"]]
    sizes = [len(column) // case["rows"] for column in columns]
    return ", ".join(
        hex(int.from_bytes(c[index * s : index * s + s], "little"))
        for c, s in zip(columns, sizes, strict=True)
    )


def close(case: Case, a: int, b: int) -> bool:
    from tools.ptx_cases_convert import real

    if a == b or not case["error"]:
        return a == b
    x, y = real(a, case["kind"]), real(b, case["kind"])
    return (x != x and y != y) or abs(x - y) <= 2 * case["error"] * max(
        abs(y), 1 if case["name"][:3] in ("sin", "cos") else 0
    )


def compare(cases: list[Case], results: Case) -> int:
    """List what differs; open values are shown apart, since either answer is right there."""
    different = 0
    ran = [case for case in cases if case["name"] in results["out"]]
    for case in ran:
        theirs = values_of(unpacked(results["out"][case["name"]]), case["size"])
        ours = values_of(engine_output(case), case["size"])
        unknown = set(case["open"])
        wanted = case.get("want", theirs)
        if theirs[: len(wanted)] != wanted:
            print(f"EXPECTED {case['name']}: the test wants {wanted}, {results['device']} gives {theirs}")
            different += 1
        pairs = [
            (i, a, b) for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if not close(case, a, b)
        ]
        wrong = [pair for pair in pairs if pair[0] not in unknown]
        different += bool(wrong)
        for title, some in (("DIFFERS", wrong), ("open", [pair for pair in pairs if pair[0] in unknown])):
            if some:
                index, a, b = some[0]
                print(
                    f"{title:8} {case['name']}: {len(some)} values; of {shown_inputs(case, index)}: engine {a:#x}, {results['device']} {b:#x}"
                )
    print(
        f"{len(ran)} cases ran on {results['device']}, {different} differ; {len(results['errors'])} did not run"
    )
    for name, error in list(results["errors"].items())[:20]:
        print(f"not run  {name}: {error}")
    return bool(different)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("write", "run", "compare"))
    parser.add_argument("cases", type=Path)
    parser.add_argument("results", type=Path, nargs="?")
    parser.add_argument("--library", default="libcuda.so.1")
    parser.add_argument("--programs", type=int, default=300)
    chosen = parser.parse_args()
    if chosen.what == "write":
        cases = form_cases() + small_cases() + program_cases(chosen.programs)
        chosen.cases.write_text(json.dumps(cases), encoding="utf-8")
        print(f"{len(cases)} cases, {chosen.cases.stat().st_size >> 10} KiB")
        return 0
    cases = json.loads(chosen.cases.read_text(encoding="utf-8"))
    if chosen.results is None:
        parser.error("name the file of results")
    if chosen.what == "run":
        chosen.results.write_text(json.dumps(run(cases, chosen.library)), encoding="utf-8")
        return 0
    return compare(cases, json.loads(chosen.results.read_text(encoding="utf-8")))


if __name__ == "__main__":
    sys.exit(main())
