"""What a picture is made of: black shapes on white, their places in pixels from the upper left corner."""

from __future__ import annotations

from typing import Literal, TypeAlias

from scripts.records import dataclass

Anchor: TypeAlias = Literal["start", "middle", "end"]
Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Text:
    """A line of text; ``y`` is its base line, ``anchor`` the part of it that lies at ``x``."""

    x: float
    y: float
    text: str
    anchor: Anchor = "start"
    size: int = 13
    bold: bool = False


@dataclass(frozen=True, kw_only=True)
class Strokes:
    """Lines from point to point; several runs make one figure, ``dash`` is on and off in pixels."""

    runs: tuple[tuple[Point, ...], ...]
    width: float = 1
    dash: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Filled:
    """A black figure with these corners."""

    corners: tuple[Point, ...]


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A hollow circle."""

    x: float
    y: float
    radius: float = 4.5
    width: float = 1.6


@dataclass(frozen=True, kw_only=True)
class Hatched:
    """A hatched area without a border."""

    x: float
    y: float
    width: float
    height: float


Shape: TypeAlias = Text | Strokes | Filled | Dot | Hatched


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Shapes in the order they are drawn, on a white page."""

    width: int
    height: int
    shapes: tuple[Shape, ...]
