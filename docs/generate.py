"""Writes the parts of the documentation that are printed by the program: help texts, transcripts,
the baselines' table.

python docs/generate.py          writes them
python docs/generate.py help     writes this one
python docs/generate.py --check  fails when one is not what the program prints now
"""

import io
import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from typer.testing import CliRunner

from rlver_gym.agents import make_agent
from rlver_gym.audit.red_team import redteam
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.bench.score import score_agents
from rlver_gym.bench.table import leaderboard, needs_table
from rlver_gym.cli import app
from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Message
from rlver_gym.core.library import library
from rlver_gym.core.persona import HiddenNeed
from rlver_gym.environment.render import ENDINGS, emotion_bar
from rlver_gym.environment.session import EmpathySession
from rlver_gym.io.svg import draw_line_chart
from rlver_gym.users import EmbeddedUser

ROOT = Path(__file__).parent.parent
COMMANDS = (
    "talk",
    "bench",
    "report",
    "export",
    "verify",
    "rescore",
    "appraise",
    "redteam",
    "fidelity",
    "calibrate",
    "train-reader",
    "sft",
    "train",
    "sb3",
    "tape stats",
    "tape prune",
    "tape export",
    "personas list",
    "personas show",
    "personas check",
    "personas schema",
    "envs list",
    "envs show",
)


def help_of(command: str) -> str:
    """What `rlver-gym COMMAND --help` prints; of train all of it."""
    result = CliRunner().invoke(
        app,
        [*command.split(), "--help-all" if command == "train" else "--help"],
        env={"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"},
    )
    text = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)
    return (
        "```text\n"
        + "\n".join(line.rstrip() for line in text.strip("\n").splitlines()).strip("\n")
        + "\n```"
    )


def all_help() -> str:
    """Every command's help."""
    return "\n\n".join(f"## rlver-gym {command}\n\n{help_of(command)}" for command in COMMANDS)


class Reciting:
    """Says what was written beforehand."""

    def __init__(self, replies: Sequence[str]) -> None:
        """`replies`: one a turn."""
        self.replies = replies

    def reply(self, messages: Sequence[Message]) -> str:
        """The next of them."""
        return self.replies[sum(message.speaker == "agent" for message in messages)]


def transcript(
    persona_id: str, agent: str, replies: Sequence[str] = (), *, with_reasons: bool = True
) -> str:
    """A dialogue as Markdown: what was said, what it did, and why.

    `replies`: the agent's words, instead of a shipped agent's.
    """
    persona = library().get(persona_id)
    session = EmpathySession(EmbeddedUser(), persona, env_card("SAGE-Sentient-v0"), 0)
    supporter, name = (
        Reciting(replies) if replies else make_agent(agent, persona, 0),
        persona.person.name,
    )
    turns = len(replies) or 99
    lines = [f"**{name}:** {session.start()}", f"`{emotion_bar(session.emotion)}`"]
    while session.outcome is None and len(session.dialogue.turns) < turns:
        turn = session.reply(supporter.reply(tuple(session.dialogue.messages())))
        notes = [
            f"{one.points:+g} {one.note}"
            for one in turn.appraisal.reasons
            if abs(one.points) >= 0.5
        ]
        because = f": {'; '.join(notes)}" if with_reasons else ""
        lines += [
            f"> **{agent}:** {turn.utterance.replace(chr(10), ' ')}",
            (
                f"`{emotion_bar(turn.emotion)}`"
                f" **{turn.appraisal.change:+d}**{because}<br>\n*“{turn.appraisal.thought}”*"
            ),
            f"**{name}:** {turn.reply}",
        ]
    if session.outcome:
        lines.append(f"*{ENDINGS[session.outcome].format(name=name)}*")
    return "\n\n".join(lines)


def baselines() -> str:
    """The table of the shipped agents on the test personas."""
    with tempfile.TemporaryDirectory() as folder:
        ranked = score_agents(list(run(BenchPlan(), Path(folder))))
    console = Console(file=io.StringIO(), width=84, color_system=None)
    console.print(leaderboard(ranked, "SAGE-Sentient-v0: 24 personas x 3 seeds, embedded user"))
    console.print()
    console.print(needs_table(ranked))
    text = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    return (
        "```text\n" + "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n```"
    )


def picture() -> str:
    """Mean emotion by turn with the test personas, a line for each of five agents, as SVG."""
    names = ("oracle", "listener", "adaptive", "comfort", "advice")
    with tempfile.TemporaryDirectory() as folder:
        episodes = list(run(BenchPlan(agents=names, seeds=1), Path(folder)))
    curves = {}
    for name in names:
        rows = [
            [one.start, *(turn.emotion for turn in one.turns)]
            for one in episodes
            if one.agent == name
        ]
        last = max(map(len, rows))
        means = [sum(row[min(at, len(row) - 1)] for row in rows) / len(rows) for at in range(last)]
        curves[name] = list(enumerate(means))
    return draw_line_chart(curves, {}, "turn (a person who has left stays where they were)").rstrip(
        "\n"
    )


