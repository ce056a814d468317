"""Work in order: streams, events, callbacks, graphs, pools, virtual memory and copies of every shape."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.native_cpu import library, pointer
from tests.native_kernels import PTX, function, launch, load, pack

pytestmark = pytest.mark.proof

NOT_READY, NOT_PERMITTED, INVALID, ILLEGAL_STATE = 600, 800, 1, 401
UNSUPPORTED, INVALIDATED, UNMATCHED, UNJOINED, ISOLATION, IMPLICIT, CAPTURED = (
    900,
    901,
    903,
    904,
    905,
    906,
    907,
)
UPDATE_FAILED = 910
NO_CONTEXT = 201
PER_THREAD = ctypes.c_void_p(2)
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
u32, u64, f32, size = ctypes.c_uint, ctypes.c_uint64, ctypes.c_float, ctypes.c_size_t


@pytest.fixture
def cuda() -> Iterator[Any]:
    driver, context = library("nvcuda"), ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    yield driver
    assert driver.cuCtxDestroy_v2(context) == 0


def made(call: Any, *arguments: Any) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    assert call(ctypes.byref(handle), *arguments) == 0
    return handle


def stream(cuda: Any, flags: int = 1) -> ctypes.c_void_p:
    return made(cuda.cuStreamCreate, flags)


def event(cuda: Any) -> ctypes.c_void_p:
    return made(cuda.cuEventCreate, 0)


class Gate:
    """A host function that holds a stream up until it is opened, and a log of what was done."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.opened = threading.Event()
        self.kept: list[Any] = []

    def function(self, run: Callable[[], Any]) -> Any:
        self.kept.append(HOST_FUNCTION(lambda _data: (run(), None)[1]))
        return self.kept[-1]

    def hold(self) -> Any:
        def wait() -> None:
            self.opened.wait(20)
            self.log.append("held")

        return self.function(wait)

    def note(self, word: str) -> Any:
        return self.function(lambda: self.log.append(word))


def test_a_stream_goes_on_while_its_caller_does_something_else(cuda: Any) -> None:
    gate, one = Gate(), stream(cuda)
    assert cuda.cuLaunchHostFunc(one, gate.hold(), None) == 0
    assert cuda.cuLaunchHostFunc(one, gate.note("after"), None) == 0
    assert (cuda.cuStreamQuery(one), gate.log) == (NOT_READY, [])
    gate.opened.set()
    assert cuda.cuStreamSynchronize(one) == 0
    assert (cuda.cuStreamQuery(one), gate.log) == (0, ["held", "after"])


def test_an_event_makes_one_stream_wait_for_another(cuda: Any) -> None:
    gate, one, two, mark = Gate(), stream(cuda), stream(cuda), event(cuda)
    assert cuda.cuLaunchHostFunc(one, gate.hold(), None) == 0
    assert cuda.cuEventRecord(mark, one) == 0
    assert cuda.cuStreamWaitEvent(two, mark, 0) == 0
    assert cuda.cuLaunchHostFunc(two, gate.note("two"), None) == 0
    assert (cuda.cuEventQuery(mark), cuda.cuStreamQuery(two), gate.log) == (NOT_READY, NOT_READY, [])
    gate.opened.set()
    assert cuda.cuEventSynchronize(mark) == 0
    assert cuda.cuStreamSynchronize(two) == 0
    assert gate.log == ["held", "two"]


@pytest.mark.parametrize(("flags", "waits"), [(0, True), (1, False)])
def test_the_legacy_stream_waits_for_blocking_streams_only(cuda: Any, flags: int, waits: bool) -> None:
    gate, one = Gate(), stream(cuda, flags)
    assert cuda.cuLaunchHostFunc(one, gate.hold(), None) == 0
    assert cuda.cuLaunchHostFunc(None, gate.note("legacy"), None) == 0
    if not waits:
        assert cuda.cuStreamSynchronize(None) == 0
        assert gate.log == ["legacy"]
    else:
        assert (cuda.cuStreamQuery(None), gate.log) == (NOT_READY, [])
    gate.opened.set()
    assert cuda.cuCtxSynchronize() == 0
    assert sorted(gate.log) == ["held", "legacy"]


