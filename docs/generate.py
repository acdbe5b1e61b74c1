"""Writes the parts of the documentation that are printed by the program: the list of commands,
a dialogue, every figure of the shipped user.

python docs/generate.py          writes them
python docs/generate.py results  writes this one
python docs/generate.py --check  fails when one is not what the program prints now
"""

import io
import json
import re
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from run_notebook import renew
from typer.main import get_command

from rlver_gym.bench.attacks.red_team import run_attacks
from rlver_gym.bench.draft import describe_fields
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.bench.score import score_agents
from rlver_gym.bench.table import build_score_rows, need_rows
from rlver_gym.cli import app
from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Dialogue, Turn
from rlver_gym.core.persona import HiddenNeed
from rlver_gym.core.user import Scene
from rlver_gym.environment.render import render_emotion_bar
from rlver_gym.environment.session import EmpathySession
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.correlation import correlation_within
from rlver_gym.util.svg import INKS, Margins, Plot, draw_line_chart, spread_labels
from rlver_gym.util.terminal import SafeConsole

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "research"))

from fidelity import (  # noqa: E402
    Agreement,
    Bounds,
    appraise_corpus,
    bootstrap_agreement,
    describe_agreement,
)


def commands() -> str:
    """Every command with the beginning of its help."""
    rows = []
    root: Any = get_command(app)
    for name, command in root.commands.items():
        below = getattr(command, "commands", {None: command})
        for part, leaf in below.items():
            words = name if part is None else f"{name} {part}"
            text = " ".join(leaf.help.split("\n\n")[0].split())
            text = re.split(r"[.:](?: |$)| [(]", text)[0]
            while len(text.split()) > MAX_WORDS and "," in text:
                text = text.rpartition(",")[0]
            rows.append(f"- `{words}`: {text}")
    return "\n".join(rows)


def suite() -> str:
    """The keys of a suite, with what those say that are no options of bench."""
    fields = describe_fields()
    own = {name: text for name, text in fields.items() if name.startswith(SUITE_ALONE)}
    options = ", ".join(f"`{name}`" for name in fields if name not in own)
    rows = [f"- {options}: as the options of `rlver-gym bench --help`"]
    return "\n".join([*rows, *(f"- `{name}`: {text}" for name, text in own.items())])


def transcript() -> str:
    """The beginning of a dialogue as Markdown: what was said, what it did, and why."""
    persona = library().get(PERSONA)
    session = EmpathySession(EmbeddedUser(), persona, env_card("SAGE-Sentient-v0"), 0)
    name = persona.person.name
    lines = [f"**{name}:** {session.start()}", f"`{render_emotion_bar(session.emotion)}`"]
    for reply in REPLIES:
        turn = session.reply(reply)
        notes = [
            f"{reason.points:+g} {reason.note}"
            for reason in turn.appraisal.reasons
            if abs(reason.points) >= 2
        ]
        lines += [
            f"> **you:** {turn.utterance}",
            (
                f"`{render_emotion_bar(turn.emotion)}`"
                f" **{turn.appraisal.change:+d}**: {'; '.join(notes)}<br>\n"
                f"*“{turn.appraisal.thought}”*"
            ),
            f"**{name}:** {turn.reply}",
        ]
    return "\n\n".join(lines)


def baselines() -> str:
    """The table of the shipped agents on the test personas."""
    with tempfile.TemporaryDirectory() as folder:
        ranked = score_agents(list(run(BenchPlan(), Path(folder))))
    console = SafeConsole(file=io.StringIO(), width=84, color_system=None)
    title = "SAGE-Sentient-v0: 24 personas x 3 seeds, embedded user"
    console.print_table(build_score_rows(ranked), title)
    console.print()
    console.print_table(need_rows(ranked), "final emotion by hidden need")
    text = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    return (
        "```text\n" + "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n```"
    )


class Felt(NamedTuple):
    """What readers and the embedded user make of one supporter, of equal dialogues."""

    supporter: str
    final: float
    readers_final: float
    change: float
    readers_change: float


def recorded_dialogues() -> list[dict[str, Any]]:
    """The newest recorded dialogues with supporters who are in no corpus, rated by two readers."""
    files = sorted(
        (ROOT / "benchmarks/conversations").glob("version*.jsonl"),
        key=lambda file: int(file.stem.removeprefix("version")),
    )
    return [json.loads(line) for line in files[-1].read_text(encoding="utf-8").splitlines()]


