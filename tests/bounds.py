"""The processor time that work on hostile input may take, where growth with a square would take minutes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Seconds: some times what the slowest work takes on a slow, busy machine.
MOST: Final = 60.0


@contextmanager
def in_proportion() -> Iterator[None]:
    """Fail where the work inside takes more processor time than input of its size can need."""
    start = time.process_time()
    yield
    spent = time.process_time() - start
    assert spent < MOST, f"{spent:.0f} s of processor time"
