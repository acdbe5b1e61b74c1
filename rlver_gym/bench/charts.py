"""The report's pictures, as inline SVG and coloured cells.

Takes numbers only, so nothing needs escaping.
"""

from collections.abc import Sequence
from math import isnan

from rlver_gym.environment.episode import Episode
from rlver_gym.io.interval import Interval

_LOW, _MIDDLE, _HIGH = (178, 74, 58), (236, 226, 200), (38, 121, 96)


def draw_final_bar(final: Interval, start: int) -> str:
    """A bar from 0 to 100 with its interval and the start marked; nothing when there is nothing to
    estimate from.
    """
    if isnan(final.mean):
        return ""
    return (
        f'<svg class="final" viewBox="0 0 200 16" role="img" aria-label="{final.mean:.1f}, from'
        f' {final.low:.1f} to {final.high:.1f}"><rect class="track" x="0" y="5" width="200"'
        f' height="6" rx="3"/><rect class="fill" x="0" y="5" width="{2 * final.mean:.1f}"'
        f' height="6" rx="3"/><line class="start" x1="{2 * start}" x2="{2 * start}" y1="1"'
        f' y2="15"/><line class="interval" x1="{2 * final.low:.1f}" x2="{2 * final.high:.1f}"'
        f' y1="8" y2="8"/><line class="interval" x1="{2 * final.low:.1f}" x2="{2 * final.low:.1f}"'
        f' y1="5" y2="11"/><line class="interval" x1="{2 * final.high:.1f}"'
        f' x2="{2 * final.high:.1f}" y1="5" y2="11"/></svg>'
    )


def draw_trajectories(episodes: Sequence[Episode], horizon: int) -> str:
    """Emotion by turn: a thin line a persona (mean over seeds) and a bold one for the mean of
    all.
    """
    paths: dict[str, list[list[float]]] = {}
    for episode in episodes:
        path = [float(episode.start), *(float(turn.emotion) for turn in episode.turns)]
        paths.setdefault(episode.persona, []).append(path + [path[-1]] * (horizon + 1 - len(path)))
    people = [_mean(group) for group in paths.values()]
    width, height, left, bottom = 260.0, 130.0, 24.0, 16.0

    def x(turn: float) -> float:
        return left + turn / max(1, horizon) * (width - left - 6)

    def y(emotion: float) -> float:
        return 9 + (1 - emotion / 100) * (height - bottom - 9)

    def line(path: Sequence[float], kind: str) -> str:
        points = " ".join(f"{x(turn):.1f},{y(emotion):.1f}" for turn, emotion in enumerate(path))
        return f'<polyline class="{kind}" points="{points}"/>'

    borders = "".join(
        f'<line class="border" x1="{left}" x2="{width - 6}" y1="{y(value):.1f}"'
        f' y2="{y(value):.1f}"/><text x="{left - 4}" y="{y(value) + 3:.1f}"'
        f' text-anchor="end">{value}</text>'
        for value in (10, 40, 70, 100)
    )
    ticks = "".join(
        f'<text x="{x(turn):.1f}" y="{height - 3}" text-anchor="middle">{turn}</text>'
        for turn in range(0, horizon + 1, 1 if horizon < 12 else 5)
    )
    lines = "".join(line(path, "person") for path in people) + line(_mean(people), "mean")
    return (
        f'<svg class="curve" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="mean'
        " emotion by turn:"
        f' {", ".join(f"{value:.0f}" for value in _mean(people))}">{borders}{ticks}{lines}</svg>'
    )


def _mean(paths: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) / len(column) for column in zip(*paths, strict=True)]


def render_heat_cell(emotion: float | None) -> str:
    """A table cell coloured from low over the start's 40 to high."""
    if emotion is None:
        return "<td></td>"
    near, far, share = (
        (_MIDDLE, _LOW, (40 - emotion) / 40)
        if emotion < 40
        else (_MIDDLE, _HIGH, (emotion - 40) / 60)
    )
    red, green, blue = (
        round(a + (b - a) * min(1.0, share)) for a, b in zip(near, far, strict=True)
    )
    ink = "#fff" if 0.299 * red + 0.587 * green + 0.114 * blue < 140 else "#1b1b18"
    return f'<td style="background:rgb({red},{green},{blue});color:{ink}">{emotion:.0f}</td>'