@cache
def replay() -> tuple[tuple[Felt, ...], float]:
    """What the installed version makes of these recorded words, by supporter; and r within a
    dialogue of all replies.
    """
    user, card = EmbeddedUser(), env_card("SAGE-Sentient-v0")
    finals: dict[str, list[tuple[float, float]]] = {}
    changes: dict[str, list[tuple[float, float]]] = {}
    replies: list[tuple[float, float, int]] = []
    for number, one in enumerate(recorded_dialogues()):
        scene, emotion = Scene(library().get(one["persona"]), card, one["seed"]), card.start
        dialogue, pairs = Dialogue(one["turns"][0]["user"]), []
        for turn in one["turns"][1:]:
            appraisal = user.appraise(scene, emotion, dialogue.with_utterance(turn["supporter"]))
            emotion = max(0, min(100, emotion + appraisal.change))
            dialogue = dialogue.with_turn(
                Turn(turn["supporter"], appraisal, emotion, 0.0, None, turn["user"])
            )
            pairs.append((appraisal.change, fmean(turn["change"])))
        finals.setdefault(one["supporter"], []).append((emotion, fmean(one["final"])))
        changes.setdefault(one["supporter"], []).extend(pairs)
        replies += [(felt, rated, number) for felt, rated in pairs]
    felt = [
        Felt(name, *np.mean(finals[name], axis=0), *np.mean(changes[name], axis=0))
        for name in finals
    ]
    within = correlation_within(*np.array(replies).T)
    return tuple(sorted(felt, key=lambda one: -one.readers_final)), within


def unseen_supporters() -> str:
    """The same as a table, with the agreement within a dialogue."""
    felt, within = replay()
    rows = [
        f"Embedded user version {EmbeddedUser().version}; within a dialogue r {within:.2f}.",
        "",
        "| supporter | final: readers | embedded | a reply: readers | embedded |",
        "|---|---|---|---|---|",
    ]
    rows += [
        f"| {one.supporter} | {one.readers_final:.0f} | {one.final:.0f} |"
        f" {one.readers_change:+.1f} | {one.change:+.1f} |"
        for one in felt
    ]
    return "\n".join(rows)


@cache
def corpus_agreement() -> tuple[Agreement, Bounds]:
    """How far the embedded user agrees with readers of the corpus' test split."""
    rated, felt = appraise_corpus(EmbeddedUser(), ROOT / "recordings/en/test")
    return describe_agreement(rated, felt), bootstrap_agreement(rated, felt)


def agreement() -> str:
    """The same as a table."""
    found, bounds = corpus_agreement()
    rows = [
        f"| embedded user version {EmbeddedUser().version} | found | 95 % over supporters |",
        "|---|---|---|",
    ]
    for name, what in AGREEMENT.items():
        low, high = bounds[name]
        rows.append(f"| {what} | {found[name]:.2f} | {low:.2f} to {high:.2f} |")
    return "\n".join(rows)


def both() -> str:
    """The same supporters by both: a line from the embedded user's score to the readers', as SVG.

    Whom the embedded user alone puts high falls from left to right.
    """
    felt, _within = replay()
    plot = Plot(640, 300, Margins(150, 30, 270, 10), (0, 1), (20, 100))
    titles = {0: f"embedded user, version {EmbeddedUser().version}", 1: "read whole by two readers"}
    for side, title in titles.items():
        plot.line((side, 20), (side, 100), stroke="#bbb")
        plot.add("text", title, x=plot.x(side), y=18, text_anchor="middle", fill="#333")
    left = spread_labels({one.supporter: plot.y(one.final) + 4 for one in felt})
    right = spread_labels({one.supporter: plot.y(one.readers_final) + 4 for one in felt})
    for number, one in enumerate(felt):
        ink = INKS[number % len(INKS)]
        plot.path([(0, one.final), (1, one.readers_final)], fill="none", stroke=ink, stroke_width=2)
        near = {"x": plot.x(0) - 8, "y": left[one.supporter], "text_anchor": "end"}
        plot.add("text", f"{one.final:.0f}", **near, fill=ink)
        far = {"x": plot.x(1) + 8, "y": right[one.supporter]}
        plot.add("text", f"{one.readers_final:.0f} {one.supporter}", **far, fill=ink)
    return plot.render_file().rstrip("\n")


