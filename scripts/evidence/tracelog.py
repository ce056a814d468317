r"""What a translation layer's trace says, in one screen: lines → calls, failures, refusals, modules. Pure.

The layer writes one line for each call when it has returned, and below it, indented by four spaces a level,
what happened inside: calls of its own and remarks (vosen/ZLUDA@87531d3, ``zluda_trace``)::

    cublasCreate_v2(handle: 0x55e502373120) -> CUBLAS_STATUS_SUCCESS
        cuModuleLoadData(module: 0x1, image: 0x2) -> CUDA_ERROR_INVALID_PTX
            Saved module to module_0001_02.ptx
            Error parsing module, log has been written to module_0001_02.log

So a call that never came back is not there, and what a crash was in must be guessed from the line before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Struct, field

from scripts.serialize import JsonRecord

#: What stands between a call and its status, and how far the inside of a call is indented.
RETURNED: Final = ") -> "
SUCCESS: Final = "_SUCCESS"
INDENT: Final = 4
#: How the names of functions start, and whose they are. Whatever else there is belongs to the driver.
LIBRARIES: Final = ("cublasLt", "cublas", "cusparse", "cudnn", "cufft", "nvml", "{nvapi")
DRIVER: Final = "nvcuda"
#: Statuses that are answers, not failures: not finished yet; asked while the program ends; no such function.
ORDINARY: Final = frozenset({"CUDA_ERROR_NOT_READY", "CUDA_ERROR_DEINITIALIZED"})
ASKS: Final = ("cuGetProcAddress", "CUDA_ERROR_NOT_FOUND")
_STATUS: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|\d{1,2}")
_GOOD: Final = re.compile(r".*_(?:SUCCESS|OK)|0")
_REFUSED: Final = re.compile(r".*NOT_(?:SUPPORTED|IMPLEMENTED)|.*NO_IMPLEMENTATION")
_NO_FUNCTION: Final = re.compile(r"No function (\S+) in the underlying")
_SAVED: Final = "Saved module to "
_UNPARSED: Final = "Error parsing module, log has been written to "
#: Remarks about device code that cannot be used, by how they start.
_UNUSABLE: Final = ("Unsupported ", "LZ4 decompression failure", "Zstd decompression failure")
#: Calls that hand device code over.
_LOADS: Final = re.compile(r"cu(?:Module|Library)Load|.*get_module_from_cubin")
#: Calls that give a kernel a handle, the handle and the name; and the handle that is started.
_NAMING: Final = ("cuModuleGetFunction", "cuLibraryGetKernel")
_NAMED: Final = re.compile(r'(?:hfunc|pKernel): (0x[0-9a-fA-F]+).*\bname: "([^"]*)"')
_LAUNCHED: Final = re.compile(r"\bf: (0x[0-9a-fA-F]+)")
MAX_KERNELS: Final = 100_000
MAX_TEXT: Final = 200
#: Kinds of failure, refused functions and pieces of device code that are remembered; all are counted.
MAX_FAILURES: Final = 10_000
MAX_REFUSED: Final = 10_000
MAX_LOADS: Final = 100_000
#: Remarks about one piece of device code.
MAX_REMARKS: Final = 1_000


class Failure(Struct, kw_only=True):
    """A function that failed with one status, called by the program itself or (``nested``) by a library.

    Attributes:
        function: its name.
        status: what it returned.
        log: the log it stands in, and ``line`` the line of the first time.
        count: how often.
        call: the first time, with its arguments.
        kernel: the kernel that was to be started, where the call starts one and its name is known.
        inside: the first call that failed inside it.
        nested: it happened inside another call, which may have coped with it.
    """

    function: str
    status: str
    log: str
    line: int
    call: str
    count: int = 1
    kernel: str = ""
    inside: str = ""
    nested: bool = False


class Load(Struct, kw_only=True):
    """One call that handed device code over: the files it was saved to, and what was wrong with it."""

    call: str
    status: str
    log: str
    files: list[str] = field(default_factory=list)
    unparsed: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether the code could not be used, or not all of it was understood."""
        return is_failure(self.call, self.status) or bool(self.unparsed or self.remarks)


