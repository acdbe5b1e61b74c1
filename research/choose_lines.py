"""Fit what speaks for a topic of a card as the answer to a question, and say how often the right one
is chosen.

python research/choose_lines.py

Of train people: ways of asking for facts, a fourth of each kept from the card; sentences of the
recogniser's corpus that ask what a card answers by label (what is recognised of them is blurred, as
it was fitted to them); and questions about other stories, to which nothing is right. Prints the
weights of `rlver_gym/users/embedded/retrieval.json`. Four were then moved by the "seen" half of
`benchmarks/questions`, as blurring is not enough: `label` to three quarters, `person` 1.0 lower,
`inquiry` and none of them 0.5 lower.
"""

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.inquiries import Inquiry
from rlver_gym.core.persona import Fact, Persona
from rlver_gym.library.personas import library
from rlver_gym.users.embedded.compile import compile_card
from rlver_gym.users.embedded.recall import Moment, recall
from rlver_gym.users.embedded.retrieve import FACTUAL, WEIGHTS, find_whom, score_topics

NAMES = tuple(WEIGHTS)
SCORED, KINDS = NAMES[:5], NAMES[6:]
"""Features that the scorer works out, and kinds of topics; between them, that it is of another."""
CORPUS = Path(__file__).parents[1] / "benchmarks" / "recogniser"
FOLDS, BLUR, RIDGE = 4, 0.7, 1e-3
FACTS, ASKED, ABOUT_OTHERS, STRANGE = 50, 12, 6, 12
"""Questions of each sort for a card."""
LEAN = 3
"""Of lean cards, every so many."""
_BROAD = {"more", "about_you", "happened", "hear_me", "listen"}
_NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][a-z]{2,}\b")


