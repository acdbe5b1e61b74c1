"""What the person takes in and answers: questions, answers from the card, corrections,
introductions.
"""

import pytest
from rlver_gym.users.embedded.hearing.choices import find_choices, join_choices
from rlver_gym.users.embedded.hearing.feelings import find_feelings
from rlver_gym.users.embedded.hearing.names import add_introductions, remove_introductions
from rlver_gym.users.embedded.hearing.quantities import find_quantities
from rlver_gym.users.embedded.hearing.recognise import SentenceInput, classify_sentences
from rlver_gym.users.embedded.hearing.utterance_parser import Act, Ask, parse_utterance
from rlver_gym.users.embedded.speech.card import compile_card
from rlver_gym.users.embedded.speech.moment import Moment
from rlver_gym.users.embedded.speech.speak import PHRASES

from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Appraisal, Dialogue, Turn
from rlver_gym.core.inquiries import Feeling, Inquiry, Remark
from rlver_gym.core.library import library
from rlver_gym.core.persona import Disposition
from rlver_gym.core.user import Scene
from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.environment.session import EmpathySession
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
        line
        for topic in compile_card(library().get(persona_id)).topics
        if topic.key in ids
        for line in topic.lines
    ]


@pytest.mark.parametrize(
    ("text", "ask", "words"),
    [
        ("Where did she go?", Ask.WHERE, "where did she go"),
        ("where do you live", Ask.WHERE, "where do you live"),
        (
            "I'm so sorry. Can I ask how long you were together?",
            Ask.HOW_LONG,
            "how long you were together",
        ),
        ("I wonder what your mother said.", Ask.WHAT, "what your mother said"),
        ("Have you told anybody?", Ask.YES_NO, "have you told anybody"),
        ("Did you eat today", Ask.YES_NO, "did you eat today"),
        ("Tell me about your sister.", Ask.ABOUT, "your sister"),
        ("By when do you have to answer?", Ask.WHEN, "by when do you have to answer"),
    ],
)
def test_a_question_is_heard_wherever_it_stands(text: str, ask: Ask, words: str) -> None:
    (question,) = parse_utterance(text).questions
    assert (question.ask, " ".join(question.asked)) == (ask, words)


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
    (question,) = parse_utterance("So Maud is your sister, right?").questions
    assert question.is_guess
    assert question.ask is Ask.YES_NO


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


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("twenty-three days", 23.0, "day"),
        ("four thousand two hundred euros", 4200.0, "euro"),
        ("one thousand four hundred and forty euros", 1440.0, "euro"),
        ("a week on trial", 1.0, "week"),
        ("two and a half months", 2.5, "month"),
    ],
)
def test_numbers_are_read_with_what_they_count(text: str, value: float, unit: str) -> None:
    (found,) = find_quantities(split_words(text))
    assert (found.value, found.unit) == (value, unit)


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
    card = compile_card(NADIA)
    shares, _ = card.probabilities(card.query(parse_utterance(question).questions[0]))
    assert card.topics[int(shares.argmax())].key in ids


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


def test_a_question_asked_again_gets_other_words_and_no_sentence_twice() -> None:
    asked = "How long is the detour?"
    said = [reply(asked, before=(asked,) * count).reply for count in range(4)]
    sentences = [one for line in said for one in split_sentences(line) if len(one.split()) > 3]
    assert len(sentences) == len(set(sentences))
    assert any(split_sentences(text)[0] in said[1] for text in texts(NADIA.id, "detour"))


@pytest.mark.parametrize(
    "words",
    [
        "Would you like advice, or should I just listen?",
        "Do you want some ideas, or would you rather just be heard?",
        "What would you like from me?",
        "Would you rather I listened or gave you some ideas?",
        "Should I just listen, or do you want my opinion?",
    ],
)
@pytest.mark.parametrize("persona_id", [NADIA.id, OWEN.id, "mei-the-retake", "noor-the-flatmate"])
def test_who_asks_for_advice_or_an_ear_is_told_by_the_need(persona_id: str, words: str) -> None:
    persona = library().get(persona_id)
    is_veiled = persona.person.disposition is Disposition.AVOIDANT
    wanted = PHRASES["preference_veiled" if is_veiled else "preference"][persona.need]
    assert any(line in reply(words, persona_id).reply for line in wanted)


def test_who_asks_what_they_mean_hears_more_about_their_last_line() -> None:
    before = ("Who drove the van?",)
    said = reply("What do you mean by that?", before=before).reply
    assert (
        any(
            split_sentences(text)[0] in remove_introductions(NADIA.situation, said)
            for text in texts(NADIA.id, "who-is-pell", "pells-letter", "pell")
        )
        or "Pell" in said
    )
    assert not any(line in said for line in NADIA.person.manner.unknown)


def test_two_questions_in_one_get_both_answers() -> None:
    said = reply("Who is on the lease, and how much does she owe you?", "noor-the-flatmate").reply
    assert "lease" in said
    assert "four hundred and forty" in said or "fourteen hundred" in said.casefold()


@pytest.mark.parametrize(
    ("persona_id", "question", "says"),
    [
        ("noor-the-flatmate", "What do you do for work?", "cinema"),
        ("noor-the-flatmate", "How old are you?", "twenty-five"),
        ("noor-the-flatmate", "Where do you live?", "flat"),
        ("noor-the-flatmate", "Can I ask what your name is?", "Noor"),
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
        ("zoe-lab-report", "Are you angry, or more sad?", "angry"),
        ("zoe-lab-report", "Do you work or are you a student?", "school"),
        ("mei-phone-in-drawer", "Did you shout, or did you walk away?", "shout"),
    ],
)
def test_what_they_know_of_themselves_and_the_one_of_two_things_is_told(
    persona_id: str, question: str, says: str
) -> None:
    assert says.casefold() in reply(question, persona_id).reply.casefold()