class TableFault(JsonRecord, frozen=True, kw_only=True):
    """A PTX text about which a table is wrong.

    Attributes:
        log, file: where the text lies; ``sha256`` is its content's.
        predicted: what the release does with it by the table.
        shown: what the trace shows instead, and ``errors`` the sentences of the layer's parser.
    """

    log: str
    file: str
    sha256: str
    predicted: str
    shown: str
    errors: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Say both."""
        return f"{self.file}: by the table the release {self.predicted}, and {self.shown}"


class TableCheck(JsonRecord, frozen=True, kw_only=True):
    """A trace held against the table of the stack's release.

    Attributes:
        table: its name.
        modules: how many PTX texts were compared.
        faults: those about which the table is wrong.
        document: where these are kept; empty without any.
    """

    table: str
    modules: int
    faults: tuple[TableFault, ...] = ()
    document: str = ""

    JSON = "table modules faults document?"


class TraceSummary(JsonRecord, frozen=True, kw_only=True):
    """What the logs of one run say, all its processes together.

    Attributes:
        folder: where the logs lie.
        logs: one for each process that called CUDA.
        calls: by library, most first; what a library's call did inside is counted as well.
        failures: every function with every status, in the order of the first time.
        refused: functions that the layer does not have, with how often they were asked for.
        modules: how many pieces of device code were handed over.
        broken: those that did not compile.
        errors: for a broken piece's log, the compiler's sentences.
        last: the last call that came back.
        table: how the modules compare with the table of the release; ``None`` where nothing was compared.
    """

    folder: str = ""
    logs: tuple[str, ...] = ()
    calls: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    modules: int = 0
    broken: tuple[Load, ...] = ()
    errors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    last: str = ""
    table: TableCheck | None = None

    JSON = "folder logs calls first_failure failures refused modules broken errors last table"

    @property
    def first_failure(self) -> Failure | None:
        """The first call of the program itself that failed; else the first inside another call."""
        return next((f for f in self.failures if not f.nested), next(iter(self.failures), None))


def is_failure(function: str, status: str) -> bool:
    """Whether a status says that a call failed.

    A bare number is a status of HIP's that the layer handed on, except from functions that ask for a version.
    """
    if status in ORDINARY or (function.startswith(ASKS[0]) and status == ASKS[1]):
        return False
    if not _STATUS.fullmatch(status) or _GOOD.fullmatch(status):
        return False
    return not (status.isdigit() and "Version" in function)


@lru_cache(maxsize=4096)
def library_of(function: str) -> str:
    """Say whose function it is."""
    for start in LIBRARIES:
        if function.startswith(start):
            return start.strip("{").lower()
    return DRIVER


class _Call(NamedTuple):
    """One line about a call."""

    name: str
    status: str
    text: str
    depth: int
    log: str
    line: int


class _OpenCall(NamedTuple):
    """A call whose inside may follow: what it is as a failure (the first time only), and as a load."""

    depth: int
    failure: Failure | None = None
    load: Load | None = None


@lru_cache(maxsize=4096)
def _plain(function: str) -> bool:
    """Whether nothing has to be remembered of a function's calls that went well."""
    return not function.startswith(_NAMING) and not _LOADS.match(function)