def leave_out(persona: Persona, fold: int) -> Persona:
    """The persona without a fourth of the ways of asking for each fact."""

    def cut(facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
        return tuple(
            fact.model_copy(
                update={
                    "asked": tuple(way for at, way in enumerate(fact.asked) if at % FOLDS != fold)
                }
            )
            for fact in facts
        )

    person = persona.person.model_copy(update={"facts": cut(persona.person.facts)})
    situation = persona.situation.model_copy(update={"facts": cut(persona.situation.facts)})
    return persona.model_copy(update={"person": person, "situation": situation})


def read_corpus() -> list[tuple[str, str]]:
    rows = [
        line.partition("\t")[::2]
        for path in sorted(CORPUS.glob("*.tsv"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    return [(label, text) for label, text in rows if text]


def list_questions(
    chance: random.Random, persona: Persona, fold: int, others: list[Persona]
) -> Iterator[tuple[str, tuple[str, str] | None]]:
    """Questions with the kind and key of the topic that answers, None for none."""
    facts = (*persona.situation.facts, *persona.person.facts)
    ways = [(way, ("fact", fact.id)) for fact in facts for way in fact.asked[fold::FOLDS] if way]
    yield from chance.sample(ways, min(FACTS, len(ways)))
    labels = {str(label) for label in persona.situation.answers} & {str(one) for one in Inquiry}
    rows = [(text, ("inquiry", label)) for label, text in read_corpus() if label in labels - _BROAD]
    yield from chance.sample(rows, min(ASKED, len(rows)))
    names = list(persona.situation.about_people)
    rows = [row for row in read_corpus() if row[0].startswith("p_") and _NAME.search(row[1])]
    for label, text in chance.sample(rows, ABOUT_OTHERS if names else 0):
        yield _NAME.sub(chance.choice(names), text), ("person", label)
    for other in chance.sample(others, STRANGE):
        if other.situation.id != persona.situation.id:
            yield chance.choice(chance.choice(other.situation.facts).asked), None


def measure(moment: Moment) -> np.ndarray | None:
    """Of the last sentence, features × topics: what the scorer gives with one weight at a time."""
    heard, card = moment.heard, moment.card
    if not heard.sentences or not heard.sentences[-1].ask:
        return None
    at, kept = len(heard.sentences) - 1, dict(WEIGHTS)
    heard.labels[at] = (row := heard.labels[at] ** BLUR) / row.sum()
    rows = []
    for name in (None, *SCORED):
        WEIGHTS.update({other: float(other == name) for other in SCORED})
        rows.append(score_topics(moment, heard, at))
    WEIGHTS.update(kept)
    whom, kinds = find_whom(moment, heard.sentences[at].words), [one.kind for one in card.topics]
    of_kind = [[float(one == kind) for one in kinds] for kind in KINDS]
    others = [
        float(one.whom not in ("", whom) or (one.is_personal and whom != "")) for one in card.topics
    ]
    return np.array([*[row - rows[0] for row in rows[1:]], others, *of_kind])


def fit(examples: list[tuple[np.ndarray, int | None, bool]]) -> tuple[np.ndarray, np.ndarray]:
    """A softmax over the topics of each card and none of them; what speaks for none, and what more
    of a question for a fact.
    """
    width = max(rows.shape[1] for rows, _, _ in examples)
    inputs = np.zeros((len(examples), width, len(NAMES)), np.float32)
    is_topic, right = np.zeros(inputs.shape[:2], bool), np.full(len(examples), width)
    for at, (rows, topic, _) in enumerate(examples):
        inputs[at, : rows.shape[1]], is_topic[at, : rows.shape[1]] = rows.T, True
        right[at] = width if topic is None else topic
    none = np.array([[1.0, float(is_factual)] for *_, is_factual in examples], np.float32)
    given, masked, aim = torch.tensor(inputs), torch.tensor(~is_topic), torch.tensor(right)
    weights = torch.zeros(len(NAMES), requires_grad=True)
    of_none = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, of_none], max_iter=100, line_search_fn="strong_wolfe")

    def compute_loss() -> torch.Tensor:
        optimizer.zero_grad()
        topics = (given @ weights).masked_fill(masked, -1e9)
        logits = torch.cat([topics, (torch.tensor(none) @ of_none)[:, None]], 1)
        loss = torch.nn.functional.cross_entropy(logits, aim) + RIDGE * (weights**2).sum()
        loss.backward()
        return loss

    optimizer.step(compute_loss)  # pyright: ignore[reportArgumentType]
    return weights.detach().numpy(), of_none.detach().numpy()


def main() -> None:
    chance = random.Random(5)
    lean = library("library")
    people = [library().get(one) for one in library().ids("train")]
    people += [lean.get(one) for one in lean.ids("train")[::LEAN]]
    people = list({persona.situation.id: persona for persona in people}.values())
    examples, held_out = [], []
    for number, persona in enumerate(people):
        fold = number % FOLDS
        card = compile_card(leave_out(persona, fold))
        topics = {(topic.kind, topic.key): at for at, topic in enumerate(card.topics)}
        for text, answer in list_questions(chance, persona, fold, people):
            dialogue = Dialogue(persona.situation.openings.normal).with_utterance(f"{text}?")
            [moment] = recall([(card, dialogue)])
            rows = measure(moment)
            if rows is not None and (answer is None or answer in topics):
                example = rows, topics[answer] if answer else None, is_factual(moment)
                (held_out if number % 5 == 0 else examples).append(example)
    weights, of_none = fit(examples)
    right = [
        int((weights @ rows).argmax()) == topic
        if topic is not None
        else (weights @ rows).max() < of_none @ [1.0, float(factual)]
        for rows, topic, factual in held_out
    ]
    print(f"{len(examples)} questions; of {len(held_out)} of others {np.mean(right):.0%} right")
    print({name: round(float(value), 1) for name, value in zip(NAMES, weights, strict=True)})
    print("none, and more of it for a fact:", of_none.round(1).tolist())


def is_factual(moment: Moment) -> bool:
    return moment.heard.sentences[-1].ask in FACTUAL


if __name__ == "__main__":
    main()
