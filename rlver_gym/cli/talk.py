"""`rlver-gym talk`: be the supporter; `appraise`: what one reply does to one person."""

import re
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.panel import Panel
from rich.text import Text

from rlver_gym.cli.options import AsJson, Env, Personas, print_json
from rlver_gym.cli.servers import User, UserOption, add_chat_options, parse_user_options
from rlver_gym.core.cards import env_card
from rlver_gym.environment.render import (
    ENDINGS,
    render_appraisal,
    render_coloured_emotion_bar,
    render_emotion_bar,
    speech,
)
from rlver_gym.environment.session import EmpathySession
from rlver_gym.library.personas import library
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.studio.talks import snapshot_before
from rlver_gym.users import make_user
from rlver_gym.util.errors import UtteranceError
from rlver_gym.util.keyboard import read_utterance
from rlver_gym.util.model_names import uses_server
from rlver_gym.util.terminal import SafeConsole

_COMMAND = re.compile(r"\s*(/[a-z]+)\s*")
_SAID_NOTHING = "You said nothing. Enter again to stay silent; /help shows what can be typed."
_COMMANDS = {
    "/help": (
        "what can be typed: words for them; Enter twice, which is silence; a paste, which is one"
        " turn; and these"
    ),
    "/undo": "take your last words back",
    "/quit": "leave, as Ctrl-D does",
}


@add_chat_options("concurrency", "max_wait_s")
def talk(
    *,
    persona: Annotated[
        str | None,
        typer.Option(
            help="Whom to talk to; see `rlver-gym personas list`. Default: one of the demo"
            " personas, by --seed."
        ),
    ] = None,
    env: Annotated[
        str, typer.Option(help="Whose protocol: turns, start, thresholds.")
    ] = "RLVER-Empathy-v0",
    seed: Annotated[int, typer.Option(help="Chooses the persona and how they put things.")] = 0,
    personas: Personas = None,
    user: User = "embedded",
    user_option: UserOption = None,
    chat: ChatSettings,
) -> None:
    """You are the supporter: somebody has something on their mind, and it shows how your words
    land.

    Enter twice is silence, and they will feel it. A pasted text is one turn, however many lines it
    has. Ctrl-D ends the talk; /help shows what else can be typed.
    """
    shelf = library(personas)
    demo = shelf.ids("demo") or shelf.ids()
    who = shelf.get(persona or demo[seed % len(demo)])
    reached = dict(chat) if uses_server(user) else {}
    session = EmpathySession(
        make_user(user, **{**reached, **parse_user_options(user_option)}), who, env_card(env), seed
    )
    console = SafeConsole()
    opening = session.start()
    console.print(_build_introduction(session))
    talk = _TalkLoop(console, session)
    talk.show_person(opening)
    try:
        talk.converse()
    except (EOFError, KeyboardInterrupt) as end:
        told = f"\nYou leave. {who.person.name} is at {session.emotion}."
        console.print_line(told, style="italic")
        raise typer.Exit(130 if isinstance(end, KeyboardInterrupt) else 0) from None
    assert session.outcome is not None
    ending = ENDINGS[session.outcome].format(name=who.person.name)
    wanted = who.need.value.replace("_", " ")
    console.print_line(f"\n{ending} They wanted: {wanted}.", style="italic")
    if user == "embedded":
        console.print_line(
            "This user reads words, not meaning. One that understands: --user openai:MODEL.",
            style="dim",
        )


