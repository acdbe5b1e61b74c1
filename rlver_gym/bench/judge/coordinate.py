"""SAGE's social-cognition coordinate as a picture: agents beside the models of the paper."""

from collections.abc import Sequence

from rlver_gym.bench.judge.summary import AgentMarks
from rlver_gym.core.capabilities import AXES
from rlver_gym.util.svg import INKS, Margins, Plot, spread_labels

REFERENCES = {
    "GPT-4.1": (-0.4, 0.8),
    "GPT-4o-Latest": (-0.1, 0.7),
    "GPT-4.5": (-0.5, 0.4),
    "Gemini2.5-Pro": (-0.4, 0.3),
    "Gemini2.5-Flash-Think": (-0.7, 0.1),
    "Gemini2.0-Flash-Think": (-0.6, -0.2),
    "o4-mini": (-0.9, -0.5),
    "Gemini2.0-Flash": (-0.6, -0.6),
    "o3": (-0.8, -0.7),
    "DeepSeek-R1": (0.8, -0.3),
    "DeepSeek-V3-0324": (0.4, -0.8),
}
"""Structured to creative, solution to empathy; read off the paper's figure (arXiv:2505.02847), to
about 0.1. Another judge placed them, by other dialogues.
"""
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
    places = spread_labels({name: plot.y(up) + 4 for name, (_, up) in REFERENCES.items()})
    for name, at in REFERENCES.items():
        plot.dot(at, 3, fill="#bbb")
        side = {"x": plot.x(at[0]) - 6, "text_anchor": "end"} if at[0] > 0.6 else {}
        plot.add("text", name, **{"x": plot.x(at[0]) + 6, **side}, y=places[name], fill="#777")
    for number, agent in enumerate(marks):
        ink = INKS[number % len(INKS)]
        across, up = (agent.coordinate[name] for name in AXES)
        plot.line((across.low, up.mean), (across.high, up.mean), stroke=ink)
        plot.line((across.mean, up.low), (across.mean, up.high), stroke=ink)
        plot.dot((across.mean, up.mean), 5, fill=ink)
        above = {"x": plot.x(across.mean), "y": plot.y(up.mean) - 9, "text_anchor": "middle"}
        plot.add("text", agent.agent[:40], **above, fill=ink, font_weight="bold")
    return plot.render_file()
