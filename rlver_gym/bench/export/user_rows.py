"""What was felt, in the form in which the LLM user asks and is answered: for models that are to
stand in the person's place.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from rlver_gym.bench.export.rows import Row
from rlver_gym.bench.export.select_dialogues import Record
from rlver_gym.core.cards import EnvCard, env_card
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.emotion import Outcome
from rlver_gym.core.user import Scene
from rlver_gym.library.personas import library
from rlver_gym.users.llm import LLMOptions, RequestBuilder
from rlver_gym.util.errors import RunError


def build_user_rows(
    records: Sequence[Record],
    personas: str | None,
    cards: Mapping[str, EnvCard] = MappingProxyType({}),
    *,
    last: bool = False,
) -> Iterator[Row]:
    """A row a reply, or only for the `last` one of a dialogue: `messages` ends with the person's
    thought and the change. The checks that come before them in an LLM user's answer nobody made.
    `cards`: of each run.
    """
    shelf = library(personas)
    for record in records:
        episode = record.episode
        if personas is None and record.split is None:
            raise RunError(
                f"the card of {episode.persona}, on which its rows stand, is the run's own. Name"
                " the folder: --personas DIR"
            )
        card = cards.get(record.run) or env_card(episode.env)
        if card.hash != episode.env_hash:
            raise RunError(
                f"{record.run}: was held with another env card than this {card.id}. Name its file:"
                " --env CARD.yaml"
            )
        scene = Scene(shelf.get(episode.persona), card, episode.seed)
        builder, dialogue = RequestBuilder("", LLMOptions(), scene), Dialogue(episode.opening)
        emotion = episode.start
        for number, turn in enumerate(episode.turns, 1):
            before, emotion = emotion, turn.emotion
            said, felt = dialogue.with_utterance(turn.utterance), turn.appraisal
            dialogue = said.with_turn(turn._replace(outcome=None))
            if turn.outcome is Outcome.FAILED or (last and number < len(episode.turns)):
                continue
            asked = builder.build("appraise", before, said).messages
            answer = {"thought": felt.thought, "change": felt.change}
            messages = [{"role": line.role, "content": line.content} for line in asked]
            told = json.dumps(answer, ensure_ascii=False)
            yield {
                "messages": [*messages, {"role": "assistant", "content": told}],
                "metadata": {
                    "agent": episode.agent,
                    "persona": episode.persona,
                    "split": record.split,
                    "turn": number,
                    "user": episode.user,
                    "user_version": episode.user_version,
                },
            }
