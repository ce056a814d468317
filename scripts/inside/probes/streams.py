"""Probes of order: streams, events, host functions, graphs."""

from __future__ import annotations

import ctypes
from typing import Any, List

import numpy as np
from kit import HANDLE, SIZE, WINDOWS, ProbeSession

#: y = y * factor + step, one thread an element, so that the order of two launches shows.
SCALE = """
.visible .entry scale(.param .u64 data, .param .u32 count, .param .f32 factor, .param .f32 step, .param .u32 turns)
{
    .reg .pred %p; .reg .u32 %i, %n, %b, %t, %k; .reg .u64 %a, %o; .reg .f32 %x, %f, %s;
    ld.param.u64 %a, [data]; ld.param.u32 %n, [count]; ld.param.f32 %f, [factor]; ld.param.f32 %s, [step];
    ld.param.u32 %k, [turns];
    mov.u32 %i, %ctaid.x; mov.u32 %b, %ntid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, %b, %t;
    setp.ge.u32 %p, %i, %n; @%p ret;
    cvta.to.global.u64 %a, %a; mul.wide.u32 %o, %i, 4; add.u64 %a, %a, %o;
    ld.global.f32 %x, [%a];
again:
    fma.rn.f32 %x, %x, %f, %s; sub.u32 %k, %k, 1; setp.ne.u32 %p, %k, 0; @%p bra again;
    st.global.f32 [%a], %x; ret;
}
"""


def arguments(buffer: Any, count: int, factor: float, step: float, turns: int = 1) -> List[Any]:
    """The kernel's arguments."""
    return [
        buffer,
        ctypes.c_uint32(count),
        ctypes.c_float(factor),
        ctypes.c_float(step),
        ctypes.c_uint32(turns),
    ]


