"""The dialogues as the report's page holds them: JSON for its script, in which each text stands once. Everything else about a page is in `report`."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from rlver_gym.bench.score import Score
from rlver_gym.environment.episode import Episode
from rlver_gym.io.text import printable

MAX_CHARS = 6 << 20
"""Of the JSON, about: what a browser still opens at once. A benchmark of all agents with three seeds takes a quarter of it."""


class Viewer(NamedTuple):
    """What can be read on the page."""

    json: str
    """Cannot end its own script element, and holds nothing that turns the direction of writing."""
    shown: int
    """How many dialogues are in it; lower seeds first when not all."""


def view(episodes: Sequence[Episode], ranked: Sequence[Score], max_chars: int = MAX_CHARS) -> Viewer:
    """The dialogues, the best agent's first. `texts` are all texts; the rest points into them by number."""
    rank = {score.agent: number for number, score in enumerate(ranked)}
    texts: dict[str, int] = {}
    chosen: list[Episode] = []
    size = 0
    for episode in sorted(episodes, key=lambda episode: episode.seed):
        size += _size(episode, texts)
        if size > max_chars:
            break
        chosen.append(episode)
        _pack(episode, texts)
    chosen.sort(key=lambda episode: rank[episode.agent])
    packed = [_pack(episode, texts) for episode in chosen]
    value = {"texts": list(texts), "episodes": packed}
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Viewer(text, len(chosen))


def _size(episode: Episode, texts: dict[str, int]) -> int:
    """About how many characters of JSON an episode adds to these texts."""
    numbers = sum(30 + 14 * len(turn.appraisal.reasons) for turn in episode.turns)
    return 80 + numbers + sum(len(text) for text in set(_texts(episode)) if text not in texts)


def _texts(episode: Episode) -> list[str]:
    turns = episode.turns
    notes = [reason.note for turn in turns for reason in turn.appraisal.reasons]
    said = [text for turn in turns for text in (turn.utterance, turn.appraisal.thought, turn.reply)]
    return [printable(text) for text in (episode.agent, episode.persona, episode.opening, *said, *notes)]


def _pack(episode: Episode, texts: dict[str, int]) -> dict[str, Any]:
    """An episode with numbers for texts; new ones are added to `texts`."""

    def number(text: str) -> int:
        return texts.setdefault(printable(text), len(texts))

    return {
        "agent": number(episode.agent), "persona": number(episode.persona), "need": number(episode.need),
        "disposition": number(episode.disposition), "seed": episode.seed, "start": episode.start,
        "opening": number(episode.opening), "outcome": episode.outcome,
        "turns": [
            [number(turn.utterance), turn.appraisal.change, turn.emotion, number(turn.appraisal.thought),
             [[reason.points, number(reason.note)] for reason in turn.appraisal.reasons], number(turn.reply)]
            for turn in episode.turns
        ],
    }  # fmt: skip
