"""From records to plain data: one way for every document and every ``--json``."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import msgspec


def plain(value: object) -> Any:  # noqa: ANN401 - plain data of any shape
    """Return dictionaries, lists, strings and numbers; enumerations by value, paths as strings.

    Raises:
        NotImplementedError: something in it is not data.
    """
    return msgspec.to_builtins(value, enc_hook=_path)


def _path(value: object) -> str:
    if isinstance(value, PurePath):
        return str(value)
    msg = f"no plain data: {type(value).__name__}"
    raise NotImplementedError(msg)