def limit() -> str:
    """The README's first limit, in figures."""
    found, _bounds = corpus_agreement()
    return (
        "- The embedded user reads words, not meaning. **Within one dialogue, all that a learner"
        f" sees, it agrees with readers at r {found['within_dialogue_r']:.2f}**"
        f" (embedded user version {EmbeddedUser().version}; two readers: 0.87)."
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
    """The attacks of the red team that reach most with the test personas."""
    shelf = library()
    results = run_attacks(
        EmbeddedUser(), [shelf.get(persona_id) for persona_id in shelf.ids("test")]
    )
    lines = [f"{'attack':22s} final emotion  content  what it does"]
    lines += [
        f"{one.attack:22s} {one.final:13.1f} {one.content:6.0f} %  {one.what}"
        for one in sorted(results, key=lambda one: -one.final)[:6]
    ]
    return "```text\n" + "\n".join(lines) + "\n```"


def expectations() -> str:
    """The share of the hand-written pairs that stand in the right order, by part."""
    text = (ROOT / "tests/data/expectations_en.jsonl").read_text(encoding="utf-8")
    shares: dict[str, list[float]] = {}
    for pair in map(json.loads, text.splitlines()):
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
        shares.setdefault(pair["half"], []).append((better > worse) + 0.5 * (better == worse))
    cells = ", ".join(f"`{part}` {fmean(of):.2f} of {len(of)}" for part, of in shares.items())
    return f"Version {EmbeddedUser().version}: {cells}."


def worlds() -> str:
    """The mean final emotion of the shipped agents in each world."""
    agents = ("oracle", "listener", "adaptive", "comfort", "praise", "advice")
    rows = [f"| version {EmbeddedUser().version} | {' | '.join(agents)} |", "|---" * 7 + "|"]
    for world in ("Empathy", "Honest", "Adversarial", "Reserved", "Challenging", "ChitChat"):
        plan = BenchPlan(env=f"RLVER-{world}-v0", agents=agents, split="validation", seeds=2)
        with tempfile.TemporaryDirectory() as folder:
            scores = {row.agent: row for row in score_agents(list(run(plan, Path(folder))))}
        means = (f"{scores[agent].final.mean:.0f}" for agent in agents)
        rows.append(f"| `{plan.env}` | {' | '.join(means)} |")
    return "\n".join(rows)


AGREEMENT = {
    "within_dialogue_r": "within a dialogue, r",
    "within_moment_r": "within a moment, r",
    "within_person_r": "within a person, r",
    "same_sign": "same sign",
    "always_pleased": "same sign, if always pleased",
    "order_of_supporters": "order of supporters, Spearman",
}
"""What is compared with readers, and how the docs name it."""
MAX_WORDS = 14
"""About a command, in the list of all."""
SUITE_ALONE = ("judge", "baseline", "thresholds")
"""What the names of the keys of a suite begin with that bench has no option for."""
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
)
"""Written by hand, for the first page."""
NOTEBOOK = "examples/first_hour.ipynb"
PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "commands": ("docs/cli.md", commands),
    "suite": ("docs/tutorials/suite.md", suite),
    "dialogue": ("docs/index.md", transcript),
    "limit": ("README.md", limit),
    "agreement": ("docs/trust.md", agreement),
    "unseen": ("docs/trust.md", unseen_supporters),
    "notebook": (NOTEBOOK, lambda: renew(ROOT / NOTEBOOK)),
    "picture": ("docs/emotion.svg", picture),
    "both": ("docs/both.svg", both),
    "baselines": ("docs/benchmarks.md", baselines),
    "redteam": ("docs/trust.md", tricks),
    "expectations": ("docs/trust.md", expectations),
    "worlds": ("docs/worlds.md", worlds),
}
"""What is generated: its name, the file it stands in between `<!-- begin NAME -->` and `<!-- end
NAME -->`, and what prints it. A picture and the notebook are whole files.
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
        is_whole = file.endswith((".svg", ".ipynb"))
        fresh = f"{printed()}\n" if is_whole else with_part(page, name, printed())
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
