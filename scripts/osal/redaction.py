"""Take out of texts what identifies a person or a machine. Pure: what to look for is passed in.

Rules:

* Home folders go wholly (``<home>``), with either slash, doubled or percent-encoded slashes, in any case.
  The folder of *anybody* below ``Users`` or ``home`` goes too (``<user>``).
* The user's and the machine's bare names go where they stand as words of their own, but only if they are
  distinctive: three characters or more, and not a word of our own texts (``ORDINARY``). A user called
  ``a`` or ``cuda`` is hidden in paths and left alone in prose, where removing the word would only maul
  the text and point at it.
* E-mail addresses, access tokens, credentials in URLs and headers, serial numbers, UUIDs, MAC addresses
  and Windows SIDs go wherever they stand.

Redacting twice changes nothing more. Too much is taken rather than too little.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final
from unicodedata import normalize
from urllib.parse import quote

from msgspec import Struct, field

from scripts.osal.utf16_detect import WIDE, wide_encoding

#: Names of accounts and machines that are also words of our own texts.
ORDINARY: Final = frozenset(
    re.findall(
        r"\w+",
        """
        admin administrator amd app benutzer bin build cache check code cpu cuda data default desktop dev
        docker download downloads driver error file gaming gpu guest home hip host laptop layer library
        linux local localhost machine main none nvidia path pc player program public python radeon report
        rocm root run runner runtime server stack stage system target temp test tests tmp tool torch unknown
        user users utilisateur version windows work workspace zluda
        """,
    )
)
SHARED_FOLDERS: Final = frozenset({"public", "default", "default user", "all users", "shared", "<user>"})

_SEP = r"(?:[\\/]|%5[cC]|%2[fF]){1,4}"
#: What stands between a label and its value.
_IS = r"[\"']?\s{0,9}[:=#]\s{0,9}[\"']?"
#: Where a word begins: also behind a percent-encoded character, whose last digit looks like a letter.
_START, _END = r"(?:(?<![^\W_])|(?<=%[0-9a-f]{2}))", r"(?![^\W_])"
_ANYBODY: Final = re.compile(
    rf"((?:\b[a-z](?::|%3a)|/mnt/[a-z]|(?<!\w)/[a-z](?=/)|\x1b\[[0-9;]*m|(?<!\w)){_SEP}"
    rf"(?:users|home|documents and settings){_SEP})"
    r"([^\\/\r\n\"'<>|:*?%]+(?=[\\/]|%5c|%2f)|<user>|[^\\/\s\"'<>|:*?,;)\]]+)",
    re.IGNORECASE,
)
_SECRETS: Final = r"(?:token|passw(?:or)?d|secret|api[-_ ]?key|access[-_ ]?key(?:[-_ ]?id)?|credential)"
_SENSITIVE_KEY: Final = re.compile(
    rf".*(?:{_SECRETS}|authorization|cookie|serial(?:[-_ ]?n(?:umber|o))?|uuid|mac(?:[-_ ]?addr(?:ess)?)?|"
    r"host[-_ ]?name|user[-_ ]?name)s?$",
    re.IGNORECASE,
)

#: Pattern and what stands in its place; the order matters, the specific ones first. Repetitions have
#: bounds: a log may be one endless line.
_PATTERNS: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), put)
    for pattern, put in (
        (r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----[\s\S]*?(?:-----END \1-----|\Z)", "<token>"),
        (r"((?:proxy-)?authorization[\"']?\s{0,9}[:=]\s{0,9}[\"']?)(?:(?:basic|bearer|token|digest)\s+)?[^\s\"',]+",
         r"\1<token>"),
        (r"\b(bearer\s+)[\w.~+/-]{8,}=*", r"\1<token>"),
        (r"(\b[a-z][a-z0-9+.-]{0,20}://)[^\s/@\"'<>]{1,500}@", r"\1<token>@"),
        (r"\bgithub_pat_\w{20,}|\bgh[opusr]_\w{20,}|\bglpat-[\w-]{16,}", "<token>"),
        (r"\bhf_[a-z0-9]{16,}|\bsk-[\w-]{16,}|\bxox[abprs]-[\w-]{10,}|\bpypi-[\w-]{16,}", "<token>"),
        (r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", "<token>"),
        (r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*", "<token>"),
        (rf"((?:{_SECRETS}s?{_IS})+)(?!<)[^\s\"'&,;<>]+", r"\1<token>"),
        (r"[\w.%+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,}", "<email>"),
        (r"\bS-1-5-21(?:-\d+){3,}", "<sid>"),
        (r"(?<![0-9a-f])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![0-9a-f])", "<uuid>"),
        (r"(?<![0-9a-f:-])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![0-9a-f:-])", "<mac>"),
        (r"(?<![0-9a-f:-])(?:[0-9a-f]{2}-){5}[0-9a-f]{2}(?![0-9a-f:-])", "<mac>"),
        (rf"((?:\bserial[ _-]?(?:number|no\.?|nr\.?|id)?{_IS})+)(?!<)[^\s\"',;<>]+", r"\1<serial>"),
    )
)  # fmt: skip


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
        for pattern, put in self._own_paths:
            text = pattern.sub(put, text)
        text = _ANYBODY.sub(_hide_folder, text)
        for pattern, put in _PATTERNS:
            text = pattern.sub(put, text)
        for pattern, put in self._own_words:
            text = pattern.sub(put, text)
        return text

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
        if isinstance(value, (str, int)) and not isinstance(value, bool) and _SENSITIVE_KEY.match(key):
            return "<redacted>" if value != "" else value
        return self.data(value)

    @cached_property
    def _own_paths(self) -> tuple[tuple[re.Pattern[str], str], ...]:
        """Build the pattern of the home folder, unless it is a root."""
        parts = [p for p in re.split(r"[\\/]+", self.home) if p]
        drive = bool(parts) and re.fullmatch(r"[A-Za-z]:", parts[0]) is not None
        if len(parts) <= int(drive):
            return ()
        # A home of one component (/root) is a word of other paths too: /srv/root stays.
        lead = "" if drive else rf"(?<!\w){_SEP}" if len(parts) == 1 else _SEP
        body = _SEP.join(_spelled(part) for part in parts)
        return ((re.compile(lead + body + r"(?![\w-])", re.IGNORECASE), "<home>"),)

    @cached_property
    def names(self) -> list[tuple[str, str]]:
        """The distinctive names, the user's first, and what stands in their place."""
        short = self.host.split(".", maxsplit=1)[0]
        found = [(self.user, "<user>"), (self.host, "<host>"), (short, "<host>")]
        found += [(word, "<redacted>") for word in self.extra]
        return [(name, put) for name, put in found if distinctive(name)]

    @cached_property
    def _own_words(self) -> tuple[tuple[re.Pattern[str], str], ...]:
        """Build the patterns of the distinctive names, longest first."""
        names = self.names
        # Windows shortens long or spaced names: MAXMUS~1.
        shorts = [(re.sub(r"[ .]", "", name)[:6], put) for name, put in names[:1] if name == self.user]
        found = [(_word(name), put) for name, put in sorted(names, key=lambda item: -len(item[0]))]
        return tuple(found) + tuple((_word(name, r"~\d+"), put) for name, put in shorts)


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
    for encoding, stretch in _STRETCHES.items():
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
    for name, put in redactor.names:
        spellings = {form(s) for s in (name, name.upper(), name.lower()) for form in (_composed, _apart)}
        for page in _PAGES:
            for spelling in sorted(spellings) if page in WIDE or not name.isascii() else ():
                with contextlib.suppress(UnicodeEncodeError):
                    data = data.replace(spelling.encode(page), put.encode(page))
    return data


def _composed(name: str) -> str:
    return normalize("NFC", name)


def _apart(name: str) -> str:
    return normalize("NFD", name)


def _word(name: str, tail: str = "") -> re.Pattern[str]:
    """Match a name standing as a word of its own."""
    return re.compile(f"{_START}{_spelled(name)}{tail}{_END}", re.IGNORECASE)


def _spelled(name: str) -> str:
    """Match a name plain, percent-encoded or with JSON's escapes."""
    plain = {name, name.upper(), normalize("NFC", name), normalize("NFD", name)}
    forms = {form for p in plain for form in (p, quote(p), json.dumps(p)[1:-1])}
    return f"(?:{'|'.join(re.escape(form) for form in sorted(forms))})"


def _hide_folder(match: re.Match[str]) -> str:
    """Hide a person's folder; the shared ones say nothing."""
    name = match[2]
    return match[0] if name.casefold() in SHARED_FOLDERS else f"{match[1]}<user>"
