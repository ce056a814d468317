"""Do one thing to many items, by several threads where that pays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def parallel_map(work: Callable[[Item], Answer], items: Iterable[Item], *, threads: int) -> list[Answer]:
    """Return what ``work`` answers for each item, in order; the first exception ends it and is raised.

    With one thread none is started: that, and loading what starts them, costs more than small work does.
    """
    if threads <= 1:
        return list(map(work, items))
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - see above

    pool = ThreadPoolExecutor(threads)
    try:
        return list(pool.map(work, items))
    finally:
        pool.shutdown(cancel_futures=True)
