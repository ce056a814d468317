"""From the bytes of a log, in whatever encoding, to letters that can be compared. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from scripts.osal.utf16_detect import wide_encoding

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
#: Colours, titles and cursor moves.
#: Colours whose escape character was lost on the way.
_BARE: Final = re.compile(r"\[(?:\d{1,3};)*\d{1,3}m")
_SLASHES: Final = re.compile(r"[\\/]+")
#: How a program that crashed is said to have ended: a status of Windows as a signed or unsigned number.
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
