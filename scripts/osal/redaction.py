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
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Final
from unicodedata import normalize

from msgspec import Struct, field

from scripts.osal import redaction_names as names_of
from scripts.osal.redaction_nets import Span, View, everywhere, secrets_in, with_spans
from scripts.osal.redaction_rules import ORDINARY, SENSITIVE_KEY, VERSION_KEY, VERSION_TEXT
from scripts.osal.utf16_detect import WIDE, wide_encoding


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
        text = with_spans(text, names_of.words_in(View(text), self._home))
        text = with_spans(text, everywhere(text, names_of.folders_in))
        return with_spans(text, everywhere(text, self._words_and_secrets))

    def _words_and_secrets(self, view: View) -> Iterator[Span]:
        yield from secrets_in(view)
        yield from names_of.words_in(view, self._words)

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
    def _home(self) -> tuple[names_of.Known, ...]:
        return names_of.home_patterns(self.home)

    @cached_property
    def names(self) -> list[tuple[str, str]]:
        """The distinctive names, the user's first, and what stands in their place."""
        short, _, domain = self.host.partition(".")
        found = [(self.user, "<user>"), (self.host, "<host>"), (short, "<host>")]
        found += [(domain, "<domain>")] * ("." in domain)
        found += [(word, "<redacted>") for word in self.extra]
        return [(name, put) for name, put in found if distinctive(name)]

    @cached_property
    def _words(self) -> tuple[names_of.Known, ...]:
        return names_of.word_patterns(self.names, self.user)


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
