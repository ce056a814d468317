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

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Final
from unicodedata import normalize
from urllib.parse import quote

from scripts.records import dataclass

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


@dataclass(frozen=True, kw_only=True)
class Redactor:
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
    def _own_words(self) -> tuple[tuple[re.Pattern[str], str], ...]:
        """Build the patterns of the distinctive names, longest first."""
        short = self.host.split(".", maxsplit=1)[0]
        names = [(self.user, "<user>"), (self.host, "<host>"), (short, "<host>")]
        names += [(word, "<redacted>") for word in self.extra]
        names = [(name, put) for name, put in names if distinctive(name)]
        # Windows shortens long or spaced names: MAXMUS~1.
        shorts = [(re.sub(r"[ .]", "", name)[:6], put) for name, put in names[:1] if name == self.user]
        found = [(_word(name), put) for name, put in sorted(names, key=lambda item: -len(item[0]))]
        return tuple(found) + tuple((_word(name, r"~\d+"), put) for name, put in shorts)


def distinctive(name: str) -> bool:
    """Say whether a bare name may be removed from prose without mauling it."""
    return len(name.strip()) >= 3 and name.casefold() not in ORDINARY and not name.isdigit()  # noqa: PLR2004 - shorter ones are in every text


def redact_bytes(data: bytes, redactor: Redactor) -> bytes:
    """Redact a log of unknown encoding: UTF-8, UTF-16 (whole or in stretches), else a single-byte one.

    The encoding of what stays is kept.
    """
    encoding = _utf16(data)
    if encoding:
        whole = len(data) // 2 * 2
        text = data[:whole].decode(encoding, errors="surrogatepass")
        return redactor.text(text).encode(encoding, errors="surrogatepass") + data[whole:]
    data = _UTF16_STRETCH.sub(_in_stretch(redactor), data)
    try:
        return redactor.text(data.decode("utf-8")).encode("utf-8")
    except UnicodeDecodeError:
        return redactor.text(data.decode("latin-1")).encode("latin-1", errors="replace")


_UTF16_STRETCH: Final = re.compile(rb"(?:[\t\r\n\x20-\xff]\x00){4,}")


def _in_stretch(redactor: Redactor) -> Callable[[re.Match[bytes]], bytes]:
    """Redact one stretch of UTF-16 inside other bytes."""

    def swap(match: re.Match[bytes]) -> bytes:
        return redactor.text(match[0].decode("utf-16-le")).encode("utf-16-le")

    return swap


def _utf16(data: bytes) -> str:
    """Recognise UTF-16 by its mark, or by where its zero bytes stand."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16-le" if data[0] == 0xFF else "utf-16-be"  # noqa: PLR2004 - the mark's first byte
    even, odd = data[0:4096:2], data[1:4096:2]
    if len(data) >= 4 and odd.count(0) > len(odd) * 0.4 and not even.count(0):  # noqa: PLR2004 - a share that no text in another encoding has
        return "utf-16-le"
    if len(data) >= 4 and even.count(0) > len(even) * 0.4 and not odd.count(0):  # noqa: PLR2004 - likewise
        return "utf-16-be"
    return ""


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