def test_each_thread_has_a_default_stream_of_its_own(cuda: Any) -> None:
    gate, ids = Gate(), set()
    context = made(cuda.cuCtxGetCurrent)

    def other() -> None:
        number = u64()
        assert cuda.cuCtxSetCurrent(context) == 0
        assert cuda.cuStreamGetId(PER_THREAD, ctypes.byref(number)) == 0
        ids.add(number.value)
        assert cuda.cuLaunchHostFunc_ptsz(None, gate.note("other"), None) == 0
        assert cuda.cuStreamSynchronize_ptsz(None) == 0

    assert cuda.cuLaunchHostFunc_ptsz(None, gate.hold(), None) == 0
    number = u64()
    assert cuda.cuStreamGetId(PER_THREAD, ctypes.byref(number)) == 0
    ids.add(number.value)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join(20)
    assert gate.log == ["other"]
    gate.opened.set()
    assert cuda.cuStreamSynchronize(PER_THREAD) == 0
    assert len(ids) == 2


def test_host_functions_may_not_call_the_driver(cuda: Any) -> None:
    gate, one, seen = Gate(), stream(cuda), []
    context = made(cuda.cuCtxGetCurrent)

    def call() -> None:
        assert cuda.cuCtxSetCurrent(context) == 0
        seen.append(cuda.cuStreamSynchronize(one))

    assert cuda.cuLaunchHostFunc(one, gate.function(call), None) == 0
    assert cuda.cuStreamSynchronize(one) == 0
    assert seen == [NOT_PERMITTED]


def test_destroying_a_stream_lets_its_work_end(cuda: Any) -> None:
    gate, one = Gate(), stream(cuda)
    assert cuda.cuLaunchHostFunc(one, gate.hold(), None) == 0
    assert cuda.cuStreamDestroy_v2(one) == 0
    assert gate.log == []
    gate.opened.set()
    assert cuda.cuCtxSynchronize() == 0
    assert gate.log == ["held"]


def test_a_stream_waits_for_a_value_in_memory(cuda: Any) -> None:
    gate, one, memory = Gate(), stream(cuda), ctypes.c_void_p()
    assert cuda.cuMemHostAlloc(ctypes.byref(memory), size(8), 0) == 0
    cell = ctypes.c_uint.from_address(memory.value or 0)
    cell.value = 0
    address = u64(memory.value or 0)
    assert cuda.cuStreamWaitValue32_v2(one, address, u32(5), 0) == 0
    assert cuda.cuLaunchHostFunc(one, gate.note("reached"), None) == 0
    assert cuda.cuStreamWriteValue32_v2(one, address, u32(9), 0) == 0
    assert (cuda.cuStreamQuery(one), gate.log) == (NOT_READY, [])
    cell.value = 6
    assert cuda.cuStreamSynchronize(one) == 0
    assert (gate.log, cell.value) == (["reached"], 9)


# ---- graphs ----


def kernel_and_memory(cuda: Any) -> tuple[ctypes.c_void_p, ctypes.c_uint64]:
    target = u64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(target), size(64)) == 0
    assert cuda.cuMemsetD32_v2(target, 0, size(16)) == 0
    return function(cuda, load(cuda, PTX), b"scale"), target


def read(cuda: Any, address: ctypes.c_uint64) -> list[float]:
    back = np.zeros(16, np.float32)
    assert cuda.cuMemcpyDtoH_v2(pointer(back), address, size(64)) == 0
    return list(map(float, back))


def test_a_captured_graph_does_the_same_each_time(cuda: Any) -> None:
    kernel, target = kernel_and_memory(cuda)
    one, two, mark, graph, count = stream(cuda), stream(cuda), event(cuda), ctypes.c_void_p(), size()
    bits = ctypes.c_uint(np.float32(1.0).view(np.uint32).item())
    assert cuda.cuStreamBeginCapture_v2(one, 0) == 0
    assert cuda.cuMemsetD32Async(target, bits, size(16), one) == 0
    assert cuda.cuEventRecord(mark, one) == 0
    assert cuda.cuStreamWaitEvent(two, mark, 0) == 0
    assert launch(cuda, kernel, pack(target, target, f32(3), u32(16)), stream=two) == 0
    assert cuda.cuEventRecord(mark, two) == 0
    assert cuda.cuStreamWaitEvent(one, mark, 0) == 0
    assert launch(cuda, kernel, pack(target, target, f32(2), u32(16)), stream=one) == 0
    assert cuda.cuEventQuery(mark) == CAPTURED
    assert cuda.cuStreamEndCapture(one, ctypes.byref(graph)) == 0
    assert cuda.cuGraphGetNodes(graph, None, ctypes.byref(count)) == 0
    assert count.value == 3
    assert read(cuda, target) == [0.0] * 16
    exec_ = made(cuda.cuGraphInstantiateWithFlags, graph, u64(0))
    for _ in range(3):
        assert cuda.cuGraphLaunch(exec_, one) == 0
    assert cuda.cuStreamSynchronize(one) == 0
    assert read(cuda, target) == [6.0] * 16
    assert cuda.cuGraphExecDestroy(exec_) == 0
    assert cuda.cuGraphDestroy(graph) == 0


