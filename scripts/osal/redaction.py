"""Take out of texts what identifies a person or a machine, and what is secret. Pure.

Rules:

* Home folders go wholly (``<home>``), with either slash, doubled or percent-encoded slashes, in any case.
  The folder of any person below ``Users`` or ``home`` goes too (``<user>``).
* The user's and the machine's bare names go where they stand as words of their own, but only if they are
  distinctive: three characters or more, and not a word of our own texts (``ORDINARY``). A user called
  ``a`` or ``cuda`` is hidden in paths and left alone in prose, where removing the word would only maul
  the text and point at it.
* Secrets are caught by three nets: what a label announces, what has the shape of a known token, and long
  words that mix characters as only chance does. Hashes in hexadecimal are none.
* E-mail and network addresses, serial numbers, UUIDs, Windows SIDs go wherever they stand.

Redacting twice changes nothing more. Too much is taken rather than too little.
"""

from __future__ import annotations

import contextlib
import html.entities
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple
from unicodedata import normalize
from urllib.parse import quote, unquote

from msgspec import Struct, field

from scripts.osal.redaction_rules import ORDINARY, SENSITIVE_KEY, SHARED_FOLDERS, VERSION_KEY, VERSION_TEXT
from scripts.osal.redaction_secrets import Span, View, secrets_in, with_spans
from scripts.osal.text import WIDE, wide_encoding

_SEP: Final = r"(?:[\\/]|%5[cC]|%2[fF]){1,4}"
#: Where a word begins: also behind an escape, whose last character looks like a letter.
_START: Final = r"(?:(?<![^\W_])|(?<=%[0-9a-f]{2})|(?<=\\[nrtbf])|(?<=[0-9;\[]m))"
_END: Final = r"(?![^\W_])"
#: Where a long name begins and ends inside a word: between letter and digit, or where the case changes.
_DIGIT: Final = r"|(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)"
_CAPITAL: Final = r"|(?-i:(?<=[a-zß-ÿ])(?=[A-ZÀ-Þ]))"
_INITIALS: Final = r"|(?-i:(?<=[A-Z]{2})(?=[a-z]))"
_LONG: Final = 5
#: What may stand between the words of a name.
_BETWEEN: Final = r"[\W_]{0,3}"
_GERMAN: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"})
_PARENTS: Final = r"(?:export|var|data|net|nfs|mnt|srv|lustre|gpfs|scratch|usr|volumes?)\d{0,2}"
_FOLDER: Final = re.compile(
    rf"((?:\b[a-z](?::|%3a)|/mnt/[a-z]|(?<!\w)/[a-z](?=/)|(?<![\w/.:])/{_PARENTS}|\x1b\[[0-9;]*m|(?<!\w)){_SEP}"
    rf"(?:users|homes?|documents and settings){_SEP})"
    r"(?P<name>[^\\/\r\n\"'<>|:*?%]+(?=[\\/]|%5c|%2f)|<user>|[^\\/\s\"'<>|:*?,;)\]]+)",
    re.IGNORECASE,
)
_SHARE: Final = re.compile(
    r"(?<![\w\\/:.%])\\{2,4}(?![?.<])(?P<host>[\w.-]{1,255})\\{1,2}(?P<share>[^\\/\s\"'<>|]{1,80})"
)
_ACCOUNT: Final = re.compile(
    r"(?<![\w\\/:.%-])(?P<domain>[A-Z][A-Z0-9-]{2,14})\\{1,2}(?P<user>[a-z][\w.$-]{1,30})(?![\w\\/])"
)
#: Domains of accounts that every Windows has.
_BUILT_IN: Final = frozenset({"nt authority", "builtin", "nt service", "font driver host", "window manager"})
#: A window around a literal that surely holds the path it is part of.
_BACK, _AHEAD = 40, 400
_ASCII: Final = 128


