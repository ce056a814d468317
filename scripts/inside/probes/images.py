"""Probes of loading code: several PTX images in one container, libraries, linking, and what must not load."""

from __future__ import annotations

import ctypes
import struct
from typing import Sequence, Tuple

import numpy as np
from assembly import entry
from kernels import number
from kernels_types import capability
from kit import HANDLE, SIZE, ProbeSession, ptx

WRITE = "mov.u32 %%r1, %d; mad.wide.u32 %%d0, %%i, 4, %%out; st.global.u32 [%%d0], %%r1;"
SYNTAX, NO_IMAGE, INVALID_IMAGE = 218, 209, 200


#: The first PTX version that knows a target; a compiler refuses a text that states an older one.
VERSIONS = {80: "7.0", 86: "7.1", 89: "7.8", 90: "7.8", 100: "8.6", 120: "8.7"}


def image(target: int, value: int) -> bytes:
    """PTX for one target; its kernel ``run`` writes ``value``."""
    text = entry("run", "u64 out, u32 n", WRITE % value)
    return ptx(text, target="sm_%d" % target, version=VERSIONS.get(target, "7.0"))


def container(images: Sequence[Tuple[int, bytes]]) -> bytes:
    """Put PTX images into one container, as compilers do; the layout is that of ``binary/fatbin``."""
    body = b""
    for target, text in images:
        padded = text + bytes(-len(text) % 8)
        head = struct.pack(
            "<HHIQIIHHIIIQQQ", 1, 0x101, 80, len(padded), 0, 64, 0, 7, target, 0, 0, 0x11, 0, 0
        )
        body += head + struct.pack("<IIQ", 72, 0, 0) + padded  # where the compiler's options stand: none
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def ran(s: ProbeSession, module: HANDLE) -> int:
    """Launch the module's kernel and return what it wrote."""
    out = s.cuda.empty(np.uint32, 1)
    s.cuda.launch(s.cuda.function(module, "run"), 1, 1, out, number(1))
    return int(out.get(np.uint32)[0])


def selection(s: ProbeSession) -> None:
    """Of several PTX images the highest that the device can run is taken, wherever it stands."""
    cuda, here = s.cuda, capability(s)
    known = [target for target in (75, 80, 86, 89, 90, 100, 120) if target <= here]
    s.need("75 or more", known, here)
    module = HANDLE()
    for case, targets in (
        ("rising", known),
        ("falling", known[::-1]),
        ("with one for no device yet", [*known, 999]),
    ):
        text = [(t, image(t, 1000 + t) if t != 999 else b".version 9.9\n.target sm_999\n\0") for t in targets]
        cuda.call("cuModuleLoadData", ctypes.byref(module), container(text))
        s.equal(case, ran(s, module), 1000 + max(known))
        version = cuda.ask("cuFuncGetAttribute", 5, cuda.function(module, "run"))
        s.equal(case + ": the version it states", version, max(known))
        cuda.call("cuModuleUnload", module)


def refused(s: ProbeSession, text: bytes) -> bool:
    """Whether a text is refused: when it is loaded, or at the latest when its kernel is launched."""
    module, function, out = HANDLE(), HANDLE(), s.cuda.given(np.zeros(1, np.uint32))
    if s.cuda.code("cuModuleLoadData", ctypes.byref(module), text):
        return True
    code = s.cuda.code("cuModuleGetFunction", ctypes.byref(function), module, b"run")
    code = code or s.cuda.launch_code(function, 1, 1, out, number(1)) or s.cuda.code("cuCtxSynchronize")
    return bool(code)


def refusals(s: ProbeSession) -> None:
    """Text that is no PTX, a target that no device has, and half a file do not run; then the right one does."""
    good = image(75, 1).decode().rstrip("\0")
    cases = (
        ("no PTX at all", "this is no PTX"),
        ("an instruction that does not exist", good.replace("mov.u32 %r1, 1;", "frobnicate.u32 %r1, %r2;")),
        ("a register that was not declared", good.replace("mov.u32 %r1, 1;", "mov.u32 %r1, %nothing;")),
        ("a label that does not exist", good.replace("mov.u32 %r1, 1;", "mov.u32 %r1, 1; bra nowhere;")),
        ("half of a kernel", good[: good.rindex("mad.wide")]),
        ("a target for no device yet", good.replace("sm_75", "sm_999")),
        ("a version that does not exist", good.replace(".version 7.0", ".version 99.9")),
    )
    for case, text in cases:
        s.need(case, refused(s, text.encode() + b"\0"), "it was accepted, and its kernel launched")
    module = HANDLE()
    s.refuses(
        "a file that does not exist", s.cuda.code("cuModuleLoad", ctypes.byref(module), b"no such file"), 301
    )
    s.cuda.call("cuModuleLoadData", ctypes.byref(module), image(75, 7))
    s.equal("then the right one", ran(s, module), 7)