@pytest.mark.parametrize("joined", [True, False], ids=["joined", "loose"])
def test_a_forked_stream_may_be_destroyed_while_its_work_is_captured(cuda: Any, joined: bool) -> None:
    """The capture goes on; what the stream did must still be waited for."""
    kernel, target = kernel_and_memory(cuda)
    one, two, mark, graph = stream(cuda), stream(cuda), event(cuda), ctypes.c_void_p()
    assert cuda.cuStreamBeginCapture_v2(one, 0) == 0
    assert cuda.cuEventRecord(mark, one) == 0
    assert cuda.cuStreamWaitEvent(two, mark, 0) == 0
    assert launch(cuda, kernel, pack(target, target, f32(3), u32(16)), stream=two) == 0
    assert cuda.cuEventRecord(mark, two) == 0
    if joined:
        assert cuda.cuStreamWaitEvent(one, mark, 0) == 0
    assert cuda.cuStreamDestroy_v2(two) == 0
    assert launch(cuda, kernel, pack(target, target, f32(2), u32(16)), stream=one) == 0
    assert cuda.cuStreamEndCapture(one, ctypes.byref(graph)) == (0 if joined else UNJOINED)
    assert bool(graph.value) is joined
    if joined:
        assert cuda.cuGraphDestroy(graph) == 0


def test_a_capture_tells_of_the_edges_of_its_last_nodes(cuda: Any) -> None:
    one, status, edges, count = stream(cuda), ctypes.c_int(), ctypes.POINTER(u64)(), size()
    graph = ctypes.c_void_p()
    _kernel, target = kernel_and_memory(cuda)
    ask = cuda.cuStreamGetCaptureInfo_v3
    assert ask(one, ctypes.byref(status), None, None, None, ctypes.byref(edges), ctypes.byref(count)) == 0
    assert (status.value, bool(edges)) == (0, False)
    assert cuda.cuStreamBeginCapture_v2(one, 0) == 0
    assert cuda.cuMemsetD32Async(target, 0, size(16), one) == 0
    assert ask(one, ctypes.byref(status), None, None, None, ctypes.byref(edges), ctypes.byref(count)) == 0
    assert (status.value, count.value, edges[0]) == (1, 1, 0)
    assert cuda.cuStreamEndCapture(one, ctypes.byref(graph)) == 0
    assert cuda.cuGraphDestroy(graph) == 0


def test_what_a_capture_forbids_ends_it(cuda: Any) -> None:
    one, two, mark, graph = stream(cuda, 0), stream(cuda), event(cuda), ctypes.c_void_p()
    gate = Gate()
    assert cuda.cuStreamEndCapture(one, ctypes.byref(graph)) == ILLEGAL_STATE
    assert cuda.cuStreamBeginCapture_v2(one, 0) == 0
    assert cuda.cuStreamSynchronize(one) == UNSUPPORTED
    assert cuda.cuStreamEndCapture(one, ctypes.byref(graph)) == INVALIDATED
    assert graph.value is None
    assert cuda.cuStreamBeginCapture_v2(one, 0) == 0
    assert cuda.cuLaunchHostFunc(None, gate.note("legacy"), None) == IMPLICIT
    assert cuda.cuStreamEndCapture(one, ctypes.byref(graph)) == INVALIDATED
    assert cuda.cuEventRecord(mark, two) == 0
    assert cuda.cuStreamBeginCapture_v2(one, 0) == 0
    assert cuda.cuStreamWaitEvent(one, mark, 0) == ISOLATION
    assert cuda.cuStreamEndCapture(one, ctypes.byref(graph)) == INVALIDATED
    assert cuda.cuStreamBeginCapture_v2(one, 0) == 0
    assert cuda.cuEventRecord(mark, one) == 0
    assert cuda.cuStreamWaitEvent(two, mark, 0) == 0
    assert cuda.cuLaunchHostFunc(two, gate.note("never"), None) == 0
    assert cuda.cuStreamEndCapture(two, ctypes.byref(graph)) == UNMATCHED
    assert cuda.cuStreamEndCapture(one, ctypes.byref(graph)) == INVALIDATED
    assert cuda.cuStreamBeginCapture_v2(one, 0) == 0
    assert cuda.cuEventRecord(mark, one) == 0
    assert cuda.cuStreamWaitEvent(two, mark, 0) == 0
    assert cuda.cuLaunchHostFunc(two, gate.note("never"), None) == 0
    assert cuda.cuStreamEndCapture(one, ctypes.byref(graph)) == UNJOINED
    assert cuda.cuCtxSynchronize() == 0
    assert gate.log == []


