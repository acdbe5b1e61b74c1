"""The one writer of pictures (SVG): a frame with two linear axes, and a line chart made with it."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

Point = tuple[float, float]
INKS = ("#2b6cb0", "#267960", "#b24a3a", "#8a5fb0", "#b7791f", "#4a5568")
"""Colours of curves that can be told apart, also by those who see few."""
_FEW = 12
"""Steps of which each gets a tick; of more, every quarter."""


class Margins(NamedTuple):
    """Pixels around the part in which values are drawn."""

    left: float = 0
    top: float = 0
    right: float = 0
    bottom: float = 0


class Plot:
    """A picture whose shapes are placed by value; attributes are keywords (`stroke_width=2`)."""

    def __init__(
        self, width: float, height: float, margins: Margins, x_range: Point, y_range: Point
    ) -> None:
        """The size in pixels, and the values at the ends of the axes; low and high must differ."""
        self.width, self.height = width, height
        self._margins, self._x_range, self._y_range = margins, x_range, y_range
        self._parts: list[str] = []

    def x(self, value: float) -> float:
        low, high = self._x_range
        inner = self.width - self._margins.left - self._margins.right
        return self._margins.left + inner * (value - low) / (high - low)

    def y(self, value: float) -> float:
        low, high = self._y_range
        inner = self.height - self._margins.top - self._margins.bottom
        return self.height - self._margins.bottom - inner * (value - low) / (high - low)

    def add(self, name: str, text: str = "", /, **attributes: str | float) -> None:
        """An element by its own attributes, in pixels."""
        self._parts.append(_element(name, escape(text), attributes))

    def line(self, start: Point, end: Point, **style: str | float) -> None:
        (x1, y1), (x2, y2) = self._place((start, end))
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, **style)

    def path(self, points: Iterable[Point], **style: str | float) -> None:
        self.add("polyline", points=self._join(points), **style)

    def dot(self, at: Point, radius: float, **style: str | float) -> None:
        ((cx, cy),) = self._place((at,))
        self.add("circle", cx=cx, cy=cy, r=radius, **style)

    def render_file(self) -> str:
        """The picture as a file of its own, on white."""
        ground = _element("rect", "", {"width": self.width, "height": self.height, "fill": "#fff"})
        frame: dict[str, str | float] = {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {_number(self.width)} {_number(self.height)}",
            "font-family": "sans-serif",
            "font-size": 11,
        }
        return _element("svg", "\n".join(["", ground, *self._parts, ""]), frame) + "\n"

    def _place(self, points: Iterable[Point]) -> list[Point]:
        return [(self.x(across), self.y(up)) for across, up in points]

    def _join(self, points: Iterable[Point]) -> str:
        return " ".join(f"{_number(x)},{_number(y)}" for x, y in self._place(points))


def draw_line_chart(
    curves: Mapping[str, Sequence[Point]],
    levels: Mapping[str, float],
    across: str = "turns of training",
) -> str:
    """Final emotion (0 to 100) over training: a line a curve, a dashed one a fixed level."""
    most = max(steps for curve in curves.values() for steps, _ in curve)
    plot = Plot(560, 300, Margins(44, 14, 150, 44), (0, most), (0, 100))
    for tick in range(0, 101, 20):
        plot.line((0, tick), (most, tick), stroke="#eee")
        plot.add("text", str(tick), x=36, y=plot.y(tick) + 4, text_anchor="end", fill="#555")
    few = float(most).is_integer() and most <= _FEW
    for tick in range(int(most) + 1) if few else [share * most / 4 for share in range(5)]:
        centred = {"y": plot.y(0) + 16, "text_anchor": "middle", "fill": "#555"}
        plot.add("text", f"{tick:,.0f}", x=plot.x(tick), **centred)
    plot.add("text", across, x=plot.x(most / 2), y=292, text_anchor="middle", fill="#333")
    ends = {name: curve[-1][1] for name, curve in curves.items()} | dict(levels)
    places = spread_labels({name: plot.y(emotion) + 4 for name, emotion in ends.items()})
    inks = dict.fromkeys(levels, "#555") | dict(zip(curves, INKS * len(curves), strict=False))
    for emotion in levels.values():
        plot.line((0, emotion), (most, emotion), stroke="#999", stroke_dasharray="4 4")
    for name, curve in curves.items():
        plot.path(curve, fill="none", stroke=inks[name], stroke_width=2)
    for name, place in places.items():
        label = f"{name} {ends[name]:.0f}"
        plot.add("text", label, x=plot.x(most) + 6, y=place, fill=inks[name])
    return plot.render_file()


_LABEL_GAP = 13.0


def spread_labels(places: Mapping[str, float]) -> dict[str, float]:
    """The places (pixels from the top) moved downwards until no two labels touch."""
    moved: dict[str, float] = {}
    for name, place in sorted(places.items(), key=lambda entry: entry[1]):
        moved[name] = max(place, max(moved.values(), default=-_LABEL_GAP) + _LABEL_GAP)
    return moved


def _element(name: str, inside: str, attributes: Mapping[str, str | float]) -> str:
    told = "".join(
        f' {key.strip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
    )
    return f"<{name}{told}>{inside}</{name}>" if inside else f"<{name}{told}/>"


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{round(value, 1):g}"
