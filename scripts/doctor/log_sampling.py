"""A log's encoding, and which few of its lines are worth reading; ``app/doctor.py`` reads the file. Pure.

Lines that differ in nothing but numbers are kept a few times only: a training run prints thousands of
them. Of an enormous log begin and end are read, and in the middle the lines that hold strong words.
A line that was wrapped for a narrow console is compared together with what stands below it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final

from msgspec import Struct

from scripts.osal.text import wide_encoding, without_ansi

#: Words by which a code page of Windows is recognised; a console writes in its own, a program in another.
_PAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "cp866": ("модул", "найден", "процедур", "является", "вирус", "сертификат"),
    "cp1251": ("модул", "найден", "процедур", "является", "вирус", "сертификат"),
    "gb18030": ("找不到", "模块", "应用程序", "初始化", "病毒", "无法"),
    "cp932": ("モジュール", "見つかり", "プロシージャ", "ルーチン", "ウイルス"),
    "cp949": ("모듈", "찾을 수", "바이러스"),
    "cp850": ("zulässig", "unerwünscht", "für ", "spécifié", "procédure", "módulo", "não "),
}
_OTHERWISE: Final = "cp1252"
#: Colours whose escape character was lost on the way.
_BARE: Final = re.compile(r"\[(?:\d{1,3};)*\d{1,3}m")
_SLASHES: Final = re.compile(r"[\\/]+")
#: How a program that crashed is reported to have ended: a status of Windows as a signed or unsigned number.
_STATUS: Final = re.compile(r"(?<![\w.-])(?:-107374\d{4}|322122\d{4})(?![\w.])")
_MASK: Final = 0xFFFFFFFF
_ALIKE: Final = {
    '"': "“”„«»＂",
    "'": "‘’‚",
    " ": "\u00a0\u202f\u3000\t│┃║❱",
    ":": "：",
    ",": "，",
    "(": "（",
    ")": "）",
    "!": "！",
    "": "\u200b\ufeff",
}


def as_utf8(data: bytes) -> bytes:
    """Recode to UTF-8: UTF-32 and UTF-16 by their mark or their zero bytes, else a code page of Windows.

    A file to which a console added UTF-16 after plain text is read as well: its zero bytes are left out.
    """
    wide = wide_encoding(data)
    if wide:
        text = data.decode(wide, errors="replace").removeprefix("\ufeff")
        return text.encode("utf-8", errors="replace")
    data = data.replace(b"\0", b"")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode(_page(data), errors="replace").encode("utf-8")
    return data


def plain(text: str) -> str:
    """Lower case, one ``/`` for every run of slashes, one form for quotes, blanks and wide punctuation.

    A status of Windows that stands as a decimal number becomes the hexadecimal one that people look up.
    """
    same = text.lower()
    if not same.isascii():
        for letter, others in _ALIKE.items():
            for other in others:
                same = same.replace(other, letter)
    same = _SLASHES.sub("/", _BARE.sub("", same).replace("\t", " "))
    return _STATUS.sub(lambda found: f"0x{int(found[0]) & _MASK:08x}", same)


def _page(data: bytes) -> str:
    """Recognise a code page by words that Windows uses in its messages."""
    for page, words in _PAGES.items():
        if any(word.encode(page) in data for word in words):
            return page
    return _OTHERWISE


#: Bytes that are looked at; of a longer log begin and end.
CAP: Final = 64 * 1024 * 1024
#: Larger logs are read whole only at their begin and end; smaller ones wherever lines differ.
LARGE: Final = 512 * 1024
HEAD: Final = 96 * 1024
TAIL: Final = 288 * 1024
#: Lines kept of those that differ in numbers only, and lines one word may lead to.
ALIKE: Final = 6
HITS: Final = 100
#: Longer lines are read in pieces.
LONGEST: Final = 2000
_DIGITS: Final = b"0123456789"
#: How a logger wraps: under a line that begins with a time, far to the right. How a console wraps: a line as
#: long as the window is wide, then one that begins in the middle of a sentence.
_TIMED: Final = re.compile(r"\[?\d{1,4}[-:/]\d\d[-:/]\d\d")
_INDENT: Final = " " * 16
_WINDOW: Final = 72
_WORD: Final = re.compile(r"[^\W\d_A-Z]+[ ,.;)]")
_MORE: Final = 4


class LogSample(Struct, frozen=True, kw_only=True, dict=True):
    """The lines of a log that are worth reading.

    Attributes:
        numbers: their numbers, from 1.
        lines: as they were, without colours.
        text: the same lines as they are compared, joined by line feeds; see ``log_sampling.plain``.
    """

    numbers: tuple[int, ...]
    lines: tuple[str, ...]
    text: str

    @cached_property
    def plain(self) -> list[str]:
        """The lines of ``text``."""
        return self.text.split("\n")

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self.plain)]

    @cached_property
    def _vocabulary(self) -> str:
        """Every word once: much less text to find out what is not there at all."""
        return " ".join(set(self.text.split()))

    def holding(self, word: str) -> Iterator[int]:
        """Yield the positions of lines with a word: the first ``HITS``, and the last of as many again."""
        if not all(part in self._vocabulary for part in word.split()):
            return
        at, line = self.text.find(word), -1
        for _ in range(HITS):
            if at < 0:
                return
            line = bisect_right(self._starts, at) - 1
            yield line
            at = self.text.find(word, self._starts[line + 1])
        begin, end = self._starts[line + 1], len(self.text)
        for _ in range(HITS):
            at = self.text.rfind(word, begin, end)
            if at < 0:
                return
            line = bisect_right(self._starts, at) - 1
            yield line
            end = self._starts[line]


def sample_log(data: bytes, strong: Sequence[str] = ()) -> LogSample:
    """Choose the lines of a log; ``strong`` words are found wherever they stand."""
    raw = as_utf8(data).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if len(raw) > CAP:
        raw = raw[: CAP // 2] + b"\n" + raw[-CAP // 2 :]
    kept = list(_different(_parts(raw, strong)))
    numbers = tuple(number for number, _ in kept)
    lines = tuple(without_ansi(line.decode("utf-8", errors="replace")) for _, line in kept)
    return LogSample(numbers=numbers, lines=lines, text="\n".join(_unwrapped(numbers, lines)))


def _unwrapped(numbers: Sequence[int], lines: Sequence[str]) -> Iterator[str]:
    """Yield every line as it is compared, with what was wrapped below it."""
    compared = plain("\n".join(lines)).split("\n")
    for at, line in enumerate(compared):
        end, most = at + 1, min(len(lines), at + 1 + _MORE)
        goes_on = _logger_goes_on if _TIMED.match(line) else _console_goes_on
        while end < most and numbers[end] == numbers[end - 1] + 1 and goes_on(lines[end - 1], lines[end]):
            end += 1
        yield " ".join((line, *(part.strip() for part in compared[at + 1 : end])))


def _logger_goes_on(_line: str, below: str) -> bool:
    """Whether a logger wrote the rest of a line below it."""
    return below.startswith(_INDENT) and any(map(str.isalpha, below))


def _console_goes_on(line: str, below: str) -> bool:
    """Whether a console broke a sentence off at its window's edge."""
    return len(line) >= _WINDOW and line.rstrip()[-1:].isalpha() and bool(_WORD.match(below))