class KernelNode(ctypes.Structure):
    _fields_: ClassVar[Any] = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class Fill(ctypes.Structure):
    _fields_: ClassVar[Any] = (
        ("to", ctypes.c_uint64),
        ("pitch", ctypes.c_size_t),
        ("value", ctypes.c_uint),
        ("element", ctypes.c_uint),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    )


def kernel_node(kernel: ctypes.c_void_p, arguments: Any) -> KernelNode:
    return KernelNode(
        function=kernel,
        grid=(1, 1, 1),
        block=(32, 1, 1),
        arguments=ctypes.cast(arguments, ctypes.c_void_p).value,
    )


def one_float(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def test_a_graph_is_built_changed_and_updated(cuda: Any) -> None:
    kernel, target = kernel_and_memory(cuda)
    graph = made(cuda.cuGraphCreate, 0)
    fill = Fill(to=target.value, value=one_float(1), element=4, width=16, height=1)
    double, triple = (pack(target, target, f32(x), u32(16)) for x in (2, 3))
    first = made(cuda.cuGraphAddMemsetNode, graph, None, size(0), ctypes.byref(fill), None)
    needs = (ctypes.c_void_p * 1)(first.value)
    params = kernel_node(kernel, double)
    second = made(cuda.cuGraphAddKernelNode_v2, graph, needs, size(1), ctypes.byref(params))
    exec_ = made(cuda.cuGraphInstantiate_v2, graph, None, None, size(0))
    assert cuda.cuGraphLaunch(exec_, None) == 0
    assert read(cuda, target) == [2.0] * 16
    assert (
        cuda.cuGraphExecKernelNodeSetParams_v2(exec_, second, ctypes.byref(kernel_node(kernel, triple))) == 0
    )
    assert cuda.cuGraphLaunch(exec_, None) == 0
    assert read(cuda, target) == [3.0] * 16
    assert cuda.cuGraphNodeSetEnabled(exec_, second, 0) == 0
    assert cuda.cuGraphLaunch(exec_, None) == 0
    assert read(cuda, target) == [1.0] * 16
    assert cuda.cuGraphNodeSetEnabled(exec_, second, 1) == 0
    fill.value = one_float(5)
    assert cuda.cuGraphMemsetNodeSetParams(first, ctypes.byref(fill)) == 0
    info = (ctypes.c_uint64 * 3)()
    assert cuda.cuGraphExecUpdate_v2(exec_, graph, info) == 0
    assert cuda.cuGraphLaunch(exec_, None) == 0
    assert read(cuda, target) == [10.0] * 16
    assert cuda.cuGraphAddEmptyNode(ctypes.byref(ctypes.c_void_p()), graph, None, size(0)) == 0
    assert cuda.cuGraphExecUpdate_v2(exec_, graph, info) == UPDATE_FAILED
    assert ctypes.c_int(info[0] & 0xFFFFFFFF).value == 2
    back = (ctypes.c_void_p * 1)(second.value)
    assert cuda.cuGraphAddDependencies(graph, back, needs, size(1)) == INVALID


def test_memory_of_a_graph_lives_as_long_as_the_graph(cuda: Any) -> None:
    one, graph, address = stream(cuda), ctypes.c_void_p(), u64()
    before, after, total = size(), size(), size()
    assert cuda.cuMemGetInfo_v2(ctypes.byref(before), ctypes.byref(total)) == 0
    assert cuda.cuStreamBeginCapture_v2(one, 0) == 0
    assert cuda.cuMemAllocAsync(ctypes.byref(address), size(4096), one) == 0
    assert cuda.cuMemsetD8Async(address, ctypes.c_ubyte(7), size(4096), one) == 0
    assert cuda.cuMemFreeAsync(address, one) == 0
    assert cuda.cuStreamEndCapture(one, ctypes.byref(graph)) == 0
    exec_ = made(cuda.cuGraphInstantiateWithFlags, graph, u64(0))
    assert cuda.cuGraphDestroy(graph) == 0
    for _ in range(2):
        assert cuda.cuGraphLaunch(exec_, one) == 0
    assert cuda.cuStreamSynchronize(one) == 0
    assert cuda.cuGraphExecDestroy(exec_) == 0
    assert cuda.cuMemGetInfo_v2(ctypes.byref(after), ctypes.byref(total)) == 0
    assert after.value == before.value


# ---- pools and virtual memory ----


def test_the_variants_for_a_threads_own_stream_hand_all_arguments_on(cuda: Any) -> None:
    kernel, memory = kernel_and_memory(cuda)
    values = pack(memory, memory, f32(2), u32(4))
    assert cuda.cuStreamBeginCapture_v2_ptsz(None, 0) == 0
    assert cuda.cuMemsetD2D8Async_ptsz(memory, size(16), ctypes.c_ubyte(7), size(5), size(3), None) == 0
    assert cuda.cuLaunchKernel_ptsz(kernel, 1, 2, 3, 4, 5, 6, 100, None, values, None) == 0
    graph, nodes, fill, node = ctypes.c_void_p(), (ctypes.c_void_p * 2)(), Fill(), KernelNode()
    assert cuda.cuStreamEndCapture_ptsz(None, ctypes.byref(graph)) == 0
    assert cuda.cuGraphGetNodes(graph, nodes, ctypes.byref(size(2))) == 0
    assert cuda.cuGraphMemsetNodeGetParams(ctypes.c_void_p(nodes[0]), ctypes.byref(fill)) == 0
    assert (fill.to, fill.pitch, fill.value, fill.width, fill.height) == (memory.value, 16, 7, 5, 3)
    assert cuda.cuGraphKernelNodeGetParams_v2(ctypes.c_void_p(nodes[1]), ctypes.byref(node)) == 0
    assert (list(node.grid), list(node.block), node.shared) == ([1, 2, 3], [4, 5, 6], 100)
    assert cuda.cuGraphDestroy(graph) == 0


def test_the_variants_name_the_threads_own_stream_for_one_call_each(cuda: Any) -> None:
    memory = kernel_and_memory(cuda)[1]
    own, named, legacy = u64(), u64(), u64()
    assert cuda.cuStreamGetId_ptsz(None, ctypes.byref(own)) == 0
    assert cuda.cuStreamGetId(None, ctypes.byref(legacy)) == 0
    assert cuda.cuStreamGetId(PER_THREAD, ctypes.byref(named)) == 0
    assert own.value == named.value != legacy.value
    assert cuda.cuStreamBeginCapture_v2_ptsz(None, 0) == 0
    assert cuda.cuMemcpyDtoD_v2_ptds(memory, memory, size(4)) == UNSUPPORTED  # it would wait for that stream
    assert cuda.cuStreamEndCapture_ptsz(None, ctypes.byref(u64())) == INVALIDATED


@pytest.mark.parametrize("variant", ["", "_ptsz"])
def test_a_callback_is_given_the_stream_that_was_named(cuda: Any, variant: str) -> None:
    seen: list[Any] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    note = kind(lambda handle, status, _data: seen.append((handle, status)))
    assert getattr(cuda, f"cuStreamAddCallback{variant}")(None, note, None, 0) == 0
    assert cuda.cuCtxSynchronize() == 0
    assert seen == [(PER_THREAD.value if variant else None, 0)]


class Location(ctypes.Structure):
    _fields_: ClassVar[Any] = (("type", ctypes.c_int), ("id", ctypes.c_int))


class Props(ctypes.Structure):
    _fields_: ClassVar[Any] = (
        ("type", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("where", Location),
        ("rest", ctypes.c_ubyte * 80),
    )


class Access(ctypes.Structure):
    _fields_: ClassVar[Any] = (("where", Location), ("flags", ctypes.c_uint))


HERE = Location(1, 0)


def test_a_pool_counts_what_is_taken_from_it(cuda: Any) -> None:
    one, address, used = stream(cuda), u64(), u64()
    pool = made(cuda.cuMemPoolCreate, ctypes.byref(Props(type=1, where=HERE)))

    def taken(attribute: int) -> int:
        assert cuda.cuMemPoolGetAttribute(pool, attribute, ctypes.byref(used)) == 0
        return used.value

    assert cuda.cuMemAllocFromPoolAsync(ctypes.byref(address), size(1000), pool, one) == 0
    assert (taken(7), taken(8)) == (1000, 1000)
    assert cuda.cuMemFreeAsync(address, one) == 0
    assert cuda.cuStreamSynchronize(one) == 0
    assert (taken(7), taken(8)) == (0, 1000)
    assert cuda.cuMemFreeAsync(address, one) == INVALID
    assert cuda.cuMemPoolDestroy(pool) == 0
    assert cuda.cuMemPoolDestroy(pool) == INVALID
    assert cuda.cuMemPoolCreate(ctypes.byref(pool), ctypes.byref(Props(type=1, handles=1, where=HERE))) == 801


@pytest.mark.parametrize(("kind", "place", "seen"), [(1, 2, 1), (2, 0, 2)], ids=["pinned", "managed"])
def test_host_and_managed_memory_have_pools_too(cuda: Any, kind: int, place: int, seen: int) -> None:
    where, pool, address, used = Location(place, 0), ctypes.c_void_p(), u64(), u64()
    one, answer = stream(cuda), ctypes.c_uint()
    assert cuda.cuMemGetDefaultMemPool(ctypes.byref(pool), ctypes.byref(where), kind) == 0
    assert cuda.cuMemAllocFromPoolAsync(ctypes.byref(address), size(640), pool, one) == 0
    assert cuda.cuPointerGetAttribute(ctypes.byref(answer), 2, address) == 0
    assert answer.value == seen
    assert cuda.cuMemPoolGetAttribute(pool, 7, ctypes.byref(used)) == 0
    assert used.value == 640
    assert cuda.cuMemFreeAsync(address, one) == 0
    assert cuda.cuStreamSynchronize(one) == 0
    assert cuda.cuMemPoolGetAttribute(pool, 7, ctypes.byref(used)) == 0
    assert used.value == 0
    assert cuda.cuMemPoolDestroy(pool) == INVALID


def without_context(cuda: Any) -> list[ctypes.c_void_p]:
    """Pop every context of this thread, those of other tests as well; return them, the uppermost first."""
    stack: list[ctypes.c_void_p] = []
    context = ctypes.c_void_p()
    while cuda.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0 and context:
        stack.append(context)
        context = ctypes.c_void_p()
    return stack


def test_calls_that_name_their_object_need_no_current_context(cuda: Any) -> None:
    """As on an H200 with driver 580.159: handles and addresses know their context; plain copies do not."""
    one, mark, module, kernel = stream(cuda), event(cuda), load(cuda, PTX), ctypes.c_void_p()
    addresses = [u64() for _ in range(3)]
    for address in addresses:
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), size(4096)) == 0
    first, second, kept = addresses
    host, answer, room = made(cuda.cuMemHostAlloc, size(4096), 0), ctypes.c_uint(), size()
    stack = without_context(cuda)
    assert cuda.cuStreamQuery(one) == 0
    assert cuda.cuEventRecord(mark, one) == 0
    assert cuda.cuStreamWaitEvent(one, mark, 0) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"scale") == 0
    assert launch(cuda, kernel, pack(kept, kept, f32(1), u32(16)), stream=one) == 0
    assert cuda.cuMemcpyHtoDAsync_v2(kept, host, size(64), one) == 0
    assert cuda.cuStreamSynchronize(one) == 0
    assert cuda.cuPointerGetAttribute(ctypes.byref(answer), 2, kept) == 0
    assert (cuda.cuMemFree_v2(first), cuda.cuMemFree_v2(u64(12345)), cuda.cuMemFree_v2(u64(0))) == (
        0,
        INVALID,
        0,
    )
    assert cuda.cuMemcpyHtoD_v2(kept, host, size(64)) == NO_CONTEXT
    assert cuda.cuMemsetD8_v2(kept, 1, size(64)) == NO_CONTEXT
    assert cuda.cuMemGetAddressRange_v2(None, ctypes.byref(room), kept) == NO_CONTEXT
    assert cuda.cuMemFreeAsync(second, one) == 0
    assert cuda.cuMemFreeHost(host) == 0
    assert cuda.cuModuleUnload(module) == 0
    assert cuda.cuStreamDestroy_v2(one) == 0
    assert cuda.cuEventDestroy_v2(mark) == 0
    for context in reversed(stack):
        assert cuda.cuCtxPushCurrent_v2(context) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows is told that there is no virtual memory")