class Known(NamedTuple):
    """One expression for something known, the literals that must stand in it, and what takes its place."""

    pattern: re.Pattern[str]
    literals: tuple[str, ...]
    put: str
    back: int = 0


def home_patterns(home: str) -> tuple[Known, ...]:
    """Return how a home folder is found; a root is none."""
    parts = [p for p in re.split(r"[\\/]+", home) if p]
    drive = bool(parts) and re.fullmatch(r"[A-Za-z]:", parts[0]) is not None
    if len(parts) <= int(drive):
        return ()
    # A home of one component (/root) is a word of other paths too: /srv/root stays.
    lead = "" if drive else rf"(?<!\w){_SEP}" if len(parts) == 1 else _SEP
    body = _SEP.join(f"(?:{'|'.join(map(re.escape, _spellings(part)))})" for part in parts)
    pattern = re.compile(lead + body + r"(?![\w-])", re.IGNORECASE)
    longest = sum(max(map(len, _spellings(part))) + 12 for part in parts)
    return (Known(pattern, _literals(_spellings(parts[-1])), "<home>", longest),)


def word_patterns(names: Iterable[tuple[str, str]], user: str) -> tuple[Known, ...]:
    """Return how distinctive names are found, longest first; Windows shortens long ones to MAXMUS~1."""
    found = []
    for name, put in sorted(names, key=lambda item: -len(item[0])):
        inside = len(name) >= _LONG
        start = f"(?:{_START}{_DIGIT}{_CAPITAL}{_INITIALS})" if inside else _START
        end = f"(?:{_END}{_DIGIT}{_CAPITAL})" if inside else _END
        for form in _spellings(name):
            words = form.split()
            pattern = re.compile(start + _BETWEEN.join(map(re.escape, words)) + end, re.IGNORECASE)
            longest = max(words, key=len, default="")
            found.append(Known(pattern, _literals((longest,)), put, len(form) + 3 * len(words)))
        if name == user:
            short = re.sub(r"[ .]", "", name)[:6]
            pattern = re.compile(rf"{_START}{re.escape(short)}~\d+{_END}", re.IGNORECASE)
            found.append(Known(pattern, ("~",), put, len(short)))
    return tuple(found)


def words_in(view: View, known: Iterable[Known]) -> Iterator[Span]:
    """Find what is known; where it has no literal to look for, the whole text is searched."""
    for item in known:
        if not item.literals:
            yield from ((*match.span(), item.put) for match in item.pattern.finditer(view.text))
            continue
        for literal in item.literals:
            done = -1
            for at in view.places(literal):
                match = _around(item.pattern, view.text, at, item.back) if at >= done else None
                if match is not None:
                    done = match.end()
                    yield *match.span(), item.put


def _around(pattern: re.Pattern[str], text: str, at: int, back: int) -> re.Match[str] | None:
    """Return the match that holds the character at a position."""
    found = pattern.finditer(text, max(0, at - back), at + back + _AHEAD)
    return next((m for m in found if m.end() > at), None)


def folders_in(view: View) -> Iterator[Span]:
    """Find any person's home folder, shares and Windows accounts."""
    for literal in ("users", "home", "documents and settings"):
        for at in view.places(literal):
            match = _around(_FOLDER, view.text, at, _BACK)
            if match is not None and match.start() <= at and match["name"].casefold() not in SHARED_FOLDERS:
                yield *match.span("name"), "<user>"
    if "\\" not in view.text:
        return
    for at in view.places("\\\\"):
        match = _SHARE.match(view.text, at)
        if match is not None and not match["host"].isdigit():
            yield *match.span("host"), "<host>"
            yield *match.span("share"), "<share>"
    for match in _ACCOUNT.finditer(view.text):
        words = {match["domain"].casefold(), match["user"].casefold()}
        if not words & (ORDINARY | _BUILT_IN) and "." not in match["user"][-5:]:
            yield *match.span("domain"), "<domain>"
            yield *match.span("user"), "<user>"


