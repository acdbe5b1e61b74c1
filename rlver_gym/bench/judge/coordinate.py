"""SAGE's social-cognition coordinate (arXiv:2505.02847) as a picture of agents."""

from collections.abc import Sequence

from rlver_gym.bench.judge.summary import AgentMarks
from rlver_gym.core.capabilities import AXES
from rlver_gym.util.svg import INKS, Margins, Plot

_SIZE = 560


def draw_coordinate(marks: Sequence[AgentMarks]) -> str:
    plot = Plot(_SIZE, _SIZE, Margins(24, 28, 24, 28), (-1.1, 1.1), (-1.1, 1.1))
    for tick in (-1.0, -0.5, 0.5, 1.0):
        plot.line((tick, -1.1), (tick, 1.1), stroke="#eee")
        plot.line((-1.1, tick), (1.1, tick), stroke="#eee")
    plot.line((0, -1.1), (0, 1.1), stroke="#bbb")
    plot.line((-1.1, 0), (1.1, 0), stroke="#bbb")
    middle = {"text_anchor": "middle", "fill": "#333"}
    plot.add("text", "empathy-oriented", x=_SIZE / 2, y=18, **middle)
    plot.add("text", "solution-oriented", x=_SIZE / 2, y=_SIZE - 10, **middle)
    plot.add("text", "structured", x=26, y=plot.y(0) - 6, fill="#333")
    plot.add("text", "creative", x=_SIZE - 26, y=plot.y(0) - 6, text_anchor="end", fill="#333")
    for number, agent in enumerate(marks):
        ink = INKS[number % len(INKS)]
        across, up = (agent.coordinate[name] for name in AXES)
        plot.line((across.low, up.mean), (across.high, up.mean), stroke=ink)
        plot.line((across.mean, up.low), (across.mean, up.high), stroke=ink)
        plot.dot((across.mean, up.mean), 5, fill=ink)
        above = {"x": plot.x(across.mean), "y": plot.y(up.mean) - 9, "text_anchor": "middle"}
        plot.add("text", agent.agent[:40], **above, fill=ink, font_weight="bold")
    return plot.render_file()
