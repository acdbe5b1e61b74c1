"""`rlver-gym personas`: look at the simulated people, and check your own."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from rlver_gym.cli.options import AsJson, Personas, print_json
from rlver_gym.cli.servers import BaseUrl, require_chat_model
from rlver_gym.core.persona import HiddenNeed, Person, Persona, Situation, Split, SplitChoice
from rlver_gym.corpora.recordings import read_lines as read_json_lines
from rlver_gym.library.lean import TEMPLATE, LeanCard, LibraryPerson, Story
from rlver_gym.library.personas import (
    Index,
    check_card_name,
    library,
    list_card_files,
    load_card,
    shipped_personas_folder,
)
from rlver_gym.llm_client.connect import connect
from rlver_gym.llm_client.settings import ChatSettings, locate_server
from rlver_gym.people.card_check import check_cards
from rlver_gym.people.generate import Kind, Writer
from rlver_gym.people.lean_profiles import convert_profile_to_lean_card
from rlver_gym.people.pairing import draw_panel, pair_people_with_stories
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import CardError
from rlver_gym.util.files import make_file_name, read_lines, read_text
from rlver_gym.util.terminal import SafeConsole, format_count, one_line, print_text

app = typer.Typer(
    help="The people to talk to: list, read and check their cards.", no_args_is_help=True
)

_MAX_CARD_BYTES = 1 << 20
_PERSON = {"name", "age", "work", "disposition", "traits", "habits", "way_of_speaking"}
_SITUATION = {"title", "cause", "timeline", "conflict", "tried", "now"}
"""What `personas show` tells of a card."""


@app.command("list")
def list_(
    split: Annotated[SplitChoice, typer.Option(help="Only this split.")] = "all",
    need: Annotated[HiddenNeed | None, typer.Option(help="Only this hidden need.")] = None,
    panel: Annotated[
        int | None,
        typer.Option(min=1, help="Only this many, balanced over needs, dispositions and stories."),
    ] = None,
    personas: Personas = None,
    as_json: AsJson = False,
) -> None:
    """All personas: who, in which situation, with which hidden need."""
    shelf = library(personas)
    ids = shelf.ids(split, need) if panel is None else draw_panel(shelf, split, panel, need)
    chosen = [shelf.pairings[persona_id] for persona_id in ids]
    if as_json:
        print_json(chosen)
        return
    rows = [(persona.id, persona.need.value, persona.split) for persona in chosen]
    SafeConsole().print_table([("id", "hidden need", "split"), *rows])


@app.command()
def show(
    persona_id: Annotated[
        str, typer.Argument(help="A persona's id; see `rlver-gym personas list`.")
    ],
    personas: Personas = None,
    as_json: AsJson = False,
) -> None:
    """One persona, whole: the person, what happened, the hidden need and what a good answer could
    touch.
    """
    persona = library(personas).get(persona_id)
    if as_json:
        print_json(persona.model_dump(mode="json") | {"hash": persona.hash})
        return
    console = SafeConsole()
    shown = yaml.safe_dump(
        _persona_to_dict(persona), sort_keys=False, allow_unicode=True, width=console.width
    )
    console.print(shown, end="", soft_wrap=True)


def _persona_to_dict(persona: Persona) -> dict[str, Any]:
    situation = persona.situation
    touched = {
        kind: [anchor.text for anchor in getattr(situation.anchors, kind)]
        for kind in type(situation.anchors).model_fields
    }
    return {
        "person": persona.person.model_dump(mode="json", include=_PERSON),
        "hidden need": persona.need.value,
        "situation": situation.model_dump(mode="json", include=_SITUATION),
        "hints they give": list(situation.hints.of(persona.need)),
        "what a good answer could touch": touched,
    }


@app.command("check")
def check_(
    path: Annotated[
        Path | None,
        typer.Argument(help="A folder of cards, or one card file. Default: the shipped personas."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check cards: each problem with its file, its field and what to do.

    Exit code 1 when there are any.
    """
    path = path or shipped_personas_folder()
    if not path.exists():
        raise CardError(
            f"{path}: does not exist. Give a folder of cards, or one card file; `rlver-gym personas"
            " new NAME` begins one."
        )
    problems = check_cards(path)
    if as_json:
        print_json(problems)
    else:
        for problem in problems:
            SafeConsole(stderr=True).print_line(str(problem))
        count = format_count(len(problems), "problem")
        SafeConsole().print_line(count if problems else f"{path}: all cards are sound")
    if problems:
        raise typer.Exit(1)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Its id: lower-case letters, digits and hyphens.")],
) -> None:
    """Begin a lean card: NAME.yaml with what each field is, in which you write yours."""
    path = Path(f"{name}.yaml")
    check_card_name(path)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE.read_text(encoding="utf-8"))
    except OSError as error:
        raise CardError(
            f"{path}: cannot be made ({error.strerror}). Choose another name or place."
        ) from error
    print_text(f"{path}: write where <…> stands, then: rlver-gym personas check {path}")


