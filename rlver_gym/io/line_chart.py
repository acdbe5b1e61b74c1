"""A learning curve as a picture (SVG)."""

from collections.abc import Mapping, Sequence
from html import escape

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _BOTTOM, _TOP = 560, 300, 44, 150, 44, 14
_INKS = ("#2b6cb0", "#267960", "#b24a3a", "#8a5fb0", "#b7791f", "#4a5568")
_FEW = 12
"""Steps of which each gets a tick; of more, every quarter."""


def draw(
    curves: Mapping[str, Sequence[tuple[int, float]]],
    levels: Mapping[str, float],
    across: str = "turns of training",
) -> str:
    """Final emotion (0 to 100, upwards) over training: a line a curve of (`across`, emotion), a
    dashed one for each level that does not learn.
    """
    most = max(steps for curve in curves.values() for steps, _ in curve)

    def x(steps: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * steps / most

    def y(emotion: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * emotion / 100

    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
            ' font-family="sans-serif" font-size="11">'
        ),
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
    ]
    for tick in range(0, 101, 20):
        parts += [
            (
                f'<line x1="{_LEFT}" y1="{y(tick):.0f}" x2="{x(most):.0f}" y2="{y(tick):.0f}"'
                ' stroke="#eee"/>'
            ),
            (
                f'<text x="{_LEFT - 8}" y="{y(tick) + 4:.0f}" text-anchor="end"'
                f' fill="#555">{tick}</text>'
            ),
        ]
    ticks = range(most + 1) if most <= _FEW else [share * most / 4 for share in range(5)]
    parts += [
        f'<text x="{x(tick):.0f}" y="{y(0) + 16:.0f}" text-anchor="middle"'
        f' fill="#555">{tick:,.0f}</text>'
        for tick in ticks
    ]
    parts.append(
        f'<text x="{x(most / 2):.0f}" y="{_HEIGHT - 8}" text-anchor="middle"'
        f' fill="#333">{escape(across)}</text>'
    )
    ends = {name: curve[-1][1] for name, curve in curves.items()} | dict(levels)
    places = _spread_labels({name: y(emotion) + 4 for name, emotion in ends.items()})
    for name, emotion in levels.items():
        parts += [
            (
                f'<line x1="{_LEFT}" y1="{y(emotion):.1f}" x2="{x(most):.0f}" y2="{y(emotion):.1f}"'
                ' stroke="#999" stroke-dasharray="4 4"/>'
            ),
            _label(x(most), places[name], "#555", name, emotion),
        ]
    for (name, curve), ink in zip(curves.items(), _INKS * len(curves), strict=False):
        points = " ".join(f"{x(steps):.1f},{y(emotion):.1f}" for steps, emotion in curve)
        parts += [
            f'<polyline points="{points}" fill="none" stroke="{ink}" stroke-width="2"/>',
            _label(x(most), places[name], ink, name, curve[-1][1]),
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _label(x: float, y: float, ink: str, name: str, emotion: float) -> str:
    return f'<text x="{x + 6:.0f}" y="{y:.1f}" fill="{ink}">{escape(name)} {emotion:.0f}</text>'


def _spread_labels(places: Mapping[str, float], gap: float = 13) -> dict[str, float]:
    """The places moved downwards until no two labels touch."""
    moved: dict[str, float] = {}
    for name, place in sorted(places.items(), key=lambda one: one[1]):
        moved[name] = max(place, max(moved.values(), default=-gap) + gap)
    return moved
