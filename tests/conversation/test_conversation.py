"""What the person takes in and answers: the parse, the answers from the card, corrections,
introductions, and the measure of all that.
"""

import json
from pathlib import Path

import pytest
from commands import run_command

from rlver_gym.conversation.claims import Fault, check_claim
from rlver_gym.conversation.find import find_answer, make_query
from rlver_gym.conversation.knowledge import knowledge
from rlver_gym.conversation.measure import (
    measure_dialogue,
    measure_shared_sentences,
    shared_sentence_rate,
)
from rlver_gym.conversation.parse import Act, QuestionKind, parse_utterance
from rlver_gym.conversation.recognise import SentenceInput, classify
from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Turn
from rlver_gym.core.inquiries import Feeling, Inquiry, InquiryAboutOther, Remark
from rlver_gym.core.library import library
from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.environment.session import EmpathySession
from rlver_gym.text.feelings import feelings_in
from rlver_gym.text.names import introduce, remove_introductions
from rlver_gym.text.tokens import Amount, amounts_of
from rlver_gym.users import EmbeddedUser

NADIA = library().get("nadia-after-the-crash")
OWEN = library().get("owen-credit-taken")


def reply(
    words: str, persona_id: str = NADIA.id, before: tuple[str, ...] = (), seed: int = 0
) -> Turn:
    session = EmpathySession(
        EmbeddedUser(), library().get(persona_id), env_card("SAGE-Sentient-v0"), seed
    )
    session.start()
    for earlier in before:
        session.reply(earlier)
    return session.reply(words)


def texts(persona_id: str, *ids: str) -> list[str]:
    return [
        text
        for entry in knowledge(library().get(persona_id)).entries
        if entry.id in ids
        for text in entry.texts
    ]


@pytest.mark.parametrize(
    ("text", "ask", "words"),
    [
        ("Where did she go?", QuestionKind.WHERE, "where did she go"),
        ("where do you live", QuestionKind.WHERE, "where do you live"),
        (
            "I'm so sorry. Can I ask how long you were together?",
            QuestionKind.HOW_LONG,
            "how long you were together",
        ),
        ("I wonder what your mother said.", QuestionKind.WHAT, "what your mother said"),
        ("Have you told anybody?", QuestionKind.YES_NO, "have you told anybody"),
        ("Did you eat today", QuestionKind.YES_NO, "did you eat today"),
        ("Tell me about your sister.", QuestionKind.TELL_MORE, "your sister"),
        ("By when do you have to answer?", QuestionKind.WHEN, "by when do you have to answer"),
    ],
)
def test_a_question_is_heard_wherever_it_stands(text: str, ask: QuestionKind, words: str) -> None:
    (question,) = parse_utterance(text).questions
    assert (question.kind, " ".join(question.words)) == (ask, words)


@pytest.mark.parametrize(
    "text",
    [
        "What you need is rest.",
        "When you held her, that was brave.",
        "That must be hard.",
        "What a week.",
        "Could you write to her?",
        "How about a walk?",
    ],
)
def test_what_asks_nothing_is_no_question(text: str) -> None:
    assert not parse_utterance(text).questions


def test_a_guess_is_a_question_and_a_claim() -> None:
    parsed = parse_utterance("So Maud is your sister, right?")
    assert parsed.questions[0].is_guess
    assert parsed.claims[0].names == ("maud",)


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ("Hello there!", Act.GREETS),
        ("Thanks for telling me that.", Act.THANKS),
        ("Sorry, that came out wrong.", Act.APOLOGISES),
        ("I have to go now, good night.", Act.FAREWELL),
        ("PULL YOURSELF TOGETHER NOW", Act.SHOUTS),
        ("Es tut mir so leid für dich", Act.FOREIGN),
        ("我很难过", Act.FOREIGN),
        ("   ", Act.SILENCE),
        ("/help", Act.COMMAND),
        ("You are such a coward.", Act.INSULTS),
    ],
)
def test_what_is_done_with_words_is_heard(text: str, act: Act) -> None:
    assert act in parse_utterance(text).acts


def test_amounts_are_read_with_what_they_count() -> None:
    assert Amount(23.0, "day") in amounts_of(split_words("twenty-three days"))
    assert Amount(4200.0, "euro") in amounts_of(split_words("four thousand two hundred euros"))
    assert Amount(1.0, "week") in amounts_of(split_words("a week on trial"))
    assert Amount(7.0, "photo") in amounts_of(split_words("photo seven"))


