"""English profiles of SAGE and RLVER as lean cards: what a scene tells, sentence by sentence, with
"I" for the person. By rule: nobody looked at what comes out.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from rlver_gym.core.persona import Persona
from rlver_gym.core.words import split_sentences
from rlver_gym.library.lean import LeanCard
from rlver_gym.library.profiles import make_persona_from_profile
from rlver_gym.library.sentences import turn_into_second_person
from rlver_gym.util.errors import CardError
from rlver_gym.util.field_errors import field_errors

_WHEN = ("at first", "then", "after that", "later", "later still", "in the end")
_PARTS = (
    ("tried", re.compile(r"tried", re.IGNORECASE)),
    ("now", re.compile(r"current status", re.IGNORECASE)),
    ("meets", re.compile(r"conflict|challenge|problem|cause:", re.IGNORECASE)),
    ("timeline", re.compile(r"cause of|course", re.IGNORECASE)),
)
"""By the heading of a part of a scene, where its sentences belong; what comes first wins. Of the
conflict and its causes a good supporter would speak, so they are what meets the need.
"""
_MARKS = re.compile(r"[*#]+|^\s*(?:-|\d+\.)\s*")
_STYLE = re.compile(r"Speaking style:")
_MOST_HEADING, _MOST = 60, 580
_PRONOUNS = {
    "female": (
        (r"\bherself\b", "myself"),
        (r"\b(ma[dk]\w+|help\w*|leav\w+|tells?|told|accused|isolate) her\b", r"\1 me"),
        (r"\b[Hh]er(?= \w)(?! (?:to|that|and|for|in|at|on|with|about|as)\b)", "my"),
        (r"\bher\b", "me"), (r"\b[Ss]he\b", "I"),
    ),
    "male": (
        (r"\bhimself\b", "myself"), (r"\b[Hh]is\b", "my"), (r"\bhim\b", "me"), (r"\b[Hh]e\b", "I"),
    ),
}  # fmt: skip
_VERBS = (
    (r"is", "am"), (r"has", "have"), (r"doesn[’']t", "don't"), (r"(\w*[a-z])ies", r"\2y"),
    (r"(\w+(?:ss|sh|ch|x|o))es", r"\2"),
    (r"(?!was\b|\w+ss\b|(?:a|alway|sometime|perhap|versu|thu)s\b)(\w+)s", r"\2"),
)  # fmt: skip
_ADVERB = r"\bI ((?:also|often|always|still|never|now|\w+ly) )?"


def convert_profile_to_lean_card(profile: Mapping[str, Any]) -> LeanCard:
    """A line of an English profile file as a lean card; CardError says what is missing."""
    persona = make_persona_from_profile(profile)
    if persona.language != "en":
        raise CardError(
            f"the profile's language is {persona.language!r}, which is for LLM users and replay"
            " alone. Give its file as it is: --personas FILE.jsonl --user openai:MODEL."
        )
    try:
        return LeanCard.model_validate(_collect_card_fields(persona))
    except ValidationError as error:
        raise CardError(
            f"the scene tells too little for a lean card ({'; '.join(field_errors(error))})."
        ) from None


def _collect_card_fields(persona: Persona) -> dict[str, Any]:
    person, situation = persona.person, persona.situation
    parts: dict[str, list[str]] = {"timeline": [], "meets": [], "tried": [], "now": []}
    for part, sentence in _classify_sentences(situation.cause):
        parts[part].append(_turn_into_first_person(sentence, person.name, person.gender)[:_MOST])
    told = parts["timeline"]
    spread = [at * len(told) // len(_WHEN) for at in range(len(_WHEN))]
    style = _STYLE.split(person.habits, maxsplit=1)[-1]
    return {
        "name": person.name.split(" ")[-1],
        "age": person.age,
        "gender": person.gender,
        "work": person.work,
        "disposition": person.disposition,
        "traits": person.traits[:8],
        "speaks": _remove_marks(style.replace("\n", " "))[:_MOST],
        "title": f"{person.name}, of SAGE's profiles",
        "timeline": {when: told[at] for when, at in zip(_WHEN, spread, strict=True) if told},
        "tried": parts["tried"],
        "now": " ".join(parts["now"])[:_MOST],
        "openings": {
            "normal": situation.openings.normal or "Something has been on my mind lately."
        },
        "facts": [line for at, line in enumerate(told) if at not in spread],
        "need": persona.need,
        "meets": [turn_into_second_person(line) for line in parts["meets"]],
    }


def _remove_marks(text: str) -> str:
    return _MARKS.sub("", text).strip()


def _classify_sentences(story: str) -> Iterator[tuple[str, str]]:
    part = "timeline"
    for line in map(_remove_marks, story.split("\n")):
        head, colon, text = line.partition(":")
        if len(head) <= _MOST_HEADING and (colon or not head.endswith(".")):
            part = next((name for name, words in _PARTS if words.search(head + colon)), part)
        else:
            text = line
        for sentence in split_sentences(text):
            if re.search(r"[.!?][”\"]?\s*$", sentence) and "NPC" not in sentence:
                yield part, sentence.strip()


def _turn_into_first_person(sentence: str, name: str, gender: str) -> str:
    """With "I" for who is called so; wrong where somebody else of that gender is meant."""
    names = "|".join(map(re.escape, (name, *name.split(" "))))
    sentence = re.sub(rf"\b(?:{names})[’']s\b", "my", sentence)
    sentence = re.sub(rf"\b(?:{names})\b", "I", sentence)
    sentence = re.sub(r"\b(made|with|to|of|for|from|by|captivates) I\b", r"\1 me", sentence)
    for other, own in _PRONOUNS[gender]:
        sentence = re.sub(other, own, sentence)
    for verb, own in _VERBS:
        sentence = re.sub(rf"{_ADVERB}{verb}\b", rf"I \1{own}", sentence)
    return sentence[:1].upper() + sentence[1:]