def order(s: ProbeSession) -> None:
    """What is sent to one stream happens in that order: doubling and adding do not commute."""
    cuda, count = s.cuda, 10007
    scale, stream = cuda.kernel(SCALE, "scale"), cuda.stream()
    want = s.rng.integers(-8, 8, count).astype(np.float32)
    buffer = cuda.given(want)
    for turn in range(12):
        factor, step = (1.5, 0.0) if turn % 2 else (1.0, 3.0)
        cuda.launch(scale, (count + 255) // 256, 256, *arguments(buffer, count, factor, step), stream=stream)
        want = (want * np.float32(factor) + np.float32(step)).astype(np.float32)
    cuda.call("cuStreamSynchronize", stream)
    s.equal("twelve kernels in a row", buffer.get(np.float32), want)
    s.equal("nothing is left to do", cuda.code("cuStreamQuery", stream), 0)
    cuda.call("cuStreamDestroy_v2", stream)


def events(s: ProbeSession) -> None:
    """A stream waits for another's event; times are not negative; what was never recorded has none."""
    cuda, count = s.cuda, 1 << 16
    scale, first, second = cuda.kernel(SCALE, "scale"), cuda.stream(), cuda.stream()
    begin, middle, end = cuda.event(), cuda.event(), cuda.event()
    for turn in range(8):
        start = s.floats(count)
        buffer, copy = cuda.given(start), cuda.empty(np.float32, count)
        cuda.call("cuEventRecord", begin, first)
        cuda.launch(scale, count // 256, 256, *arguments(buffer, count, 0.5, 0.25, 2000), stream=first)
        cuda.call("cuEventRecord", middle, first)
        cuda.call("cuStreamWaitEvent", second, middle, 0)
        cuda.call("cuMemcpyDtoDAsync_v2", copy.at, buffer.at, SIZE(4 * count), second)
        cuda.call("cuEventRecord", end, second)
        cuda.call("cuEventSynchronize", end)
        right = s.equal(
            "turn %d saw what was before the event" % turn, copy.get(np.float32), np.full(count, 0.5)
        )
        buffer.free()
        copy.free()
        if not right:
            return
    elapsed = elapsed_ms(cuda, begin, end)
    s.need("time passed and is finite", 0 <= elapsed < 60000, elapsed)
    s.need(
        "the parts are no longer than the whole", elapsed_ms(cuda, begin, middle) <= elapsed + 0.1, elapsed
    )
    value = ctypes.c_float()
    code = cuda.code(elapsed_name(cuda), ctypes.byref(value), begin, cuda.event())
    s.refuses("time to an event that was never recorded", code)
    silent = cuda.event(2)
    cuda.call("cuEventRecord", silent, None)
    cuda.call("cuEventSynchronize", silent)
    s.refuses(
        "time of an event without timing", cuda.code(elapsed_name(cuda), ctypes.byref(value), begin, silent)
    )


def elapsed_name(cuda: Any) -> str:
    """The call under the name that this library has."""
    return (
        "cuEventElapsedTime"
        if hasattr(cuda.driver.library, "cuEventElapsedTime")
        else "cuEventElapsedTime_v2"
    )


def elapsed_ms(cuda: Any, begin: Any, end: Any) -> float:
    """Milliseconds between two events."""
    return float(cuda.ask(elapsed_name(cuda), begin, end, kind=ctypes.c_float))


def host_function(s: ProbeSession) -> None:
    """A function of the host runs in its turn: after the copy before it, before the fill behind it."""
    cuda, stream = s.cuda, s.cuda.stream()
    data, seen = s.rng.integers(1, 255, 4096, dtype=np.uint8), []
    back = np.zeros_like(data)
    prototype = getattr(ctypes, "WINFUNCTYPE" if WINDOWS else "CFUNCTYPE")

    def look(_data: Any) -> None:
        seen.append(back.copy())

    called = prototype(None, ctypes.c_void_p)(look)

    buffer = cuda.given(data)
    cuda.call("cuMemcpyDtoHAsync_v2", HANDLE(back.ctypes.data), buffer.at, SIZE(4096), stream)
    cuda.call("cuLaunchHostFunc", stream, called, None)
    cuda.call("cuMemsetD8Async", buffer.at, ctypes.c_ubyte(0), SIZE(4096), stream)
    cuda.call("cuMemcpyDtoHAsync_v2", HANDLE(back.ctypes.data), buffer.at, SIZE(4096), stream)
    cuda.call("cuStreamSynchronize", stream)
    s.equal("it ran once", len(seen), 1)
    if seen:
        s.equal("it saw what was before it", seen[0], data)
    s.equal("what is behind it came after", back, np.zeros(4096, np.uint8))


def graph(s: ProbeSession) -> None:
    """A captured fill and kernels do nothing while captured, and all of it each time they are launched."""
    cuda, count = s.cuda, 4099
    scale, stream = cuda.kernel(SCALE, "scale"), cuda.stream()
    start = s.rng.integers(-8, 8, count).astype(np.float32)
    buffer, side = cuda.given(start), cuda.given(np.zeros(count, np.uint32))
    captured, runnable = HANDLE(), HANDLE()
    cuda.call("cuStreamBeginCapture_v2", stream, 2)
    cuda.call("cuMemsetD32Async", side.at, 77, SIZE(count), stream)
    for factor, step in ((2.0, 0.0), (1.0, 1.0)):
        cuda.launch(scale, (count + 127) // 128, 128, *arguments(buffer, count, factor, step), stream=stream)
    state = ctypes.c_int()
    cuda.call("cuStreamIsCapturing", stream, ctypes.byref(state))
    s.equal("it says that it captures", state.value, 1)
    cuda.call("cuStreamEndCapture", stream, ctypes.byref(captured))
    s.equal("capturing ran nothing", buffer.get(np.float32), start)
    nodes = SIZE()
    cuda.call("cuGraphGetNodes", captured, None, ctypes.byref(nodes))
    s.equal("three nodes", nodes.value, 3)
    cuda.call("cuGraphInstantiateWithFlags", ctypes.byref(runnable), captured, ctypes.c_ulonglong(0))
    want = start
    for _turn in range(5):
        cuda.call("cuGraphLaunch", runnable, stream)
        want = want * np.float32(2) + np.float32(1)
    cuda.call("cuStreamSynchronize", stream)
    s.equal("five launches", buffer.get(np.float32), want)
    s.equal("the fill", side.get(np.uint32), np.full(count, 77))
    cuda.call("cuGraphExecDestroy", runnable)
    cuda.call("cuGraphDestroy", captured)
    refused_capture(s)


def refused_capture(s: ProbeSession) -> None:
    """Waiting for a stream that captures is refused, and the capture is over."""
    cuda, stream, graph_ = s.cuda, s.cuda.stream(), HANDLE()
    s.refuses("the end of no capture", cuda.code("cuStreamEndCapture", stream, ctypes.byref(graph_)))
    cuda.call("cuStreamBeginCapture_v2", stream, 0)
    s.refuses("waiting while it captures", cuda.code("cuStreamSynchronize", stream), 900, 901, 906)
    s.refuses(
        "a capture that was broken", cuda.code("cuStreamEndCapture", stream, ctypes.byref(graph_)), 901, 900
    )
    s.equal("the stream works again", cuda.code("cuStreamSynchronize", stream), 0)


PROBES = {
    "streams-order": order,
    "streams-events": events,
    "streams-host-function": host_function,
    "driver-graph": graph,
}