@pytest.mark.parametrize(
    ("question", "ids"),
    [
        ("Who drove the van?", ("who-is-pell",)),
        ("How long is the detour?", ("detour",)),
        ("What did Mr. Pell write to you?", ("pells-letter",)),
        ("Which car have you got now?", ("the-car",)),
    ],
)
def test_a_question_finds_the_fact_that_answers_it(question: str, ids: tuple[str, ...]) -> None:
    known = knowledge(NADIA)
    found = find_answer(known, make_query(known, parse_utterance(question).questions[0], ())).match
    assert found is not None
    assert found.entry.id in ids


@pytest.mark.parametrize(
    ("claim", "fault"),
    [
        ("Maud is your aunt.", Fault.RELATION),
        ("I think Saskja must be in pain.", Fault.NAME),
        ("You held her head for nine minutes until the ambulance came.", Fault.AMOUNT),
        ("You held her head for nineteen minutes until the ambulance came.", None),
        ("Maud is Saskia's sister.", None),
        ("That must be so hard for you.", None),
    ],
)
def test_a_claim_is_checked_against_the_card(claim: str, fault: Fault | None) -> None:
    assert check_claim(knowledge(NADIA), parse_utterance(claim).claims[0]).fault is fault


def test_the_answer_to_a_question_comes_from_the_facts() -> None:
    said = remove_introductions(NADIA.situation, reply("Who drove the van?").reply)
    assert any(split_sentences(text)[0] in said for text in texts(NADIA.id, "who-is-pell"))


def test_what_nobody_can_know_is_declined_in_their_own_words() -> None:
    said = reply("What is the capital of Mongolia?").reply
    assert any(line in said for line in NADIA.person.manner.unknown)


def test_a_wrong_number_is_put_right() -> None:
    said = reply("You held her head for nine minutes until the ambulance came.").reply
    assert said.startswith(NADIA.person.manner.corrects)
    assert "nineteen" in said.casefold()


def test_a_wrong_relation_is_put_right_by_who_they_are() -> None:
    said = reply("So Maud is your aunt?").reply
    assert "Maud is Saskia's sister." in remove_introductions(NADIA.situation, said)


def test_a_question_asked_again_is_answered_shorter_and_says_so() -> None:
    asked = "How long is the detour?"
    said = reply(asked, before=(asked, asked)).reply
    assert said.startswith(tuple(frame.rstrip(",:.") for frame in NADIA.person.manner.asked_again))


def test_an_insult_gets_no_confession() -> None:
    said = reply("You are such a coward.").reply
    assert said in NADIA.person.manner.hurt


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("What has been the hardest part of it for you?", Inquiry.HARDEST),
        ("How are you sleeping?", Inquiry.SLEEP),
        ("Have you told anyone about it?", Inquiry.TOLD),
        ("What would you like from me?", Inquiry.HEAR_ME),
        ("I'm so sorry, that's awful.", Remark.SYMPATHY),
        ("You don't have to answer that.", Remark.PERMIT),
        ("As an AI language model, I can't feel.", Remark.MACHINE),
        ("What do you wish Yusuf knew?", f"p_{InquiryAboutOther.SAY}"),
    ],
)
def test_what_a_sentence_asks_or_does_is_recognised(text: str, label: str) -> None:
    (found,) = classify([SentenceInput(split_words(text), text.endswith("?"))], {"yusuf"})
    assert found.label == label
    assert sum(probability for _, probability in found.ranked) <= 1 + 1e-9
    assert [share for _, share in found.ranked] == sorted(
        (share for _, share in found.ranked), reverse=True
    )


def test_sentences_are_recognised_alike_alone_and_together() -> None:
    spoken = [
        SentenceInput(split_words(text), True)
        for text in ("How are you sleeping?", "Who knows?", "xyzzy")
    ]
    together = classify(spoken)
    assert [one.label for one in together] == [classify([one])[0].label for one in spoken]


@pytest.mark.parametrize(
    ("text", "feelings"),
    [
        ("You must be furious and so alone.", (Feeling.ANGRY, Feeling.LONELY)),
        ("Do you miss him?", (Feeling.MISSING,)),
        ("Miss Okafor marked it.", ()),
        ("He went down the stairs.", ()),
    ],
)
def test_feelings_are_heard_where_they_are_named(text: str, feelings: tuple[Feeling, ...]) -> None:
    assert feelings_in(split_words(text)) == feelings


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("What's been the hardest part?", "hardest"),
        ("How are you sleeping?", "sleep"),
        ("Have you told anybody about it?", "told"),
        ("What are you most afraid of?", "afraid"),
    ],
)
@pytest.mark.parametrize("persona_id", [NADIA.id, OWEN.id, "mei-the-retake", "leon-group-chat"])
def test_what_anybody_may_ask_is_answered_from_the_card(
    persona_id: str, words: str, kind: str
) -> None:
    persona = library().get(persona_id)
    situation = persona.situation
    said = remove_introductions(situation, reply(words, persona_id).reply).casefold()
    facts = [text for fact in (*situation.facts, *persona.person.facts) for text in fact.answers]
    told = [*situation.answers[Inquiry(kind)], *facts]
    assert any(split_sentences(line)[-1].casefold() in said for line in told)