def _spellings(name: str) -> tuple[str, ...]:
    """Return a name plain and in the escapes that programs write: URL, JSON, C, HTML, mail, misread UTF-8."""
    plain = {name, name.upper(), normalize("NFC", name), normalize("NFD", name), *_in_ascii(name)}
    found = set(plain)
    for form in plain:
        found |= {
            quote(form),
            quote(form, safe="").replace("%20", "+"),
            json.dumps(form)[1:-1],
            html.escape(form),
        }
        if not form.isascii():
            found |= set(_escapes(form))
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


def _in_ascii(name: str) -> Iterator[str]:
    """Write a name without its accents, as mail addresses and older programs do."""
    for form in (name, normalize("NFC", name).translate(_GERMAN)):
        bare = normalize("NFKD", form).replace("ß", "ss").encode("ascii", "ignore").decode()
        if len(bare) >= len(name):
            yield bare


def _escapes(name: str) -> Iterator[str]:
    """Write a name that is not ASCII as programs do that do not trust their output's encoding."""
    raw = name.encode("utf-8", "surrogatepass")
    yield repr(raw)[2:-1]
    yield name.encode("unicode_escape").decode()
    yield name.encode("ascii", "xmlcharrefreplace").decode()
    yield "".join(chr(byte) if byte < _ASCII else f"\\{byte:03o}" for byte in raw)
    yield "".join(chr(byte) if byte < _ASCII else f"={byte:02X}" for byte in raw)
    yield "".join(c if c.isascii() else f"&#x{ord(c):x};" for c in name)
    named = html.entities.codepoint2name
    yield "".join(c if c.isascii() else f"&{named.get(ord(c), c)};" for c in name)
    yield raw.decode("latin-1")
    yield raw.decode("cp1252", "replace")


def _literals(forms: Iterable[str]) -> tuple[str, ...]:
    """Return for each form its longest run of ASCII; nothing where one has none worth looking for."""
    runs = {max(re.findall(r"[\x20-\x7e]+", form), key=len, default="").lower() for form in forms}
    return () if any(len(run) < 2 for run in runs) else tuple(sorted(runs))  # noqa: PLR2004 - one is everywhere


#: The last code point of Unicode.
_LAST: Final = 0x10FFFF
#: A character that is written as its number, in a URL, a program, JSON or HTML; without a group: one that is
#: not seen.
_ESCAPE: Final = re.compile(
    r"%(?P<ascii>[2-7][0-9a-f]|0[9ad])|%u(?P<script>[0-9a-f]{4})"
    r"|(?P<url>%[cd][0-9a-f]%[89ab][0-9a-f]|%e[0-9a-f](?:%[89ab][0-9a-f]){2}|%f[0-4](?:%[89ab][0-9a-f]){3})"
    r"|\\(?:x(?P<x>[0-9a-f]{2})|(?-i:u)(?P<u>[0-9a-f]{4})|(?-i:U)(?P<wide>00[01][0-9a-f]{5}))"
    r"|\\u\{0{0,8}(?P<braces>[0-9a-f]{1,6})\}"
    r"|&#x0{0,8}(?P<html>[0-9a-f]{1,6});|&#0{0,8}(?P<decimal>[0-9]{1,7});"
    r"|[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]",
    re.IGNORECASE,
)


#: What stands between lines that are searched together: more than an expression looks back over, more blanks
#: than it goes over, and a sign that no value holds.
_APART: Final = f"\n{' ' * 15};{' ' * 15}\n"
#: Where an armoured key may begin, which goes to the end of its text where it has no end of its own.
_ARMOUR: Final = re.compile("-----BEGIN|PuTTY")


def everywhere(text: str, find: Callable[[View], Iterable[Span]]) -> Iterator[Span]:
    """Find in a text as it stands, and in each line with escapes or unseen signs as if it had none."""
    yield from find(View(text))
    yield from _Unescaped(text).spans(find)