def test_one_piece_of_memory_lies_at_two_addresses(cuda: Any) -> None:
    unit, address = size(), u64()
    props = Props(type=1, where=HERE)
    assert cuda.cuMemGetAllocationGranularity(ctypes.byref(unit), ctypes.byref(props), 0) == 0
    memory = made(cuda.cuMemCreate, unit, ctypes.byref(props), u64(0))
    both = size(2 * unit.value)
    assert cuda.cuMemAddressReserve(ctypes.byref(address), both, size(0), u64(0), u64(0)) == 0
    for i in range(2):
        assert cuda.cuMemMap(u64(address.value + i * unit.value), unit, size(0), memory, u64(0)) == 0
    middle = u64(address.value + unit.value - 4)
    assert cuda.cuMemsetD32_v2(middle, u32(7), size(2)) == INVALID
    assert cuda.cuMemSetAccess(address, both, ctypes.byref(Access(HERE, 3)), size(1)) == 0
    assert cuda.cuMemsetD32_v2(middle, u32(7), size(2)) == 0
    back = np.zeros(1, np.uint32)
    for offset in (0, unit.value, 2 * unit.value - 4):
        assert cuda.cuMemcpyDtoH_v2(pointer(back), u64(address.value + offset), size(4)) == 0
        assert back[0] == 7
    assert cuda.cuMemAddressFree(address, both) == INVALID
    assert cuda.cuMemUnmap(address, both) == 0
    assert cuda.cuMemsetD32_v2(middle, u32(7), size(2)) == INVALID
    assert cuda.cuMemRelease(memory) == 0
    assert cuda.cuMemAddressFree(address, both) == 0


