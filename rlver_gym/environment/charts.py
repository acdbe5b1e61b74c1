"""Pictures of scores and emotions: SVG and coloured cells, of numbers that need no escaping."""

from collections.abc import Sequence
from math import isnan

from rlver_gym.environment.episode import Episode
from rlver_gym.io.interval import Interval
from rlver_gym.io.svg import Margins, Plot

_LOW, _MIDDLE, _HIGH = (178, 74, 58), (236, 226, 200), (38, 121, 96)


def draw_final_bar(final: Interval, start: int) -> str:
    """A bar from 0 to 100 with its interval and the start marked; "" without an estimate."""
    if isnan(final.mean):
        return ""
    plot = Plot(200, 16, Margins(), (0, 100), (0, 16))
    plot.add("rect", class_="track", y=5, width=200, height=6, rx=3)
    plot.add("rect", class_="fill", y=5, width=plot.x(final.mean), height=6, rx=3)
    plot.line((start, 1), (start, 15), class_="start")
    plot.line((final.low, 8), (final.high, 8), class_="interval")
    for end in (final.low, final.high):
        plot.line((end, 5), (end, 11), class_="interval")
    told = f"{final.mean:.1f}, from {final.low:.1f} to {final.high:.1f}"
    return plot.render(class_="final", role="img", aria_label=told)


def draw_trajectories(episodes: Sequence[Episode], horizon: int) -> str:
    """Emotion by turn: a thin line a persona (mean over seeds), a bold one for the mean of all."""
    paths: dict[str, list[list[float]]] = {}
    for episode in episodes:
        path = [float(episode.start), *(float(turn.emotion) for turn in episode.turns)]
        paths.setdefault(episode.persona, []).append(path + [path[-1]] * (horizon + 1 - len(path)))
    people = [_mean(group) for group in paths.values()]
    last = max(1, horizon)
    plot = Plot(260, 130, Margins(24, 9, 6, 16), (0, last), (0, 100))
    for value in (10, 40, 70, 100):
        plot.line((0, value), (last, value), class_="border")
        plot.add("text", str(value), x=20, y=plot.y(value) + 3, text_anchor="end")
    for turn in range(0, horizon + 1, 1 if horizon < 12 else 5):
        plot.add("text", str(turn), x=plot.x(turn), y=127, text_anchor="middle")
    for path in people:
        plot.path(enumerate(path), class_="person")
    plot.path(enumerate(_mean(people)), class_="mean")
    told = f"mean emotion by turn: {', '.join(f'{value:.0f}' for value in _mean(people))}"
    return plot.render(class_="curve", role="img", aria_label=told)


def draw_strategies(rows: Sequence[tuple[str, float, Interval]], reach: float) -> str:
    """By row its name, a bar of its percent of turns, and a difference with its interval on an axis
    from -`reach` to `reach`.
    """
    count = len(rows)
    plot = Plot(260, 17 * count + 14, Margins(166, 0, 10, 14), (-reach, reach), (0, count))
    plot.line((0, 0), (0, count), class_="border")
    for at in (-reach, 0, reach):
        label = f"{at:+.0f}" if at else "0"
        plot.add("text", label, x=plot.x(at), y=plot.height - 3, text_anchor="middle")
    for number, (name, percent, difference) in enumerate(rows):
        level = count - number - 0.5
        middle = plot.y(level)
        plot.add("text", name, x=72, y=middle + 3, text_anchor="end")
        plot.add("rect", class_="track", x=76, y=middle - 3, width=50, height=6, rx=3)
        plot.add("rect", class_="fill", x=76, y=middle - 3, width=percent / 2, height=6, rx=3)
        plot.add("text", f"{percent:.0f} %", x=129, y=middle + 3)
        if not isnan(difference.mean):
            plot.line((difference.low, level), (difference.high, level), class_="interval")
            plot.dot((difference.mean, level), 2.5, class_="fill")
    told = "; ".join(f"{name} {percent:.0f} % of turns" for name, percent, _ in rows)
    return plot.render(class_="curve", role="img", aria_label=told)


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
