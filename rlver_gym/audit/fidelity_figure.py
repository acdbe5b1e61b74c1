"""Replayed against recorded agents' scores, as a picture (SVG)."""

from html import escape

_SIZE, _LEFT, _PAD = 460, 52, 24


def draw(agents: dict[str, tuple[float, float]]) -> str:
    """A scatter of one dot an agent: recorded mean final emotion across, replayed upwards, both 0
    to 100.
    """
    span = _SIZE - _LEFT - _PAD

    def at(recorded: float, own: float) -> tuple[float, float]:
        return _LEFT + span * recorded / 100, _SIZE - _LEFT - span * own / 100

    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}"'
            ' font-family="sans-serif" font-size="11">'
        ),
        f'<rect width="{_SIZE}" height="{_SIZE}" fill="#fff"/>',
    ]
    for tick in range(0, 101, 20):
        x, y = at(tick, tick)
        parts += [
            (
                f'<line x1="{x:.0f}" y1="{at(0, 100)[1]:.0f}" x2="{x:.0f}" y2="{at(0, 0)[1]:.0f}"'
                ' stroke="#eee"/>'
            ),
            (
                f'<line x1="{_LEFT}" y1="{y:.0f}" x2="{at(100, 0)[0]:.0f}" y2="{y:.0f}"'
                ' stroke="#eee"/>'
            ),
            (
                f'<text x="{x:.0f}" y="{_SIZE - _LEFT + 16}" text-anchor="middle"'
                f' fill="#555">{tick}</text>'
            ),
            f'<text x="{_LEFT - 8}" y="{y + 4:.0f}" text-anchor="end" fill="#555">{tick}</text>',
        ]
    (x1, y1), (x2, y2) = at(0, 0), at(100, 100)
    parts += [
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#bbb" stroke-dasharray="4 4"/>',
        (
            f'<text x="{_SIZE / 2}" y="{_SIZE - 12}" text-anchor="middle" fill="#333">recorded mean'
            " final emotion</text>"
        ),
        (
            f'<text x="14" y="{_SIZE / 2}" text-anchor="middle" fill="#333" transform="rotate(-90'
            f' 14 {_SIZE / 2})">replayed</text>'
        ),
    ]
    taken: list[float] = []
    for name, (own, recorded) in sorted(agents.items(), key=lambda one: -one[1][0]):
        x, y = at(recorded, own)
        label = y + 4
        while any(abs(label - other) < 13 for other in taken):
            label += 2
        taken.append(label)
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="#2b6cb0"/>',
            f'<text x="{x + 9:.1f}" y="{label:.1f}" fill="#222">{escape(name)}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"
