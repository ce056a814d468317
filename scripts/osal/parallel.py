"""The same work for many items on a few threads, ended by the first error or signal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from scripts.osal.signals import DeferredSignals

#: Seconds between two looks for a signal.
_LOOK: Final = 0.1
Item = TypeVar("Item")
Answer = TypeVar("Answer")


def parallel_map(work: Callable[[Item], Answer], items: Iterable[Item], *, threads: int) -> list[Answer]:
    """Return the result of ``work`` for each item, in order; the first exception ends it and is raised.

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


def stoppable_map(
    work: Callable[[Item], Answer], items: Iterable[Item], *, threads: int, stop: threading.Event
) -> list[Answer]:
    """Do what ``parallel_map`` does; a signal (noted, never raised in the pool) or an error sets ``stop``."""
    if threads <= 1:
        return list(map(work, items))
    from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait  # noqa: PLC0415 - as above

    with DeferredSignals() as shield, ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(work, item) for item in items]
        left = set(futures)
        try:
            while left and shield.noted is None:
                done, left = wait(left, timeout=_LOOK, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
        finally:
            if left:
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
    return [future.result() for future in futures]