def libraries(s: ProbeSession) -> None:
    """Code loaded as a library belongs to no context; its kernels run, with or without a handle of a function."""
    cuda, library, kernel, function = s.cuda, HANDLE(), HANDLE(), HANDLE()
    text = image(75, 99)
    cuda.call("cuLibraryLoadData", ctypes.byref(library), text, None, None, 0, None, None, 0)
    cuda.call("cuLibraryGetKernel", ctypes.byref(kernel), library, b"run")
    cuda.call("cuKernelGetFunction", ctypes.byref(function), kernel)
    for case, handle in (("by its function", function), ("by the kernel itself", kernel)):
        out = cuda.empty(np.uint32, 1)
        cuda.launch(handle, 1, 1, out, number(1))
        s.equal(case, out.get(np.uint32)[0], 99)
    code = cuda.code("cuLibraryGetKernel", ctypes.byref(HANDLE()), library, b"nothing")
    s.refuses("a kernel that is not in it", code, 500)
    cuda.call("cuLibraryUnload", library)


ONE = ".extern .func (.param .u32 r) twice(.param .u32 x);\n" + entry("run", "u64 out, u32 n", """
    { .param .u32 r; .param .u32 x; mov.u32 %r1, 21; st.param.u32 [x], %r1; call (r), twice, (x); ld.param.u32 %r2, [r]; }
    mad.wide.u32 %d0, %i, 4, %out; st.global.u32 [%d0], %r2;
""")  # fmt: skip
OTHER = """
.visible .func (.param .u32 r) twice(.param .u32 x)
{
    .reg .u32 %a; ld.param.u32 %a, [x]; add.u32 %a, %a, %a; st.param.u32 [r], %a; ret;
}
"""


def linking(s: ProbeSession) -> None:
    """A kernel of one text calls a function of another after the driver has linked them."""
    cuda, linker, code, size = s.cuda, HANDLE(), HANDLE(), SIZE()
    cuda.call("cuLinkCreate_v2", 0, None, None, ctypes.byref(linker))
    for name, text in ((b"one", ptx(ONE)), (b"other", ptx(OTHER))):
        cuda.call("cuLinkAddData_v2", linker, 1, text, SIZE(len(text)), name, 0, None, None)
    cuda.call("cuLinkComplete", linker, ctypes.byref(code), ctypes.byref(size))
    module = HANDLE()
    cuda.call("cuModuleLoadData", ctypes.byref(module), code)
    cuda.call("cuLinkDestroy", linker)
    s.equal("twice 21", ran(s, module), 42)


def compile_log(s: ProbeSession) -> None:
    """A text that does not compile leaves its line number in the log that the caller brought."""
    cuda, module = s.cuda, HANDLE()
    text = ptx(entry("run", "u64 out, u32 n", "frobnicate.u32 %r1, %r2;"))
    log = ctypes.create_string_buffer(4096)
    options = (ctypes.c_int * 2)(5, 6)
    values = (HANDLE * 2)(ctypes.addressof(log), 4096)
    code = cuda.code("cuModuleLoadDataEx", ctypes.byref(module), text, 2, options, values)
    s.refuses("it does not load", code, SYNTAX)
    s.need("the log is not empty", log.value.strip(), repr(log.value))
    line = text[: text.index(b"frobnicate")].count(b"\n") + 1
    s.need("it names line %d" % line, str(line).encode() in log.value, repr(log.value[:300]))


PROBES = {
    "driver-ptx-selection": selection,
    "driver-ptx-refusals": refusals,
    "driver-library": libraries,
    "driver-linking": linking,
    "driver-compile-log": compile_log,
}
