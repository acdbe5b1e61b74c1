"""Replayed against recorded agents' scores, as a picture (SVG)."""

from rlver_gym.io.svg import Margins, Plot, spread_labels

_SIZE = 460


def draw(agents: dict[str, tuple[float, float]]) -> str:
    """A scatter of one dot an agent: recorded mean final emotion across, replayed upwards, both 0
    to 100. `agents`: (replayed, recorded) by name.
    """
    plot = Plot(_SIZE, _SIZE, Margins(52, 24, 24, 52), (0, 100), (0, 100))
    for tick in range(0, 101, 20):
        plot.line((tick, 0), (tick, 100), stroke="#eee")
        plot.line((0, tick), (100, tick), stroke="#eee")
        below = {"x": plot.x(tick), "y": plot.y(0) + 16, "text_anchor": "middle"}
        beside = {"x": plot.x(0) - 8, "y": plot.y(tick) + 4, "text_anchor": "end"}
        plot.add("text", str(tick), **below, fill="#555")
        plot.add("text", str(tick), **beside, fill="#555")
    plot.line((0, 0), (100, 100), stroke="#bbb", stroke_dasharray="4 4")
    middle = {"text_anchor": "middle", "fill": "#333"}
    plot.add("text", "recorded mean final emotion", x=_SIZE / 2, y=_SIZE - 12, **middle)
    turned = f"rotate(-90 14 {_SIZE / 2:g})"
    plot.add("text", "replayed", x=14, y=_SIZE / 2, transform=turned, **middle)
    labels = spread_labels({name: plot.y(own) + 4 for name, (own, _) in agents.items()})
    for name, (own, recorded) in agents.items():
        plot.dot((recorded, own), 5, fill="#2b6cb0")
        plot.add("text", name, x=plot.x(recorded) + 9, y=labels[name], fill="#222")
    return plot.render_file()