def tricks() -> str:
    """The red team's table on the test personas."""
    shelf = library()
    results = redteam(EmbeddedUser(), [shelf.get(persona_id) for persona_id in shelf.ids("test")])
    lines = [f"{'attack':22s} final emotion  content  what it does"]
    lines += [
        f"{one.attack:22s} {one.final:13.1f} {one.content:6.0f} %  {one.what}" for one in results
    ]
    return "```text\n" + "\n".join(lines) + "\n```"


def expectations() -> str:
    """How many of the hand-written pairs stand in the right order, by half and need."""
    pairs = [
        json.loads(line)
        for line in (
            (ROOT / "tests/data/expectations_en.jsonl").read_text(encoding="utf-8").splitlines()
        )
    ]
    halves = list(dict.fromkeys(pair["half"] for pair in pairs))
    points: dict[tuple[str, str], list[float]] = {}
    for pair in pairs:
        persona = library().get(pair["persona"])
        if "need" in pair:
            persona = persona.model_copy(update={"need": HiddenNeed(pair["need"])})
        session = EmpathySession(EmbeddedUser(), persona, env_card("SAGE-Sentient-v0"), 0)
        session.start()
        for utterance in pair["before"]:
            session.reply(utterance)
        here = session.snapshot()
        better = session.reply(pair["better"]).appraisal.change
        session.restore(here)
        worse = session.reply(pair["worse"]).appraisal.change
        for need in ("all", persona.need):
            points.setdefault((pair["half"], need), []).append(
                (better > worse) + 0.5 * (better == worse)
            )
    lines = [f"{'need':18s}" + "".join(f"{half:>18s}" for half in halves)]
    for need in ("all", *HiddenNeed):
        cells = (points.get((half, need), []) for half in halves)
        lines.append(
            f"{need:18s}"
            + "".join(
                f"{sum(cell) / len(cell):9.2f} of {len(cell):4d}  " if cell else " " * 18
                for cell in cells
            )
        )
    return "```text\n" + "\n".join(line.rstrip() for line in lines) + "\n```"


PERSONA = "theo-the-burst-pipe"
REPLIES = (
    (
        "Being sued by your own neighbours over something that happened while you weren't even"
        " home. You still have to meet them on the stairs. How are you holding up?"
    ),
    (
        "So you were down there with them that night, and now there's a letter. What did Martin say"
        " to you, in that doorway?"
    ),
    (
        "Hearing her laugh through the floor when you used to be part of it. That sounds like"
        " homesickness in your own house."
    ),
)
"""Written by hand, for the README's dialogue."""
PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "help": ("docs/cli.md", all_help),
    "oracle": ("docs/transcripts.md", lambda: transcript(PERSONA, "oracle")),
    "comfort": ("docs/transcripts.md", lambda: transcript(PERSONA, "comfort")),
    "advice": ("docs/transcripts.md", lambda: transcript(PERSONA, "advice")),
    "dialogue": ("README.md", lambda: transcript(PERSONA, "you", REPLIES, with_reasons=False)),
    "picture": ("docs/emotion.svg", picture),
    "baselines": ("docs/benchmarks.md", baselines),
    "redteam": ("docs/trust.md", tricks),
    "expectations": ("docs/trust.md", expectations),
}
"""What is generated: its name, the file it stands in between `<!-- begin NAME -->` and `<!-- end
NAME -->`, and what prints it. A picture is a whole file.
"""


def with_part(page: str, name: str, text: str) -> str:
    """The page with the part between its markers replaced."""
    pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(\n<!-- end {name} -->)", re.DOTALL)
    if not pattern.search(page):
        raise SystemExit(f"there are no markers <!-- begin {name} --> and <!-- end {name} -->")
    return pattern.sub(lambda found: f"{found.group(1)}{text}{found.group(2)}", page)


def main() -> None:
    """Write the parts, or check them."""
    stale, only_check = [], "--check" in sys.argv
    named = [name for name in sys.argv[1:] if name != "--check"]
    if unknown := set(named) - set(PARTS):
        raise SystemExit(f"no such part: {', '.join(unknown)}. There are: {', '.join(PARTS)}")
    for name in named or PARTS:
        file, printed = PARTS[name]
        page = (ROOT / file).read_text(encoding="utf-8")
        fresh = f"{printed()}\n" if file.endswith(".svg") else with_part(page, name, printed())
        if fresh != page:
            stale.append(f"{file}: {name}")
            if not only_check:
                (ROOT / file).write_text(fresh, encoding="utf-8")
    if stale and only_check:
        raise SystemExit(
            f"not what the program prints now: {', '.join(stale)}. Run: python docs/generate.py"
        )


if __name__ == "__main__":
    main()