@dataclass
class _TalkLoop:
    """A talk at the terminal."""

    console: SafeConsole
    session: EmpathySession

    def converse(self) -> None:
        """Turn by turn to the end; EOFError or KeyboardInterrupt when the supporter leaves."""
        was_empty = False
        while self.session.outcome is None:
            self.console.print()
            turns = f"{len(self.session.dialogue.turns) + 1}/{self.session.scene.card.turns}"
            prompt = Text.assemble(("you ", "bold cyan"), (turns, "dim"), "  ")
            words = read_utterance(self.console, prompt)
            is_accident = not words.strip() and not was_empty
            if is_accident:
                self._hint(_SAID_NOTHING)
            elif match := _COMMAND.fullmatch(words):
                self._run(match[1])
            else:
                self._play(words)
            was_empty = is_accident

    def _run(self, command: str) -> None:
        """Do what a line that begins with a slash asks for. EOFError for /quit."""
        if command == "/quit":
            raise EOFError
        if command == "/help":
            for name, effect in _COMMANDS.items():
                self.console.print(Text.assemble((f"{name:6s}", "bold"), " ", effect))
        elif command not in _COMMANDS:
            told = f"There is no {command}. What there is: {', '.join(_COMMANDS)}."
            self.console.print_line(told, style="red")
        elif not self.session.dialogue.turns:
            self._hint("Nothing has moved them yet: say something first.")
        else:
            self._take_back()

    def _take_back(self) -> None:
        session = self.session
        session.restore(snapshot_before(session, session.dialogue, len(session.dialogue.turns)))
        self._hint("Your last words are taken back.")
        self.show_person(session.dialogue.user_lines[-1])

    def show_person(self, words: str) -> None:
        """What they said, and how they feel."""
        self._say(words)
        self.console.print(render_coloured_emotion_bar(self.session.emotion))

    def _say(self, words: str) -> None:
        self.console.print()
        self.console.print(speech(self.session.scene.persona.person.name, words))

    def _play(self, words: str) -> None:
        try:
            turn = self.session.reply(words)
        except UtteranceError as error:
            self.console.print_line(str(error), style="red")
            return
        self.console.print(*render_appraisal(turn, explain=True), sep="\n")
        self._say(turn.reply)

    def _hint(self, words: str) -> None:
        self.console.print_line(words, style="dim")


def _build_introduction(session: EmpathySession) -> Panel:
    person = session.scene.persona.person
    return Panel(
        Text(
            f"{person.name}, {person.age}. {person.work}.\nYou have {session.scene.card.turns}"
            " turns. The bar is how they feel, from 0 to 100. Type /help for help."
        ),
        title=Text("somebody wants to talk"),
        title_align="left",
        border_style="dim",
    )


def appraise(
    text: Annotated[
        list[str],
        typer.Argument(
            help="What the agent says; give several for several turns: the last is explained."
        ),
    ],
    persona: Annotated[
        str, typer.Option(help="Whom it is said to: an id of rlver-gym personas list.")
    ],
    user: Annotated[
        str, typer.Option(help="Who appraises: embedded, reader, or MODULE:NAME of your own user.")
    ] = "embedded",
    env: Env = "SAGE-Sentient-v0",
    personas: Personas = None,
    seed: Annotated[int, typer.Option(help="Seed of the dialogue.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Say something to a person and see every point of what it does to them.

    Example: rlver-gym appraise --persona theo-the-burst-pipe "You carried the buckets alone, all
    night."
    """
    who = library(personas).get(persona)
    session = EmpathySession(make_user(user), who, env_card(env), seed)
    opening = session.start()
    for said in text[:-1]:
        session.reply(said)
    before = session.emotion
    turn = session.reply(text[-1])
    if as_json:
        print_json({"before": before, "after": turn.emotion, **turn.appraisal._asdict()})
        return
    console = SafeConsole()
    heard = session.dialogue.user_lines[-2] if len(text) > 1 else opening
    console.print(Text.assemble((f"{who.person.name}: ", "bold"), heard))
    console.print(Text.assemble(("agent: ", "bold"), text[-1]))
    console.print(
        Text(
            f"{render_emotion_bar(before)} → {render_emotion_bar(turn.emotion)}"
            f"   {turn.appraisal.change:+d}"
        )
    )
    console.print(Text(f"“{turn.appraisal.thought}”", style="italic"))
    reasons = sorted(turn.appraisal.reasons, key=lambda reason: -abs(reason.points))
    console.print_table(
        [
            ("points", "because", "reason"),
            *((f"{reason.points:+g}", reason.note, reason.code) for reason in reasons),
            ("", "", ""),
            (f"{turn.appraisal.change:+d}", "in all", ""),
        ]
    )
