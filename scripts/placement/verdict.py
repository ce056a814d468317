"""The decision table of an undo: what is there now, and is the original kept? Pure, so it can be read."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from scripts.placement.plan import Deed


class Now(StrEnum):
    """What lies at the name."""

    ABSENT = "absent"
    OURS = "ours"
    BEFORE = "as before"
    OTHER = "something else"


class Kept(StrEnum):
    """What lies at the original's place in the state folder."""

    NOTHING = "nothing"
    ORIGINAL = "the original"
    SAME = "the same file under a second name"
    OURS = "ours"
    OTHER = "something else"


class Verdict(StrEnum):
    """What an undo does about one name."""

    DONE = "nothing to do"
    REMOVE = "remove ours"
    RESTORE = "trade ours for the original"
    RETURN = "move the original back"
    DROP = "forget the spare name"
    LOST = "keep and list: the original is lost"
    CHANGED = "keep and list: changed by somebody else"


#: For files that we created: by what is there now.
CREATED: Final[Mapping[Now, Verdict]] = {
    Now.ABSENT: Verdict.DONE,
    Now.OURS: Verdict.REMOVE,
    Now.BEFORE: Verdict.CHANGED,
    Now.OTHER: Verdict.CHANGED,
}

#: For files that we replaced: by what is there now and what is kept.
REPLACED: Final[Mapping[tuple[Now, Kept], Verdict]] = {
    (Now.OURS, Kept.ORIGINAL): Verdict.RESTORE,
    (Now.OURS, Kept.OTHER): Verdict.RESTORE,
    (Now.OURS, Kept.NOTHING): Verdict.LOST,
    (Now.OURS, Kept.SAME): Verdict.LOST,
    (Now.OURS, Kept.OURS): Verdict.LOST,
    (Now.ABSENT, Kept.ORIGINAL): Verdict.RETURN,
    (Now.ABSENT, Kept.OTHER): Verdict.RETURN,
    (Now.ABSENT, Kept.NOTHING): Verdict.LOST,
    (Now.ABSENT, Kept.SAME): Verdict.LOST,
    (Now.ABSENT, Kept.OURS): Verdict.LOST,
    (Now.BEFORE, Kept.NOTHING): Verdict.DONE,
    (Now.BEFORE, Kept.SAME): Verdict.DROP,
    (Now.BEFORE, Kept.ORIGINAL): Verdict.DROP,
    (Now.BEFORE, Kept.OURS): Verdict.DROP,
    (Now.BEFORE, Kept.OTHER): Verdict.CHANGED,
    (Now.OTHER, Kept.NOTHING): Verdict.CHANGED,
    (Now.OTHER, Kept.SAME): Verdict.DROP,
    (Now.OTHER, Kept.ORIGINAL): Verdict.CHANGED,
    (Now.OTHER, Kept.OURS): Verdict.DROP,
    (Now.OTHER, Kept.OTHER): Verdict.CHANGED,
}


def judge(deed: Deed, now: Now, kept: Kept, *, untouched: bool) -> Verdict:
    """Decide about one name.

    ``untouched`` says that our file is still waiting in ``new/`` and is not what lies at the name:
    then nothing of ours ever had the name, and whatever is there is the user's own business.
    """
    if untouched and kept is Kept.NOTHING:
        return Verdict.DONE
    if deed is Deed.CREATE:
        return CREATED[now]
    return REPLACED[now, kept]