@pytest.mark.parametrize(
    ("persona_id", "before", "question", "says"),
    [
        ("noor-the-flatmate", "What does she owe you?", "Sorry, who do you mean?", "flatmate"),
        ("marcus-sunday-lunch", "What's his name?", "What's his name?", "Rhys"),
    ],
)
def test_whom_they_mean_is_said_when_asked_and_a_name_twice(
    persona_id: str, before: str, question: str, says: str
) -> None:
    assert says in reply(question, persona_id, before=(before,)).reply


def test_an_insult_gets_no_confession() -> None:
    said = reply("You are such a coward.").reply
    assert said in NADIA.person.manner.hurt


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("What has been the hardest part of it for you?", Inquiry("hardest")),
        ("How are you sleeping?", Inquiry("sleep")),
        ("Have you told anyone about it?", Inquiry("told")),
        ("What would you like from me?", Inquiry("hear_me")),
        ("I'm so sorry, that's awful.", Remark("sympathy")),
        ("You don't have to answer that.", Remark("permit")),
        ("As an AI language model, I can't feel.", Remark("machine")),
        ("What do you wish Yusuf knew?", "p_say"),
    ],
)
def test_what_a_sentence_asks_or_does_is_recognised(text: str, label: str) -> None:
    (found,) = classify_sentences([SentenceInput(split_words(text), text.endswith("?"))], {"yusuf"})
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
    together = classify_sentences(spoken)
    assert [one.label for one in together] == [classify_sentences([one])[0].label for one in spoken]


@pytest.mark.parametrize(
    ("text", "feelings"),
    [
        ("You must be furious and so alone.", (Feeling("angry"), Feeling("lonely"))),
        ("Do you miss him?", (Feeling("missing"),)),
        ("Miss Okafor marked it.", ()),
        ("He went down the stairs.", ()),
    ],
)
def test_feelings_are_heard_where_they_are_named(text: str, feelings: tuple[Feeling, ...]) -> None:
    assert find_feelings(split_words(text)) == feelings


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
        for lines in (OWEN.person.answers[Inquiry("safe")], NADIA.person.answers[Inquiry("safe")])
        for line in lines
    }
    for persona_id in (OWEN.id, NADIA.id):
        assert not any(line in reply("Where does it hurt most?", persona_id).reply for line in safe)
    asked = reply("Do you think of ending your life?", OWEN.id).reply
    assert any(split_sentences(line)[0] in asked for line in OWEN.person.answers[Inquiry("safe")])


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
        add_introductions(situation, "Saskia broke her wrist.", "I was in a crash.")
        == "My friend Saskia broke her wrist."
    )
    assert (
        add_introductions(situation, "Saskia broke her wrist.", "My friend Saskia.")
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


def test_a_name_that_no_card_has_is_kept_back_and_not_made_another_s() -> None:
    manner = library().get("marcus-sunday-lunch").person.manner
    answer = reply("What is your dog's name?", "marcus-sunday-lunch").reply
    assert any(line in answer for line in manner.not_yet)
    assert any(
        line in reply("Where were you born?", "marcus-sunday-lunch").reply
        for line in manner.not_yet
    ), "nobody does not know that"


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


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("Did you shout, or did you walk away?", ("shout", "walk away")),
        ("Are you angry, or more sad?", ("angry", "sad")),
        ("Which is harder now, the guests or the exam?", ("the guests", "the exam")),
        (
            "Do you live with your parents or on your own?",
            ("live with your parents", "on your own"),
        ),
        ("Have you eaten or not?", ()),
        ("Who told you, or did nobody say?", ()),
        ("Is it hurting yourself you mean, or ending your life?", ()),
    ],
)
def test_an_either_or_question_is_heard_with_what_it_offers(
    text: str, offered: tuple[str, ...]
) -> None:
    sentences = join_choices(text, parse_utterance(text).sentences)
    found = next((find_choices(one) for one in sentences if find_choices(one)), ())
    assert tuple(" ".join(words) for words in found) == offered


def test_of_two_things_of_which_the_card_is_silent_neither_is_claimed() -> None:
    said = reply("Do you like opera, or is it folk music?").reply
    assert any(line in said for line in PHRASES["which"])
    assert "blue." not in reply("Was the ambulance blue, or was it striped?").reply


@pytest.mark.parametrize(
    "question",
    [
        "Is it hurting yourself you've thought of, or ending your life?",
        "Was that about hurting yourself?",
    ],
)
def test_who_asks_about_harm_hears_that_they_are_safe(question: str) -> None:
    said = reply(question, OWEN.id).reply
    assert any(split_sentences(line)[0] in said for line in OWEN.person.answers[Inquiry("safe")])


@pytest.mark.parametrize(
    "question", ["How do you know Milan?", "Is Milan your brother or a friend?"]
)
def test_who_somebody_is_to_them_is_never_refused(question: str) -> None:
    said = reply(question, "zoe-lab-report").reply
    assert "bench" in said or "team" in said


def test_and_then_in_a_statement_is_no_invitation_to_go_on() -> None:
    words = "Twenty-two people and a banner, and then you got the mark."
    dialogue = Dialogue("I failed the exam.", (), words)
    moment = Moment(
        Scene(NADIA, env_card("SAGE-Sentient-v0"), 0), 40, dialogue, Appraisal(0, "", ())
    )
    assert not moment.heard.questions


def test_a_number_is_said_where_one_was_asked_for() -> None:
    said = reply("How many of them know by now?", "zoe-the-retake").reply
    assert "three days after the party" not in said
