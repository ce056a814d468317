"""Which status codes a log holds: by name, by a number whose owner is plain, by the API's text. Pure.

A number alone means nothing: it is read behind a call (``cuInit failed with error 100``), behind a label
(``[WinError 126]``, ``exit status``), or where its form tells (``0xC0000005``, ``-1073741515``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import msgspec
from msgspec.structs import replace

from scripts.doctor.log_sampling import LogSample
from scripts.serialize import data_table
from scripts.statuses import StatusCode, exit_status, hresult, named, tables, valued, windows_status


class StatusSighting(msgspec.Struct, frozen=True, kw_only=True):
    """A code in a log.

    Attributes:
        code: what it means.
        line: the position of its line in the sample.
        spelling: how it stands there.
        call: the call that answered with it, as the log spells it; empty where none is named.
        others: codes that the same spelling may mean as well.
    """

    code: StatusCode
    line: int
    spelling: str
    call: str = ""
    others: tuple[StatusCode, ...] = ()


#: Lines that may hold a code have one of these words.
_LISTED: Final = (
    "error|fail|code|status|exit|returned|signal|sig|errno|0x|panicked|->|184467440|-107374|"
    "out of memory|encountered|not supported|not found|kernel image|device function|not permitted|"
    "segmentation|core dumped|illegal|access violation|bus|blue screen|bugcheck|livekernel|nccl|"
    "vk_|cl_|video_|miopenstatus|abort|busy|capable device|device ordinal|resource handle|"
    'timed out|insufficient|is invalid|killed|"cu|"hip|cuinit|hipinit'
)
_WORDS: Final = tuple(_LISTED.split("|"))
#: Calls by the begin of their names, words that say whose number follows, and texts without a number.
_CALLS, _LABELS, _PRINTED = (data_table("code_words.toml")[key] for key in ("calls", "labels", "printed"))
_LINK: Final = (
    r"[\s:=(\[,'\"#>`-]{0,6}(?:(?:with|an?|the|error|err|code|status|result|value|returned|return|is|was|number)"
    r"[\s:=(\[,'\"#>-]{1,4}){0,5}"
)
_NUMBER: Final = r"(-?\d{1,4}|0x[0-9a-f]{1,8})(?![\w.%])"
_CALL: Final = re.compile(
    rf"(?<![\w/.-])({'|'.join(_CALLS)})(\w{{0,40}})\b([^\n]{{0,80}}?)"
    rf"(?:failed|failure|error|returned|returns|answered|gave|status|result|->|\bcode|exited){_LINK}{_NUMBER}"
)
#: A call in the middle of what stands between a label (``CUDA error:``) and the number.
_INNER: Final = re.compile(rf"(?<![\w/.-])(?!\w{{2,8}}\b(?<!init))({'|'.join(_CALLS)})(\w{{0,40}})\b")
#: These answer with nothing but a status; a small number may be how often they were called.
_INIT: Final = re.compile(r"(?<![\w/.-])(cu|hip)(init)\b ?(?:\(\d?\))? ?(?:=|:|==) ?(\d{2,3})(?![\w.%])")
_QUOTED: Final = re.compile(r"\"(cu|hip)(\w{3,40})\", ?(\d{1,4})\b")
_LABEL: Final = re.compile(
    rf"\b({'|'.join(_LABELS)}) (?:api |runtime |driver |internal |call |rtc )?"
    rf"(?:error|failure|failed|check failed|status|err){_LINK}{_NUMBER}"
)
_WIN: Final = re.compile(
    r"winerror ?(\d{1,5})|(?:getlasterror|last ?error)\D{0,12}?(\d{1,5}|0x[0-9a-f]{1,8})\b"
    r"|loadlibrary\w{0,4}\b.{0,200}?\(?(?:error|code|failed|0x)\D{0,12}?(0x[0-9a-f]{1,8}|\d{1,5})\b"
    r"|error_code: ?(\d{1,5})"
)
_OS_ERROR: Final = re.compile(r"os error ?(\d{1,5})\b|errno[ =:\]]{1,3}(\d{1,3})\b")
_DLL_CODE: Final = re.compile(r"(?:error|code)(?: code)?[ :=(\[]{1,3}(\d{2,5})\b(?![.%])")
_ABOUT_DLL: Final = re.compile(r"\.dll|\.pyd|\.node\b|dll load|module|win32|createprocess|\bexe\b")
_EXIT: Final = re.compile(
    r"(?:\bexit(?:ed|s|code|_code)?|terminated|\bended|return ?code|returncode|\brc|crashed|\bdied|\bquit)\b"
    r"(?:[\s:=(\[,'\"#-](?![\d-]*\d{1,20}\b)|process|unexpectedly|abnormally|with|by|non-zero|nonzero|an|the|error"
    r"|exit|code|status|value|is|was|unsuccessfully|return){0,24}[\s:=(\[,'\"#]{0,3}(-?\d{1,20}|0x[0-9a-f]{1,16})\b(?!\.\d)"
)
_WIDE: Final = re.compile(r"(?<![\d.])(1844674407\d{10})(?!\d)")
_HEX: Final = re.compile(r"\b0x(?:f{8})?([48ce][0-9a-f]{7})\b")
_SIGNED: Final = re.compile(r"(?<![\w.])(-1[0-9]{9})(?![\w.])")
_UNSIGNED: Final = re.compile(r"(?:exit\w*|code|status)\D{0,12}((?:10737418|32212[2-9]|37658)\d{2,5})\b")
_SIGNAL: Final = re.compile(r"\bsignal[ :=#]{1,3}(\d{1,2})\b|\bsignal: ([a-z][a-z ]{3,20})")
_BUGCHECK: Final = re.compile(
    r"(?:bug ?check|stop ?code|blue ?screen|bsod|livekernelevent)\D{0,30}?(?:0x0{0,5}|:? ?)([0-9a-f]{2,3})\b"
)
_SIGNAL_WORDS: Final = {"killed": 9, "aborted": 6, "segmentation fault": 11, "illegal instruction": 4}
_NAME: Final = re.compile(
    r"(?<![\w.])(?:(?:cuda|hip|nvrtc|hiprtc|nvml|optix|vk|dxgi)_error_\w{3,50}|(?:cuda|hip)error[a-z]{3,50}"
    r"|(?:cublas|cusparse|cusolver|curand|cudnn|hipblas|hipsparse|hipsolver|hiprand|hsa|amd_comgr)_status_\w{3,50}"
    r"|(?:rocblas|rocsparse|rocfft)_status_[a-z_]{3,40}|(?:cufft|hipfft)_(?!success)[a-z_]{4,40}"
    r"|miopenstatus[a-z]{3,40}|nccl(?:unhandled|system|internal|invalid|remote)[a-z]{3,20}"
    r"|(?:status|exception|error)_[a-z_]{4,40}|cl_(?:out|mem|device|build|invalid|image|map|compiler)[a-z_]{3,40}"
    r"|sig(?:abrt|segv|ill|kill|bus|fpe|trap|term|sys)|video_[a-z_]{8,30}|errordevicelost"
    r"|e(?:nomem|acces|perm|nospc|mfile|nametoolong))\b"
)
#: Texts that say nothing unless something before them says whose they are.
_LABELLED: Final = re.compile(
    r"\b(cuda|hip|rocm|nvidia|gpu)\w{0,16}[ _](?:runtime |driver |api |internal |kernel )?"
    r"(?:error|failure|failed|call)\b|(cuda|hip)(?= out of memory)"
    r"|\b(?:error|failed|failure) (?:in|at|calling|code) .{0,60}\b(cu|hip)[a-z]\w{3,}"
    r"|\b(cu|hip)(?:da)?(?:malloc|mem|launch|module|stream|ctx|device|get|init)\w{0,30}\(?\)?.{0,40}"
    r"(?:fail|error|:)"
)
_LEAST: Final = 17
_OF_CUDA: Final = "cuda-runtime"


def read_statuses(sample: LogSample, *, windows: bool | None = None) -> tuple[StatusSighting, ...]:
    """Find every code that says that something failed, in the order of lines; each once.

    Args:
        sample: the lines.
        windows: whether the log is from Windows, where the same words mean another table.
    """
    lines = sorted({line for word in _WORDS for line in sample.holding(word)})
    found: dict[tuple[str, int], StatusSighting] = {}
    hip = "zluda" not in sample.text and bool(re.search(r"\bhip(?!aa)|rocm", sample.text))
    for line in lines:
        text = sample.plain[line]
        for sighting in _in_line(text, line, windows=windows, hip=hip):
            if not sighting.code.harmless:
                seen = replace(sighting, call=_as_written(sighting.call, sample.lines[line]))
                found.setdefault((seen.code.enumeration, seen.code.value), seen)
    return tuple(sorted(found.values(), key=lambda sighting: sighting.line))


def _as_written(call: str, line: str) -> str:
    """Return a call's name with the capitals that it has in the log."""
    written = re.search(re.escape(call), line, re.IGNORECASE)
    return written[0] if written else call