# ---- copies ----


class Side(ctypes.Structure):
    _fields_: ClassVar[Any] = (
        ("x", ctypes.c_size_t),
        ("y", ctypes.c_size_t),
        ("z", ctypes.c_size_t),
        ("level", ctypes.c_size_t),
        ("type", ctypes.c_uint),
        ("host", ctypes.c_void_p),
        ("device", ctypes.c_uint64),
        ("array", ctypes.c_void_p),
        ("reserved", ctypes.c_void_p),
        ("pitch", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    )


class Copy(ctypes.Structure):
    _fields_: ClassVar[Any] = (
        ("source", Side),
        ("target", Side),
        ("w", ctypes.c_size_t),
        ("h", ctypes.c_size_t),
        ("d", ctypes.c_size_t),
    )


def test_a_box_is_copied_out_of_a_larger_one(cuda: Any) -> None:
    data = np.arange(4 * 5 * 6, dtype=np.uint8).reshape(4, 5, 6)
    out = np.zeros((2, 3, 4), np.uint8)
    address = u64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), size(data.nbytes)) == 0
    assert cuda.cuMemcpyHtoD_v2(address, pointer(data), size(data.nbytes)) == 0
    copy = Copy(
        source=Side(x=1, y=2, z=1, type=2, device=address.value, pitch=6, height=5),
        target=Side(type=1, host=out.ctypes.data, pitch=4, height=3),
        w=4,
        h=3,
        d=2,
    )
    assert cuda.cuMemcpy3D_v2(ctypes.byref(copy)) == 0
    assert np.array_equal(out, data[1:3, 2:5, 1:5])
    copy.source.z = 3
    assert cuda.cuMemcpy3D_v2(ctypes.byref(copy)) == INVALID
    copy.source.type = 3
    assert cuda.cuMemcpy3D_v2(ctypes.byref(copy)) == 801


