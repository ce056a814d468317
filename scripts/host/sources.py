"""Where a scan looks; every source can be a recorded one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scripts.host import hip, linux, nvidia
from scripts.records import dataclass

if TYPE_CHECKING:
    from scripts.host import windows


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where to look instead of at this machine; ``None`` means here."""

    tree: linux.SysReader | None = None
    registry: windows.Registry | None = None
    system32: Path | None = None
    places: hip.HipPlaces | None = None
    runner: nvidia.Run = nvidia.run
