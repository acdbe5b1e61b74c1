"""Dialogues as rows: what was said in the shape that a trainer reads, and beside it, under
"metadata", what it did.

A dialogue ends with the person's last words, to which nobody answers; chat formats end with the
assistant. So they stand in the metadata, as `last_reply`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from rlver_gym.bench.export.select_dialogues import Record
from rlver_gym.core.dialogue import Dialogue, Turn
from rlver_gym.core.emotion import Outcome

Row = dict[str, Any]
ChatRow = dict[str, str]
"""One message: role and content."""
_FROM = {"assistant": "gpt", "user": "human", "system": "system"}


def build_openai_rows(records: Sequence[Record], system: str | None) -> Iterator[Row]:
    """A row a dialogue: `messages`, as OpenAI's fine-tuning and most trainers take them."""
    for record in records:
        yield {
            "messages": _list_all_messages(record, system),
            "metadata": build_episode_metadata(record),
        }


def build_sharegpt_rows(records: Sequence[Record], system: str | None) -> Iterator[Row]:
    """A row a dialogue: `conversations` of `from` (human, gpt) and `value`."""
    for record in records:
        said = [
            {"from": _FROM[message["role"]], "value": message["content"]}
            for message in _list_all_messages(record, system)
        ]
        yield {"conversations": said, "metadata": build_episode_metadata(record)}


def build_sft_rows(
    records: Sequence[Record], system: str | None, *, last: bool = False
) -> Iterator[Row]:
    """A row a reply that was answered, or only for the `last` one of a dialogue."""
    for record in records:
        episode = record.episode
        whole = build_episode_metadata(record)
        del whole["turns"], whole["last_reply"]
        for number in range(len(episode.turns) - 1 if last else 0, len(episode.turns)):
            turn = episode.turns[number]
            if turn.outcome is not Outcome.FAILED:
                yield {
                    "prompt": list_messages_before(record, number, system),
                    "completion": [{"role": "assistant", "content": turn.utterance}],
                    "metadata": {
                        **whole,
                        "turn": number + 1,
                        **_format_appraisal_columns(turn),
                        "reply": turn.reply,
                    },
                }


def list_messages_before(record: Record, turn: int, system: str | None) -> list[ChatRow]:
    """The messages before the agent's utterance number `turn`, counted from 0."""
    episode = record.episode
    dialogue = Dialogue(episode.opening, episode.turns[:turn])
    first = [{"role": "system", "content": system}] if system else []
    return first + [message.to_chat() for message in dialogue.messages()]


def build_episode_metadata(record: Record) -> Row:
    """Everything of an episode's record but what was said up to the last reply."""
    episode = record.episode
    facts = episode._asdict()
    del facts["opening"], facts["turns"]
    return {
        "run": record.run,
        **({"split": record.split} if record.split else {}),
        **facts,
        "valid": episode.outcome is not Outcome.FAILED,
        "outcome": episode.outcome,
        "final": episode.final,
        "return": float(episode.total_reward),
        "turns": [_format_appraisal_columns(turn) for turn in episode.turns],
        "last_reply": episode.turns[-1].reply,
    }


def _list_all_messages(record: Record, system: str | None) -> list[ChatRow]:
    last = record.episode.turns[-1].utterance
    return [
        *list_messages_before(record, len(record.episode.turns) - 1, system),
        {"role": "assistant", "content": last},
    ]


def _format_appraisal_columns(turn: Turn) -> Row:
    felt = turn.appraisal
    return {
        "change": felt.change,
        "emotion": turn.emotion,
        "reward": turn.reward,
        "thought": felt.thought,
        "reasons": [reason._asdict() for reason in felt.reasons],
        **({} if felt.spread is None else {"spread": float(felt.spread)}),
    }
