"""A dialogue for people, plain or in colour: text of models and cards is never markup."""

from rich.console import Console, Group
from rich.padding import Padding
from rich.text import Text

from rlver_gym.core.dialogue import Turn
from rlver_gym.core.emotion import Band
from rlver_gym.environment.session import EmpathySession
from rlver_gym.util.terminal import printable

BAND_COLOURS = {
    Band.S: "bright_green",
    Band.A: "green",
    Band.B: "yellow",
    Band.C: "dark_orange",
    Band.F: "red",
}
ENDINGS = {
    "content": "{name} is content and says goodbye.",
    "left": "{name} has left.",
    "out_of_turns": "Out of turns; {name} is still there.",
    "failed": "{name} could not answer: the simulated user failed.",
}


def speech(name: str, words: str) -> Text:
    return Text.assemble((f"{name}  ", "bold"), words)


def render_emotion_bar(emotion: int) -> str:
    """The emotion as 20 cells, with the score and its band: "########............ 40 B"."""
    filled = round(emotion / 5)
    return f"{'#' * filled}{'.' * (20 - filled)} {emotion:3d} {Band.of(emotion).value}"


def render_coloured_emotion_bar(emotion: int, width: int = 24) -> Text:
    filled = round(emotion / 100 * width)
    style = BAND_COLOURS[Band.of(emotion)]
    return Text.assemble(
        ("━" * filled, style),
        ("─" * (width - filled), "dim"),
        (f" {emotion:3d} {Band.of(emotion).value}", f"bold {style}"),
    )


def render_dialogue_as_text(session: EmpathySession) -> str:
    """The dialogue with the emotion bar after each turn; nothing in it commands a terminal."""
    name = session.scene.persona.person.name
    lines = [
        f"{name}: {session.dialogue.opening}",
        f"    {render_emotion_bar(session.scene.card.start)}",
    ]
    for turn in session.dialogue.turns:
        lines += [
            f"agent: {turn.utterance}",
            f"    {render_emotion_bar(turn.emotion)}  {turn.appraisal.change:+d}",
            f"{name}: {turn.reply}",
        ]
    if session.outcome:
        lines.append(f"    {ENDINGS[session.outcome].format(name=name)}")
    return printable("\n".join(lines))


def print_last_turn(session: EmpathySession, console: Console) -> None:
    name = session.scene.persona.person.name
    turns = session.dialogue.turns
    if not turns:
        console.print(speech(name, session.dialogue.opening))
        console.print(Padding(render_coloured_emotion_bar(session.emotion), (0, 0, 1, 2)))
        return
    turn = turns[-1]
    console.print(Text.assemble(("agent  ", "bold cyan"), turn.utterance))
    console.print(Padding(Group(*render_appraisal(turn, explain=True)), (0, 0, 0, 2)))
    console.print(speech(name, turn.reply))
    if session.outcome:
        console.print(Text(f"\n{ENDINGS[session.outcome].format(name=name)}", style="italic"))
    console.print()


def render_appraisal(turn: Turn, explain: bool) -> list[Text]:
    change = turn.appraisal.change
    style = "green" if change > 0 else "red" if change < 0 else "dim"
    lines = [
        Text.assemble(
            render_coloured_emotion_bar(turn.emotion), "  ", (f"{change:+d}", f"bold {style}")
        )
    ]
    if explain:
        lines.append(Text(f"“{turn.appraisal.thought}”", style="italic dim"))
        lines += [
            Text(f"{reason.points:+6.2f}  {reason.note}", style="dim")
            for reason in turn.appraisal.reasons
        ]
    return lines