class TraceReader:
    """Reads logs one after the other, each line once."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.calls: Counter[str] = Counter()
        self.failures: dict[tuple[str, str, bool], Failure] = {}
        self.refused: Counter[str] = Counter()
        self.loads: list[Load] = []
        self.modules = 0
        self.last = ""

    def read(self, log: str, lines: Iterable[str]) -> None:
        """Take in one process's log."""
        kernels: dict[str, str] = {}
        outer: list[_OpenCall] = []
        for number, raw in enumerate(lines, start=1):
            line = raw.rstrip("\r\n\0")
            text = line.lstrip(" ")
            depth = (len(line) - len(text)) // INDENT
            while outer and outer[-1].depth >= depth:
                outer.pop()
            cut = text.rfind(RETURNED)
            if cut < 0 or "(" not in text:
                self._remark(text, next((above.load for above in reversed(outer) if above.load), None))
                continue
            name, status = text[: text.index("(")], text[cut + len(RETURNED) :]
            self.calls[library_of(name)] += 1
            if depth == 0:
                self.last = text
            if status.endswith(SUCCESS) and _plain(name):  # nearly all of millions of lines
                outer.append(_OpenCall(depth))
                continue
            call = _Call(name=name, status=status, text=text, depth=depth, log=log, line=number)
            outer.append(self._call(call, kernels, outer))

    def _call(self, call: _Call, kernels: dict[str, str], outer: Sequence[_OpenCall]) -> _OpenCall:
        """Take in a call that came back."""
        failed = is_failure(call.name, call.status)
        failure = self._failed(call, kernels) if failed else None
        above = next((o.failure for o in reversed(outer) if o.failure), None)
        if failed and above is not None:
            above.inside = above.inside or call.text[:MAX_TEXT]
        if not failed and call.name.startswith(_NAMING) and len(kernels) < MAX_KERNELS:
            kernels |= {match[1]: match[2] for match in _NAMED.finditer(call.text)}
        load = Load(call=call.name, status=call.status, log=call.log) if _LOADS.match(call.name) else None
        if load is not None:
            self.modules += 1
            if len(self.loads) < MAX_LOADS:
                self.loads.append(load)
        return _OpenCall(depth=call.depth, failure=failure, load=load)

    def _failed(self, call: _Call, kernels: Mapping[str, str]) -> Failure | None:
        """Count a failing call; return it the first time."""
        if _REFUSED.fullmatch(call.status):
            self._refuse(call.name)
        key = (call.name, call.status, call.depth > 0)
        known = self.failures.get(key)
        if known is not None:
            known.count += 1
            return None
        if len(self.failures) >= MAX_FAILURES:
            return None
        launched = _LAUNCHED.search(call.text) if call.name.startswith("cuLaunch") else None
        made = self.failures[key] = Failure(
            function=call.name,
            status=call.status,
            log=call.log,
            line=call.line,
            call=call.text[:MAX_TEXT],
            kernel=kernels.get(launched[1], "") if launched else "",
            nested=call.depth > 0,
        )
        return made

    def _remark(self, text: str, load: Load | None) -> None:
        """Take in what the layer says about the call above."""
        if match := _NO_FUNCTION.match(text):
            self._refuse(match[1])
        elif load is None or len(load.files) + len(load.unparsed) + len(load.remarks) >= MAX_REMARKS:
            return
        elif text.startswith(_SAVED):
            load.files.append(text.removeprefix(_SAVED).strip())
        elif text.startswith(_UNPARSED):
            load.unparsed.append(text.removeprefix(_UNPARSED).strip())
        elif text.startswith(_UNUSABLE):
            load.remarks.append(text[:MAX_TEXT])

    def _refuse(self, name: str) -> None:
        """Count a function that the layer does not have."""
        if name in self.refused or len(self.refused) < MAX_REFUSED:
            self.refused[name] += 1

    def summary(
        self, *, folder: str, logs: Iterable[str], errors: Mapping[str, tuple[str, ...]]
    ) -> TraceSummary:
        """Put everything together."""
        return TraceSummary(
            folder=folder,
            logs=tuple(logs),
            calls=dict(self.calls.most_common()),
            failures=tuple(self.failures.values()),
            refused=dict(self.refused.most_common()),
            modules=self.modules,
            broken=tuple(load for load in self.loads if load.failed),
            errors=errors,
            last=self.last[:MAX_TEXT],
        )
