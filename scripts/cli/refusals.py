"""What the operating system refuses anywhere in a task, as a sentence: a full disk is no bug of ours."""

from __future__ import annotations

import errno
from typing import Final

from scripts.errors import HostError

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
#: Windows says these in numbers of its own: disk full, and two ways to say denied.
_WINDOWS: Final = {112: errno.ENOSPC, 5: errno.EACCES, 19: errno.EROFS}


def refusal_of(error: OSError) -> HostError | None:
    """Return the error to show, or ``None`` where the cause may be ours and its traceback is needed."""
    cause = _WINDOWS.get(getattr(error, "winerror", None) or 0, error.errno)
    context = tuple(str(name) for name in (error.filename, error.filename2) if name is not None)
    if cause in _FULL:
        msg = "the disk is full, so the task was given up; what was finished is kept"
        return HostError("no-space", msg, context=context, hint="free some space, then run it again")
    if cause in _DENIED and context:
        msg = f"the system refuses: {error.strerror}"
        hint = "make that place writable for you, or move it: see CUDA_AMD_CACHE and CUDA_AMD_STATE in README"
        return HostError("not-allowed", msg, context=context, hint=hint)
    return None