def _in_line(text: str, line: int, *, windows: bool | None, hip: bool) -> Iterator[StatusSighting]:
    for code, spelling, call in _named(text):
        yield StatusSighting(code=code, line=line, spelling=spelling, call=call)
    for codes, spelling, call in (*_of_calls(text), *_of_systems(text, windows=windows), *_of_endings(text)):
        if codes:
            yield StatusSighting(code=codes[0], line=line, spelling=spelling, call=call, others=codes[1:])
    for code, spelling in _texted(text, hip=hip):
        yield StatusSighting(code=code, line=line, spelling=spelling)


Found = tuple[tuple[StatusCode, ...], str, str]


def _one(code: StatusCode | None) -> tuple[StatusCode, ...]:
    return (code,) if code else ()


def _named(text: str) -> Iterator[tuple[StatusCode, str, str]]:
    """Find codes by name; a call's name before it is kept."""
    for match in _NAME.finditer(text):
        code = named(match[0])
        if code is not None:
            before = re.search(
                r"\b((?:cu|hip|roc|miopen|nv|hsa_)\w{3,40})[ (].{0,200}$", text[: match.start()]
            )
            after = re.match(r" when calling .{0,3}?([a-z]\w{4,40})", text[match.end() :])
            called = after or before
            yield code, match[0], called[1] if called else ""