def test_a_suggestion_is_answered_with_what_they_say_to_that_suggestion() -> None:
    said = remove_introductions(
        NADIA.situation, reply("Maybe you could write her a letter.").reply
    ).casefold()
    replies = [line for one in NADIA.situation.suggestions for line in one.reply]
    assert any(split_sentences(line)[-1].casefold() in said for line in replies)


def test_who_asks_to_go_on_is_told_the_next_piece() -> None:
    said = remove_introductions(NADIA.situation, reply("Tell me more.").reply)
    told = [
        item.in_tone(tone)
        for item in NADIA.situation.disclosures
        for tone in ("high", "normal", "low")
    ]
    assert any(split_sentences(line)[0].casefold() in said.casefold() for line in told)


def test_nobody_seems_in_danger_who_was_asked_where_it_hurts() -> None:
    safe = {
        line
        for lines in (OWEN.person.answers[Inquiry.SAFE], NADIA.person.answers[Inquiry.SAFE])
        for line in lines
    }
    for persona_id in (OWEN.id, NADIA.id):
        assert not any(line in reply("Where does it hurt most?", persona_id).reply for line in safe)
    asked = reply("Do you think of ending your life?", OWEN.id).reply
    assert any(split_sentences(line)[0] in asked for line in OWEN.person.answers[Inquiry.SAFE])


def test_a_person_without_facts_and_answers_still_talks() -> None:
    bare = NADIA.situation.model_copy(
        update={
            "facts": (),
            "answers": {},
            "about_people": {},
            "feelings": {},
            "suggestions": (),
            "threads": (),
        }
    )
    persona = NADIA.model_copy(update={"situation": bare})
    session = EmpathySession(EmbeddedUser(), persona, env_card("SAGE-Sentient-v0"), 0)
    session.start()
    for words in (
        "What hurts most?",
        "Maybe you could rest.",
        "Tell me more.",
        "Are you angry?",
        "I'm so sorry.",
    ):
        assert session.reply(words).reply


@pytest.mark.parametrize("persona_id", library().ids())
def test_the_shipped_cards_can_be_asked(persona_id: str) -> None:
    persona = library().get(persona_id)
    assert len(persona.situation.facts) >= 30
    assert len(persona.person.facts) >= 12
    assert len(persona.situation.answers) >= 50
    assert {other.name for other in persona.situation.people} == set(persona.situation.about_people)
    assert set(persona.situation.feelings) == set(Feeling)
    assert len(persona.person.manner.openers) >= 6
    assert len(persona.person.manner.tags) >= 6


def test_somebody_is_introduced_once() -> None:
    situation = NADIA.situation
    assert (
        introduce(situation, "Saskia broke her wrist.", "I was in a crash.")
        == "My friend Saskia broke her wrist."
    )
    assert (
        introduce(situation, "Saskia broke her wrist.", "My friend Saskia.")
        == "Saskia broke her wrist."
    )
    assert (
        remove_introductions(situation, "My friend Saskia broke her wrist.")
        == "Saskia broke her wrist."
    )


def test_the_answer_depends_on_what_was_said_and_on_the_seed() -> None:
    words = ("That must have been hard.", "It sounds lonely.", "I'm listening.")
    assert len({reply(one).reply for one in words}) > 1
    assert len({reply(words[0], seed=seed).reply for seed in range(6)}) > 1


def test_the_measure_counts_what_was_asked_answered_and_corrected() -> None:
    session = EmpathySession(EmbeddedUser(), OWEN, env_card("SAGE-Sentient-v0"), 0)
    session.start()
    for words in ("Who's Gareth?", "What is the capital of Mongolia?", "Shirin is your boss."):
        session.reply(words)
    found = measure_dialogue(OWEN, session.dialogue)
    assert (found.questions, found.answered, found.declined, found.missed) == (2, 1, 1, 0)
    assert (found.mistakes, found.corrected) == (1, 1)
    assert found.repeated == 0
    assert found.strangers == 0


