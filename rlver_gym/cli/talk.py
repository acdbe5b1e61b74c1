"""`rlver-gym talk`: be the supporter; `appraise`: what one reply does to one person."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.panel import Panel
from rich.text import Text

from rlver_gym.cli.options import AsJson, Env, Personas, print_json
from rlver_gym.cli.servers import User, UserOption, add_chat_options, parse_user_options
from rlver_gym.core.cards import DEFAULT_ENV, env_card
from rlver_gym.environment.episode import Episode
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
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import RunError, UserFailed, UtteranceError
from rlver_gym.util.keyboard import read_utterance
from rlver_gym.util.model_names import uses_server
from rlver_gym.util.terminal import SafeConsole

_COMMAND = re.compile(r"\s*(/[a-z]+)(?:[ \t]+(\S[^\n]*?))?\s*")
_SAID_NOTHING = "You said nothing. Enter again to stay silent; /help shows what can be typed."
_COMMANDS = {
    "/help": (
        "what can be typed: words for them; Enter twice, which is silence; a paste, which is one"
        " turn; and these"
    ),
    "/why": "what your last words did to them, point by point",
    "/undo": "take your last words back",
    "/retry": "/retry WORDS: say these in place of your last ones",
    "/save": "/save FILE: write the talk as a record, now and when it ends",
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
    ] = DEFAULT_ENV,
    seed: Annotated[
        int, typer.Option(min=0, help="Chooses the persona and how they put things.")
    ] = 0,
    explain: Annotated[
        bool, typer.Option(help="Show after each turn what they felt and why.")
    ] = True,
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
    _check_failed(session)
    console.print(_build_introduction(session))
    talk = _TalkLoop(console, session, explain)
    talk.show_person(opening)
    try:
        talk.converse()
    except (EOFError, KeyboardInterrupt) as end:
        talk.save_again()
        told = f"\nYou leave. {who.person.name} is at {session.emotion}."
        console.print_line(told, style="italic")
        raise typer.Exit(130 if isinstance(end, KeyboardInterrupt) else 0) from None
    assert session.outcome is not None
    _check_failed(session)
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
    """A talk at the terminal, and where it is to be saved."""

    console: SafeConsole
    session: EmpathySession
    explain: bool
    file: Path | None = None

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
            elif (match := _COMMAND.fullmatch(words)) and (match[1] in _COMMANDS or not match[2]):
                self._run(match[1], match[2] or "")
            else:
                self._play(words)
            was_empty = is_accident

    def _run(self, command: str, words: str) -> None:
        """Do what a line that begins with a slash asks for. EOFError for /quit."""
        turns = self.session.dialogue.turns
        if command == "/quit":
            raise EOFError
        if command == "/help":
            for name, effect in _COMMANDS.items():
                self.console.print(Text.assemble((f"{name:6s}", "bold"), " ", effect))
        elif command == "/save":
            self._save(words)
        elif command not in _COMMANDS:
            told = f"There is no {command}. What there is: {', '.join(_COMMANDS)}."
            self.console.print_line(told, style="red")
        elif not turns:
            self._hint("Nothing has moved them yet: say something first.")
        elif command == "/why":
            self.console.print(*render_appraisal(turns[-1], explain=True), sep="\n")
        elif command == "/retry" and not words:
            self._hint("Say what: /retry WORDS")
        else:
            self._take_back()
            if words:
                self._play(words)

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

    def _save(self, name: str) -> None:
        if not name:
            self._hint("Say where: /save FILE")
            return
        path = Path(name)
        if path.exists() and path != self.file:
            self._hint(f"{name} is there already. Choose another name.")
            return
        try:
            self._write(path)
        except RunError as error:
            self.console.print_line(str(error), style="red")
            return
        self.file = path
        self._hint(f"Saved as {path}; it is written again when the talk ends.")

    def save_again(self) -> None:
        """What was said since it was saved, if it was."""
        if self.file:
            self._write(self.file)

    def _write(self, path: Path) -> None:
        write_atomically(path, Episode.of(self.session, "human").to_json() + "\n")

    def _play(self, words: str) -> None:
        try:
            turn = self.session.reply(words)
        except UtteranceError as error:
            self.console.print_line(str(error), style="red")
            return
        self.console.print(*render_appraisal(turn, self.explain), sep="\n")
        self._say(turn.reply)
        if turn.outcome is not None:
            self.save_again()

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


def _check_failed(session: EmpathySession) -> None:
    """UserFailed, with the reason, where the user could not go on."""
    if session.failure is not None:
        raise UserFailed(session.failure)


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
        str,
        typer.Option(help="Who appraises: embedded, reader, openai:MODEL or MODULE:NAME."),
    ] = "embedded",
    user_option: UserOption = None,
    env: Env = "SAGE-Sentient-v0",
    personas: Personas = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the dialogue.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Say something to a person and see every point of what it does to them.

    Example: rlver-gym appraise --persona theo-the-burst-pipe "You carried the buckets alone, all
    night."
    """
    who = library(personas).get(persona)
    appraiser = make_user(user, **parse_user_options(user_option))
    session = EmpathySession(appraiser, who, env_card(env), seed)
    opening = session.start()
    _check_failed(session)
    for said in text[:-1]:
        session.reply(said)
        _check_failed(session)
    before = session.emotion
    turn = session.reply(text[-1])
    _check_failed(session)
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