def _of_calls(text: str) -> Iterator[Found]:
    """Find numbers behind calls and labels."""
    for match in _CALL.finditer(text):
        inner = None if match[2] else next(_INNER.finditer(match[3]), None)
        begin, rest = (inner or match)[1], (inner or match)[2]
        yield _one(valued(_owner(begin, _CALLS), _number(match[4]))), match[4], begin + rest
    for match in (*_QUOTED.finditer(text), *_INIT.finditer(text)):
        table = "hip" if match[1] == "hip" else "cuda-driver"
        yield _one(valued(table, int(match[3]))), match[3], match[1] + match[2]
    for match in _LABEL.finditer(text):
        yield _one(valued(_owner(match[1], _LABELS), _number(match[2]))), match[0], ""


def _of_systems(text: str, *, windows: bool | None) -> Iterator[Found]:
    """Find error numbers of Windows and of POSIX calls."""
    for match in _WIN.finditer(text):
        digits = next(group for group in match.groups() if group)
        number = _number(digits)
        yield _one(valued("win32", number) or hresult(number)), match[0][-40:], ""
    for match in _OS_ERROR.finditer(text):
        number = int(match[1] or match[2])
        posix = match[1] is None or windows is False
        yield _one(valued("errno" if posix else "win32", number)), match[0], ""
    if _ABOUT_DLL.search(text):
        for match in _DLL_CODE.finditer(text):
            yield _one(valued("win32", int(match[1]))), match[0], ""


def _of_endings(text: str) -> Iterator[Found]:
    """Find how a process ended."""
    for pattern in (_WIDE, _SIGNED, _UNSIGNED):
        for match in pattern.finditer(text):
            yield windows_status(int(match[1])), match[1], ""
    for match in _HEX.finditer(text):
        yield windows_status(int(match[1], 16)), match[0], ""
    for match in _EXIT.finditer(text):
        yield exit_status(_number(match[1])), match[0], ""
    for match in _SIGNAL.finditer(text):
        number = int(match[1]) if match[1] else _SIGNAL_WORDS.get(match[2].strip(), 0)
        yield _one(valued("signal", number)), match[0], ""
    for match in _BUGCHECK.finditer(text):
        yield _one(valued("bugcheck", int(match[1], 16))), match[0], ""
    if not _NAME.search(text):
        for words, (table, number) in _PRINTED.items():
            if words in text and "instruction was encountered" not in text:
                yield _one(valued(table, number)), words, ""
                break


def _texted(text: str, *, hip: bool) -> Iterator[tuple[StatusCode, str]]:
    """Find codes by the text that CUDA or HIP prints for them."""
    match = _texts().search(text)
    if match is None:
        return
    label = max(_LABELLED.finditer(text[: match.end()]), key=re.Match.start, default=None)
    if label is None and (len(match[1]) < _LEAST or " " not in match[1]):
        quoted = text[match.start(1) - 1 : match.start(1)] in {'"', "'", "`"}
        if not quoted or len(match[1]) < len("out of memory"):
            return
    whose = next((group for group in label.groups() if group), "") if label else ""
    of_hip = hip if whose in {"", "gpu", "cuda", "cu"} else whose in {"hip", "rocm"}
    order = ("hip", _OF_CUDA) if of_hip else (_OF_CUDA, "hip")
    for table in order:
        code = tables().texts[table].get(match[1])
        if code is not None:
            yield code, match[1]
            return


@cache
def _texts() -> re.Pattern[str]:
    """Match any text of CUDA's or HIP's runtime, the longest first."""
    known = {text for table in (_OF_CUDA, "hip") for text in tables().texts[table]}
    return re.compile(f"({'|'.join(map(re.escape, sorted(known, key=len, reverse=True)))})")


def _owner(begin: str, table: dict[str, str]) -> str:
    """Return the enumeration of a call or label."""
    for pattern, enumeration in table.items():
        if re.fullmatch(pattern, begin):
            return enumeration
    return "cuda-runtime"


def _number(digits: str) -> int:
    """Read a number in decimal or hexadecimal."""
    return int(digits, 16) if digits.startswith("0x") else int(digits)