def test_memory_that_is_not_pinned_may_be_reused_at_once(cuda: Any) -> None:
    gate, one, address = Gate(), stream(cuda), u64()
    data, back = np.full(1000, 7, np.uint8), np.zeros(1000, np.uint8)
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), size(1000)) == 0
    gate.opened.set()
    assert cuda.cuLaunchHostFunc(one, gate.hold(), None) == 0
    assert cuda.cuMemcpyHtoDAsync_v2(address, pointer(data), size(1000), one) == 0
    data[:] = 0
    assert cuda.cuMemcpyDtoHAsync_v2(pointer(back), address, size(1000), one) == 0
    assert set(back) == {7}


def test_rows_are_filled_and_pitched(cuda: Any) -> None:
    address, pitch = u64(), size()
    assert cuda.cuMemAllocPitch_v2(ctypes.byref(address), ctypes.byref(pitch), size(10), size(4), 4) == 0
    assert pitch.value % 512 == 0
    assert cuda.cuMemsetD8_v2(address, ctypes.c_ubyte(1), size(pitch.value * 4)) == 0
    assert cuda.cuMemsetD2D8_v2(address, pitch, ctypes.c_ubyte(9), size(10), size(4)) == 0
    back = np.zeros((4, pitch.value), np.uint8)
    assert cuda.cuMemcpyDtoH_v2(pointer(back), address, size(back.nbytes)) == 0
    assert (back[:, :10] == 9).all()
    assert (back[:, 10:] == 1).all()
    assert cuda.cuMemsetD2D8_v2(address, pitch, ctypes.c_ubyte(9), size(10), size(5)) == INVALID