def _parts(raw: bytes, strong: Sequence[str]) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines: all of a log, or of a large one its begin, its end, and the strong ones."""
    if len(raw) <= LARGE:
        yield from enumerate(raw.split(b"\n"), start=1)
        return
    first, last = _after(raw, HEAD), _after(raw, len(raw) - TAIL)
    yield from enumerate(raw[:first].split(b"\n"), start=1)
    number, at = raw.count(b"\n", 0, first) + 1, first
    for begin in _strong_lines(raw[first:last].lower(), strong):
        number, at = number + raw.count(b"\n", at, first + begin), first + begin
        end = raw.find(b"\n", at)
        yield number, raw[at : min(end if end >= 0 else last, at + LONGEST)]
    yield from enumerate(raw[last:].split(b"\n"), start=raw.count(b"\n", 0, last) + 1)


def _after(raw: bytes, place: int) -> int:
    """Return where the next line begins; in an endless line the place itself."""
    end = raw.find(b"\n", place, place + LONGEST)
    return end + 1 if end >= 0 else place


def _strong_lines(middle: bytes, strong: Sequence[str]) -> list[int]:
    """Return where lines with a strong word begin, in order; of one word no more than ``HITS``."""
    begins: set[int] = set()
    for word in strong:
        needle, at = word.encode(), -1
        for _ in range(HITS):
            at = middle.find(needle, at + 1)
            if at < 0:
                break
            begins.add(max(middle.rfind(b"\n", 0, at) + 1, at - LONGEST // 2))
            at = max(middle.find(b"\n", at), at)
    return sorted(begins)


def _different(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Yield lines, those alike but for numbers a few times, endless ones in pieces."""
    seen: dict[bytes, int] = {}
    for number, line in lines:
        for at in range(0, len(line), LONGEST):
            piece = line[at : at + LONGEST]
            key = piece.translate(None, _DIGITS)
            count = seen.get(key, 0)
            if count < ALIKE and key:
                seen[key] = count + 1
                yield number, piece
