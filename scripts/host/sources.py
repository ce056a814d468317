"""Where a scan looks; every source can be a recorded one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from scripts.host import hip, linux, nvidia

if TYPE_CHECKING:
    from scripts.host import windows


class Sources(Struct, frozen=True, kw_only=True):
    """Where to look instead of at this machine; ``None`` means here."""

    tree: linux.SysReader | None = None
    registry: windows.Registry | None = None
    system32: Path | None = None
    places: hip.HipPlaces | None = None
    runner: nvidia.Run = nvidia.run