class _Unescaped:
    """A text's lines with escapes, these read, in one text; and where its characters stood.

    A view of each line would cost many times what the search in it costs.
    """

    def __init__(self, text: str) -> None:
        """Read the escapes."""
        self._pieces: list[str] = []
        self._size = 0
        self._lines: list[int] = []
        self._at: list[int] = []
        self._stood: list[int] = []
        done = end = 0
        for match in _ESCAPE.finditer(text):
            start = match.start()
            if start >= end:
                if self._lines:
                    self._add(text[done:end], done)
                    self._add(_APART, end)
                done, end = text.rfind("\n", 0, start) + 1, text.find("\n", match.end())
                end = len(text) if end < 0 else end
                self._lines.append(self._size)
            self._add(text[done:start], done)
            for character in _character(match):
                self._add(character, start)
            done = match.end()
        self._add(text[done:end], done)
        self._text = "".join(self._pieces)

    def _add(self, piece: str, stood: int) -> None:
        self._at.append(self._size)
        self._stood.append(stood)
        self._pieces.append(piece)
        self._size += len(piece)

    def spans(self, find: Callable[[View], Iterable[Span]]) -> Iterator[Span]:
        """Find in all lines at once; again in each by itself that may begin an armoured key."""
        alone = {self._line(found.start()) for found in _ARMOUR.finditer(self._text)}
        for start, end, put in find(View(self._text)) if self._lines else ():
            if self._line(start) == self._line(max(start, end - 1)):  # else an armoured key without its end
                yield self._place(start), self._place(end), put
        ends = [line - len(_APART) for line in self._lines[1:]] + [self._size]
        for line in sorted(alone):
            first = self._lines[line]
            for start, end, put in find(View(self._text[first : ends[line]])):
                yield self._place(first + start), self._place(first + end), put

    def _line(self, at: int) -> int:
        return bisect_right(self._lines, at) - 1

    def _place(self, at: int) -> int:
        """Return where the character stood that is now at a position."""
        piece = bisect_right(self._at, at) - 1
        return self._stood[piece] + at - self._at[piece]


def _character(match: re.Match[str]) -> str:
    """Return what an escape stands for; nothing for a sign that is not seen."""
    how = match.lastgroup
    if how is None:
        return ""
    if how == "url":
        return unquote(match[how])
    return chr(min(int(match[how], 10 if how == "decimal" else 16), _LAST))


class Redactor(Struct, frozen=True, kw_only=True, dict=True):
    """What to hide on this machine; made by the application from its environment.

    Attributes:
        user: login name.
        home: home folder, in this system's form.
        host: this machine's name, with or without its domain.
        extra: further words to hide wherever they stand (other accounts, a project's code name).
    """

    user: str = ""
    home: str = ""
    host: str = ""
    extra: tuple[str, ...] = field(default=())

    def text(self, text: str) -> str:
        """Return the text without what identifies."""
        text = with_spans(text, words_in(View(text), self._home))
        text = with_spans(text, everywhere(text, folders_in))
        return with_spans(text, everywhere(text, self._words_and_secrets))

    def _words_and_secrets(self, view: View) -> Iterator[Span]:
        yield from secrets_in(view)
        yield from words_in(view, self._words)

    def data(self, value: object) -> object:
        """Return JSON data with every string redacted, keys too; values of telling keys go wholly.

        Anything that is not JSON becomes redacted text.
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(k)): self._value(str(k), v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.data(item) for item in value]
        if value is None or isinstance(value, (bool, int, float)):
            return value
        return self.text(str(value))  # a path, a date: whatever it is, it is written as text

    def _value(self, key: str, value: object) -> object:
        """Hide a value whose key says that it is one to hide."""
        if isinstance(value, (str, int)) and not isinstance(value, bool) and SENSITIVE_KEY.match(key):
            return "<redacted>" if value != "" else value
        if isinstance(value, str) and VERSION_KEY.match(key) and VERSION_TEXT.fullmatch(value):
            return value
        return self.data(value)

    @cached_property
    def _home(self) -> tuple[Known, ...]:
        return home_patterns(self.home)

    @cached_property
    def names(self) -> list[tuple[str, str]]:
        """The distinctive names, the user's first, and what stands in their place."""
        short, _, domain = self.host.partition(".")
        found = [(self.user, "<user>"), (self.host, "<host>"), (short, "<host>")]
        found += [(domain, "<domain>")] * ("." in domain)
        found += [(word, "<redacted>") for word in self.extra]
        return [(name, put) for name, put in found if distinctive(name)]

    @cached_property
    def _words(self) -> tuple[Known, ...]:
        return word_patterns(self.names, self.user)