@app.command("pair")
def pair_(
    folder: Annotated[Path, typer.Argument(help="A folder with people/ and stories/.")],
) -> None:
    """Pair each story of a library with people who may have lived it: writes FOLDER/index.yaml."""
    cards: list[dict[str, Any]] = []
    for name, kind in (("people", LibraryPerson), ("stories", Story)):
        files = list_card_files(folder / name)
        for path in files:
            check_card_name(path)
        cards.append({path.stem: load_card(kind, path) for path in files})
    if not all(cards):
        raise CardError(f"{folder}: needs people/*.yaml and stories/*.yaml. Write both first.")
    pairs = sorted(
        pair_people_with_stories(cards[0], cards[1]), key=lambda pair: (pair.split, pair.id)
    )
    if not pairs:
        raise CardError(
            f"{folder}: nobody may have lived any of its stories, so nothing is written. Look at"
            " split, ages, life, gender, work, home and names in both."
        )
    one_line_each = {"default_flow_style": True, "sort_keys": False, "width": 1_000}
    lines = [yaml.safe_dump(pair.model_dump(mode="json"), **one_line_each) for pair in pairs]
    text = "".join(["language: en\npersonas:\n", *(f"  - {line}" for line in lines)])
    write_atomically(folder / "index.yaml", text)
    print_text(f"{folder / 'index.yaml'}: {format_count(len(pairs), 'pairing')}")


@app.command("import")
def import_(
    profiles: Annotated[Path, typer.Argument(help="English profiles of SAGE or RLVER (.jsonl).")],
    folder: Annotated[Path, typer.Argument(help="A folder for the lean cards.")],
) -> None:
    """Make lean cards of SAGE's and RLVER's English profiles: FOLDER/profile-ID.yaml, one each. A
    card that is there with another content is never overwritten.

    By rule: read what comes out. An LLM user also plays the file as it is (--personas
    PROFILES.jsonl), in English and Chinese.

    Example: rlver-gym personas import simulator_profile.en.jsonl my-profiles
    """
    texts: dict[Path, str] = {}
    for number, value in read_json_lines(profiles):
        try:
            card = convert_profile_to_lean_card(value)
        except CardError as error:
            raise CardError(f"{profiles}, line {number}: {error}") from None
        path = folder / f"profile-{_make_card_id(str(value['id']))}.yaml"
        fields = card.model_dump(mode="json", exclude_defaults=True)
        text = yaml.safe_dump(fields, allow_unicode=True, sort_keys=False, width=1_000)
        if path in texts:
            raise CardError(
                f"{profiles}, line {number}: the id {str(value['id'])[:80]!r} stands twice. Remove"
                " one of the lines."
            )
        texts[path] = text
    for path, text in texts.items():
        if path.exists() and read_text(path, max_bytes=_MAX_CARD_BYTES, error=CardError) != text:
            raise CardError(
                f"{path}: another card is there, and nothing is written. Choose another folder, or"
                " remove the card."
            )
    for path, text in texts.items():
        write_atomically(path, text, CardError)
    print_text(f"{folder}: {format_count(len(texts), 'lean card')}")


def _make_card_id(profile_id: str) -> str:
    """The id itself where it can be a file's name; else what is left of it, and a hash, so that
    different profiles have different cards.
    """
    name = make_file_name(profile_id)
    if name == profile_id:
        return name
    digest = hashlib.sha256(profile_id.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{name}-{digest}".lstrip("-")


@app.command()
def generate(
    folder: Annotated[Path, typer.Argument(help="The library's folder; begun if it is not there.")],
    topics: Annotated[
        Path, typer.Option("--from", help="A file with a topic a line: a few words to begin from.")
    ],
    model: Annotated[str, typer.Option(help="Who writes: openai:MODEL.")],
    n: Annotated[int, typer.Option(min=1, max=1000, help="How many, of the first topics.")] = 20,
    kind: Annotated[Kind, typer.Option(help="What is written.")] = "story",
    split: Annotated[Split, typer.Option(help="Whom the stories or people are for.")] = "train",
    base_url: BaseUrl = None,
) -> None:
    """Have a language model write stories or people into a library.

    Each is checked as a card and against those that are there, and asked for again, twice at most,
    with what is wrong. Answers are kept in generate_cache.sqlite: the same command goes on where it
    stopped. Read what it wrote before you train on it.
    """
    name = require_chat_model("--model", model)
    lines = [line.strip() for _, line in read_lines(topics, error=CardError) if line.strip()][:n]
    folder.mkdir(parents=True, exist_ok=True)
    settings = ChatSettings(base_url=base_url, response_cache=folder / "generate_cache.sqlite")
    writer = Writer(connect(locate_server(model, settings)), name, folder, split)
    left = writer.list_missing(kind, lines)
    console, written = SafeConsole(), 0
    for card in writer.write(kind, lines):
        written += card.path is not None
        said = f"{card.path or 'left out'}: {card.topic}{card.problem and ': '}{card.problem}"
        console.print_line(one_line(said, max_chars=400))
    total = format_count(written, "card")
    print_text(
        f"{total} written, {len(lines) - len(left)} from before, {len(left) - written} left out"
    )
    if written < len(left):
        raise typer.Exit(1)


@app.command()
def schema(
    card: Annotated[
        str, typer.Argument(help="lean, story, library-person, person, situation, index, persona.")
    ] = "persona",
) -> None:
    """The JSON Schema of a kind of card, for your editor."""
    kinds = {
        "lean": LeanCard,
        "story": Story,
        "library-person": LibraryPerson,
        "person": Person,
        "situation": Situation,
        "index": Index,
        "persona": Persona,
    }
    if card not in kinds:
        raise CardError(f"there is no card of kind {card!r}. Choose one of: {', '.join(kinds)}.")
    schema = json.dumps(kinds[card].model_json_schema(), indent=2, ensure_ascii=False)
    print_text(schema, is_json=True)