def test_a_person_who_answers_nothing_is_found_out() -> None:
    session = EmpathySession(EmbeddedUser(), OWEN, env_card("SAGE-Sentient-v0"), 0)
    session.start()
    turn = session.reply("Who's Gareth?")._replace(reply="It rained all day.")
    dialogue = session.dialogue
    counted = measure_dialogue(OWEN, type(dialogue)(dialogue.opening, (turn,)))
    assert (counted.questions, counted.answered, counted.missed) == (1, 0, 1)


def test_sentences_in_common_are_counted_by_content_words() -> None:
    one = ["The van hit us at the junction.", "I sing alto in a choir."]
    assert shared_sentence_rate(one, one) == 1.0
    assert (
        shared_sentence_rate(
            one, ["At the junction the van hit us.", "Nobody knows about the letter."]
        )
        == 0.5
    )
    assert shared_sentence_rate(one, ["Nobody knows about the letter."]) == 0.0


def test_the_pair_with_most_in_common_is_named() -> None:
    van, letter, choir = (
        "The van hit us at the junction.",
        "Nobody knows about the letter.",
        "I sing alto in a choir.",
    )
    found = measure_shared_sentences(
        [
            {"a": [van, letter], "b": [van, choir], "c": [letter]},
            {"d": [van], "e": [choir]},
            {"f": [van]},
        ]
    )
    assert found is not None
    assert (found.most, found.pair) == (0.75, ("a", "c"))
    assert found.mean == pytest.approx(((0.5 + 0.75 + 0) / 3 + 0) / 2)
    assert measure_shared_sentences([{"f": [van]}]) is None


def test_the_command_prints_the_shares(finished: Path) -> None:
    printed = run_command("conversation", str(finished)).stdout
    assert "answered" in printed
    assert "listener" in printed
    assert "at most" in printed
    found = json.loads(run_command("conversation", str(finished), "--json").stdout)
    assert found["agents"]["listener"]["questions"] > 0
    assert all(one["repeated"] == 0 for one in found["agents"].values())


@pytest.mark.parametrize(
    ("persona_id", "question", "says"),
    [
        ("marcus-sunday-lunch", "What's his name?", "My partner Rhys."),
        ("marcus-sunday-lunch", "Can I ask what your partner's name is?", "My partner Rhys."),
        ("marcus-sunday-lunch", "What is your boyfriend called?", "My partner Rhys."),
        ("marcus-sunday-lunch", "And what's his mother's name?", "My partner's mother Gwen."),
        (
            "marcus-sunday-lunch",
            "Can I ask your name, and would you mind telling me his name?",
            "I'm Marcus.",
        ),
        ("petra-the-parents-house", "What's his name?", "I just call him Dad."),
        ("grace-the-screenshots", "What's your name, if you don't mind?", "I'm Grace."),
    ],
)
def test_who_is_asked_for_a_name_says_it(persona_id: str, question: str, says: str) -> None:
    assert says.casefold() in reply(question, persona_id).reply.casefold()


def test_a_name_that_no_card_has_is_kept_back_and_not_made_another_s() -> None:
    manner = library().get("marcus-sunday-lunch").person.manner
    answer = reply("What is your dog's name?", "marcus-sunday-lunch").reply
    assert any(line in answer for line in manner.not_yet)
    assert any(
        line in reply("Where were you born?", "marcus-sunday-lunch").reply
        for line in manner.not_yet
    ), "nobody does not know that"


def test_a_name_that_was_asked_for_twice_is_said_twice() -> None:
    first = reply("What's his name?", "marcus-sunday-lunch", before=("What's his name?",))
    assert "Rhys" in first.reply


@pytest.mark.parametrize(
    ("persona_id", "question"),
    [
        ("dario-after-the-crash", "Have you eaten?"),
        ("samuel-moved-for-them", "Are you angry, or more sad?"),
        ("joon-the-parents-house", "Would he let you in, do you think?"),
        ("clara-mothers-diagnosis", "Do you live with her or elsewhere?"),
        ("petra-the-screenshots", "Is it for a home with Maren?"),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_no_yes_stands_before_an_answer_to_something_else(
    persona_id: str, question: str, seed: int
) -> None:
    yes = library().get(persona_id).person.manner.yes
    assert not reply(question, persona_id, seed=seed).reply.startswith(yes)


def test_a_yes_stands_before_an_answer_that_says_what_was_asked() -> None:
    answers = [
        reply("Are you in nursing?", "grace-mothers-diagnosis", seed=seed).reply
        for seed in range(8)
    ]
    yes = library().get("grace-mothers-diagnosis").person.manner.yes
    assert any(any(line in answer for line in yes) for answer in answers)
    assert all("it was" not in answer.casefold() for answer in answers)