def distinctive(name: str) -> bool:
    """Say whether a bare name may be removed from prose without mauling it."""
    return len(name.strip()) >= 3 and name.casefold() not in ORDINARY and not name.isdigit()  # noqa: PLR2004 - shorter ones are in every text


def redact_bytes(data: bytes, redactor: Redactor) -> bytes:
    """Redact a log of unknown encoding: UTF-8, UTF-16, UTF-32 (whole or in stretches), else single bytes.

    The own names go in the code pages of consoles as well. The encoding of what stays is kept.
    """
    encoding = wide_encoding(data)
    if encoding:
        whole = len(data) // 4 * 4 if "32" in encoding else len(data) // 2 * 2
        with contextlib.suppress(UnicodeDecodeError):  # it only looked so: numbers, or a damaged file
            text = data[:whole].decode(encoding, errors="surrogatepass")
            clean = redactor.text(text).encode(encoding, errors="surrogatepass")
            return _without_names(clean + data[whole:], redactor)
    for encoding, stretch in _STRETCHES.items() if b"\0" in data else ():
        data = stretch.sub(_in_stretch(redactor, encoding), data)
    try:
        data = redactor.text(data.decode("utf-8")).encode("utf-8")
    except UnicodeDecodeError:
        data = redactor.text(data.decode("latin-1")).encode("latin-1", errors="replace")
    return _without_names(data, redactor)


#: Wide text inside other bytes.
_STRETCHES: Final = {
    "utf-32-le": re.compile(rb"(?:[\t\r\n\x20-\xff]\x00{3}){4,}"),
    "utf-32-be": re.compile(rb"(?:\x00{3}[\t\r\n\x20-\xff]){4,}"),
    "utf-16-le": re.compile(rb"(?:[\t\r\n\x20-\xff]\x00){4,}"),
    "utf-16-be": re.compile(rb"(?:\x00[\t\r\n\x20-\xff]){4,}"),
}
#: In what else a console or a program may have written a name.
_PAGES: Final = (
    *WIDE,
    *("utf-8", "cp437", "cp850", "cp852", "cp866", "cp1250", "cp1251", "cp1253", "cp1254", "koi8-r"),
    *("gb18030", "big5", "cp932", "cp949"),
)


def _in_stretch(redactor: Redactor, encoding: str) -> Callable[[re.Match[bytes]], bytes]:
    """Redact one stretch of wide text inside other bytes."""

    def swap(match: re.Match[bytes]) -> bytes:
        return redactor.text(match[0].decode(encoding)).encode(encoding)

    return swap


def _without_names(data: bytes, redactor: Redactor) -> bytes:
    """Take the own names out as bytes, where they would not be seen as text."""
    wide = b"\0" in data
    for name, put in redactor.names:
        cases = (name, name.upper(), name.lower())
        spellings = sorted({normalize(form, case) for case in cases for form in ("NFC", "NFD")})
        for page in _PAGES:
            for spelling in spellings if (wide if page in WIDE else not name.isascii()) else ():
                with contextlib.suppress(UnicodeEncodeError):
                    data = data.replace(spelling.encode(page), put.encode(page))
    return data