def product_of_two(blas: Any, handle: ctypes.c_void_p, address: ctypes.c_uint64) -> int:
    """Multiply the first two numbers there into the third one."""
    one, zero = ctypes.byref(f32(1)), ctypes.byref(f32(0))
    places = [u64(address.value + 4 * number) for number in range(3)]
    a, b, c = places
    return int(blas.cublasSgemm_v2(handle, 0, 0, 1, 1, 1, one, a, 1, b, 1, zero, c, 1))


@pytest.mark.parametrize("own", [False, True], ids=["default", "own-stream"])
def test_a_product_waits_for_what_its_stream_still_has_to_do(cuda: Any, own: bool) -> None:
    """A kernel that writes an operand, and a product right after it: cuBLAS works in stream order."""
    gate, one, blas = Gate(), stream(cuda, 0), library("cublas12")
    kernel, target = kernel_and_memory(cuda)
    handle = made(blas.cublasCreate_v2)
    if own:
        assert blas.cublasSetStream_v2(handle, one) == 0
    bits = ctypes.c_uint(np.float32(3.0).view(np.uint32).item())
    assert cuda.cuLaunchHostFunc(one, gate.hold(), None) == 0
    assert cuda.cuMemsetD32Async(target, bits, size(16), one) == 0
    assert launch(cuda, kernel, pack(target, target, f32(2), u32(16)), stream=one) == 0
    opener = threading.Timer(0.3, gate.opened.set)
    opener.start()
    assert product_of_two(blas, handle, target) == 0
    opener.join()
    assert read(cuda, target)[:4] == [6.0, 6.0, 36.0, 6.0]
    back = np.zeros(1, np.float32)
    assert blas.cublasGetVector(1, 4, u64(target.value + 8), 1, pointer(back), 1) == 0
    assert back[0] == 36.0
    assert blas.cublasDestroy_v2(handle) == 0


def test_a_product_into_a_captured_stream_is_refused(cuda: Any) -> None:
    """It would be done at once and never again: a refusal is better than a graph that lacks it."""
    one, blas, graph = stream(cuda), library("cublas12"), ctypes.c_void_p()
    _kernel, target = kernel_and_memory(cuda)
    handle = made(blas.cublasCreate_v2)
    assert blas.cublasSetStream_v2(handle, one) == 0
    assert cuda.cuStreamBeginCapture_v2(one, 0) == 0
    assert product_of_two(blas, handle, target) == 15
    assert cuda.cuStreamEndCapture(one, ctypes.byref(graph)) == 0
    assert product_of_two(blas, handle, target) == 0
    assert blas.cublasDestroy_v2(handle) == 0


def test_memory_of_a_stream_belongs_to_the_streams_context(cuda: Any) -> None:
    """Another context is current while it is asked for, and ends: the memory stays."""
    one, address, ours, other = stream(cuda), u64(), made(cuda.cuCtxGetCurrent), ctypes.c_void_p()
    assert cuda.cuCtxCreate_v2(ctypes.byref(other), 0, 0) == 0
    assert cuda.cuMemAllocAsync(ctypes.byref(address), size(64), one) == 0
    assert cuda.cuCtxDestroy_v2(other) == 0
    assert cuda.cuCtxSetCurrent(ours) == 0
    assert made(cuda.cuPointerGetAttribute, 1, address).value == ours.value
    assert cuda.cuMemsetD8_v2(address, 1, size(64)) == 0
    assert cuda.cuMemFreeAsync(address, one) == 0
    assert cuda.cuStreamSynchronize(one) == 0
    assert cuda.cuStreamDestroy_v2(one) == 0
