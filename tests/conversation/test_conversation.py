"""What the person takes in and answers: questions, guesses, suggestions, corrections,
introductions. What is said is asked for through a session, as everybody does.
"""

import pytest

from rlver_gym import EmpathySession, env_card
from rlver_gym.core.inquiries import Feeling, Inquiry
from rlver_gym.core.persona import Disposition
from rlver_gym.core.words import split_sentences
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser
from rlver_gym.users.embedded.hear import hear
from rlver_gym.users.embedded.speak import PHRASES

NADIA = library().get("nadia-after-the-crash")
OWEN = library().get("owen-credit-taken")
TALKS = (NADIA.id, OWEN.id, "mei-the-retake", "leon-group-chat")
ORDINARY = (
    "What happened?", "That sounds hard.", "Who knows about it?", "I'd have been furious.", "Hm.",
    "What did you do then?", "Are you sad?", "What happens next?",
)  # fmt: skip


def get_persona(persona_id):
    shelf = library() if persona_id.split("/")[0] in library().ids() else library("library")
    return shelf.get(persona_id)


def play(persona, *utterances, seed=0):
    """What they answer to each, as far as the dialogue goes."""
    session = EmpathySession(EmbeddedUser(), persona, env_card("SAGE-Sentient-v0"), seed)
    session.start()
    replies = []
    for words in utterances:
        if session.outcome is None:
            replies.append(session.reply(words).reply)
    return replies


def reply(words, persona_id=NADIA.id, before=(), seed=0):
    return play(get_persona(persona_id), *before, words, seed=seed)[-1]


def tells(said, lines, persona=NADIA):
    """Whether a reply has a whole sentence of some lines, however people are named in it."""
    plain = said.casefold()
    for other in persona.situation.people:
        if other.introduction:
            plain = plain.replace(other.introduction.casefold(), other.name.casefold())
    return any(one.casefold() in plain for line in lines for one in split_sentences(line))


def get_answers(persona, *ids):
    facts = (*persona.situation.facts, *persona.person.facts)
    return [
        line
        for fact in facts
        if fact.id in ids
        for line in (*fact.answers, fact.high, fact.low)
        if line
    ]


@pytest.mark.parametrize(
    ("text", "ask"),
    [
        ("Where did she go?", "where"),
        ("where do you live", "where"),
        ("Can I ask how long you were together?", "how long"),
        ("I wonder what your mother said.", "what"),
        ("Have you told anybody?", "yes"),
        ("Did you eat today", "yes"),
        ("Tell me about your sister.", "about"),
        ("By when do you have to answer?", "when"),
        ("So Maud is your sister, right?", "yes"),
        ("What you need is rest.", ""),
        ("When you held her, that was brave.", ""),
        ("That must be hard.", ""),
        ("What a week.", ""),
        ("Could you write to her?", ""),
        ("How about a walk?", ""),
        ("Twenty-two people and a banner, and then you got the mark.", ""),
    ],
)
def test_a_question_is_heard_by_what_it_asks_for(text, ask):
    assert [sentence.ask for sentence in hear(text).sentences] == [ask]


def test_a_question_is_heard_wherever_it_stands():
    heard = hear("I'm so sorry. Can I ask how long you were together? It matters to me.")
    assert [sentence.ask for sentence in heard.sentences] == ["", "how long", ""]


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ("PULL YOURSELF TOGETHER NOW", "shouts"),
        ("Es tut mir so leid für dich", "foreign"),
        ("我很难过", "foreign"),
        ("   ", "silence"),
        ("You are such a coward.", "insult"),
    ],
)
def test_what_is_done_with_words_is_heard(text, act):
    assert act in hear(text).acts


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("What has been the hardest part of it for you?", "hardest"),
        ("How are you sleeping?", "sleep"),
        ("Have you told anyone about it?", "told"),
        ("What would you like from me?", "hear_me"),
        ("I'm so sorry, that's awful.", "sympathy"),
        ("You don't have to answer that.", "permit"),
        ("As an AI language model, I can't feel.", "machine"),
        ("What do you wish Yusuf knew?", "p_say"),
    ],
)
def test_what_a_sentence_asks_or_does_is_recognised(text, label):
    heard = hear(text, frozenset({"yusuf"}))
    assert heard.sentences[0].act == label
    beside = hear(f"Who knows? {text}", frozenset({"yusuf"}))
    assert beside.sentences[1].act == label, "other than alone"


@pytest.mark.parametrize(
    ("persona_id", "question", "says"),
    [
        (NADIA.id, "Who drove the van?", "bread"),
        (NADIA.id, "How long is the detour?", "forty"),
        (NADIA.id, "What did Mr. Pell write to you?", "three pages"),
        (NADIA.id, "Which car have you got now?", "estate"),
        ("noor-the-flatmate", "Who is on the lease, and how much does she owe you?", "mine"),
        ("noor-the-flatmate", "Who is on the lease, and how much does she owe you?", "fourteen"),
        ("noor-the-flatmate", "What do you do for work?", "cinema"),
        ("noor-the-flatmate", "Can you tell me what you do?", "cinema"),
        ("noor-the-flatmate", "How old are you?", "twenty-five"),
        ("noor-the-flatmate", "Where do you live?", "flat"),
        ("noor-the-flatmate", "Can I ask what your name is?", "Noor"),
        ("grace-the-screenshots", "What's your name, if you don't mind?", "I'm Grace."),
        ("marcus-sunday-lunch", "What's his name?", "My partner Rhys."),
        ("marcus-sunday-lunch", "Can I ask what your partner's name is?", "My partner Rhys."),
        ("marcus-sunday-lunch", "And what's his mother's name?", "My partner's mother Gwen."),
        ("zoe-lab-report", "How do you know Milan?", "team"),
        ("zoe-lab-report", "Is Milan your brother or a friend?", "team"),
        ("mei-phone-in-drawer", "Did you shout, or did you walk away?", "shout"),
        ("arvo-thirsty-on-page-three", "How old are you?", "I'm "),
        ("dagny-fortnight-on-the-drive", "How long ago did it start?", "September of last year"),
        ("dagny-fortnight-on-the-drive", "What do you do?", "I work for myself."),
    ],
)
def test_what_the_card_holds_is_told(persona_id, question, says):
    assert says.casefold() in reply(question, persona_id).casefold()


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("What's been the hardest part?", "hardest"),
        ("How are you sleeping?", "sleep"),
        ("Have you told anybody about it?", "told"),
        ("What are you most afraid of?", "afraid"),
    ],
)
@pytest.mark.parametrize("persona_id", TALKS)
def test_what_anybody_may_ask_is_answered_from_the_card(persona_id, words, kind):
    persona = library().get(persona_id)
    facts = (*persona.situation.facts, *persona.person.facts)
    told = [*persona.situation.answers[Inquiry(kind)]]
    told += get_answers(persona, *[fact.id for fact in facts])
    assert tells(reply(words, persona_id), told, persona)


@pytest.mark.parametrize("persona_id", [*TALKS, "makoto-a-blanket-for-whoever"])
@pytest.mark.parametrize(
    ("guess", "feeling"),
    [
        ("Were you angry?", "angry"),
        ("You must be so lonely with it.", "lonely"),
        ("Are you scared of what comes next?", "scared"),
        ("I guess you feel guilty.", "guilty"),
        ("You must be proud of that.", "proud"),
    ],
)
def test_a_guess_at_a_feeling_gets_an_answer_that_fits(persona_id, guess, feeling):
    persona = get_persona(persona_id)
    manner = persona.person.manner
    lines = persona.situation.feelings.get(Feeling(feeling)) or (
        manner.unconfirmed if feeling == "proud" else manner.confirmed
    )
    assert tells(reply(guess, persona_id), list(lines), persona)


@pytest.mark.parametrize(
    "words", ["That was not your fault, and no shame in it.", "Was she angry with you?", "I'm sad."]
)
def test_what_is_no_guess_at_their_feelings_is_not_confirmed(words):
    lines = [line for lines in NADIA.situation.feelings.values() for line in lines]
    assert not tells(reply(words), lines)


@pytest.mark.parametrize(
    "words",
    [
        "Would you like advice, or should I just listen?",
        "Do you want some ideas, or would you rather just be heard?",
        "What would you like from me?",
    ],
)
@pytest.mark.parametrize("persona_id", [NADIA.id, f"{OWEN.id}/listening", "mei-the-retake"])
def test_who_asks_for_advice_or_an_ear_is_told_by_the_need(words, persona_id):
    persona = get_persona(persona_id)
    is_veiled = persona.person.disposition is Disposition.AVOIDANT
    lines = PHRASES["preference_veiled" if is_veiled else "preference"][persona.need]
    assert reply(words, persona_id) in lines


def test_a_suggestion_is_answered_with_what_they_say_to_that_suggestion():
    said = reply("Maybe you could write to Saskia and tell her you miss her.")
    assert tells(said, NADIA.situation.suggestions[0].reply)


def test_who_asks_to_go_on_is_told_the_next_piece():
    said = reply("Tell me more.")
    pieces = [
        line for one in NADIA.situation.disclosures for line in (one.high, one.normal, one.low)
    ]
    assert tells(said, pieces)


def test_when_it_was_is_told_of_what_was_told_last():
    persona = get_persona("gaspard-the-quiet-car")
    first = persona.situation.timeline[0]
    assert reply("How long ago did it start?", persona.id) == f"That was {first.when}."


@pytest.mark.parametrize("persona_id", [OWEN.id, NADIA.id])
def test_nobody_seems_in_danger_who_was_asked_where_it_hurts(persona_id):
    persona = library().get(persona_id)
    safe = persona.person.answers[Inquiry("safe")]
    assert not tells(reply("Where does it hurt most?", persona_id), safe)
    for asked in (
        "Do you think of ending your life?",
        "Is it hurting yourself you've thought of, or ending your life?",
    ):
        assert tells(reply(asked, persona_id), safe)


@pytest.mark.parametrize(
    ("persona_id", "question", "kind"),
    [
        (NADIA.id, "Who won the election in Mongolia?", "unknown"),
        ("marcus-sunday-lunch", "Where were you born?", "not_yet"),
        ("gaspard-the-quiet-car", "Do you live on your own?", "not_yet"),
    ],
)
def test_what_no_card_holds_is_declined_once_in_their_own_words(persona_id, question, kind):
    persona = get_persona(persona_id)
    lines = [line.casefold().rstrip(".!?") for line in getattr(persona.person.manner, kind)]
    said = play(persona, *[question] * 4)
    assert [any(line in one.casefold() for line in lines) for one in said] == [True, *[False] * 3]


@pytest.mark.parametrize("persona_id", TALKS)
def test_in_ordinary_talk_nobody_says_that_they_do_not_know(persona_id):
    persona = library().get(persona_id)
    said = play(persona, *ORDINARY)
    lines = [*persona.person.manner.unknown, *persona.person.manner.not_yet]
    assert len(said) > 5
    assert not any(line.rstrip(".") in one for one in said for line in lines)


def test_another_name_is_put_right():
    said = reply("How is your friend Anna?")
    assert said.startswith(NADIA.person.manner.corrects)
    assert said.endswith("It's my friend Saskia, not Anna.")


@pytest.mark.parametrize(
    "persona_id", [one for one in library().ids("train") if one.startswith(("nadia", "owen"))]
)
def test_nothing_true_is_put_right(persona_id):
    persona = library().get(persona_id)
    true = [line for fact in persona.situation.facts for line in fact.right]
    true += [anchor.text for _, anchor in persona.situation.anchors.each()]
    for words in true:
        assert not reply(words, persona_id).startswith(persona.person.manner.corrects), words


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Hello there!", "greets"),
        ("Thanks for telling me that.", "thanked"),
        ("Sorry, that came out wrong.", "apologised"),
        ("I have to go now, good night.", "farewell"),
        ("PULL YOURSELF TOGETHER NOW", "shouted"),
        ("Es tut mir so leid für dich", "foreign"),
        ("   ", "silence"),
        ("You are such a coward.", "hurt"),
    ],
)
@pytest.mark.parametrize("persona_id", TALKS)
def test_what_anybody_does_with_words_is_answered_in_kind(persona_id, words, kind):
    person = library().get(persona_id).person
    said = reply(words, persona_id)
    assert said.startswith(getattr(person.manner, kind))
    if kind not in ("greets", "thanked", "apologised"):
        assert said in getattr(person.manner, kind), "and nothing else"


@pytest.mark.parametrize("persona_id", [*TALKS, "gaspard-the-quiet-car"])
@pytest.mark.parametrize(
    "utterances", [ORDINARY, ("How are you sleeping?",) * 8, ("I'm listening.",) * 8]
)
def test_no_sentence_and_no_stock_line_is_said_twice(persona_id, utterances):
    persona = get_persona(persona_id)
    said = play(persona, *utterances)
    sentences = [one for line in said for one in split_sentences(line) if len(one.split()) > 3]
    assert len(sentences) == len(set(sentences))
    manner = persona.person.manner
    for kind in type(manner).model_fields:
        for line in getattr(manner, kind):
            assert sum(one.startswith(line) for one in said) <= 1, line


def test_a_question_asked_again_gets_another_wording_or_says_so():
    said = play(NADIA, *["How long is the detour?"] * 2)
    assert said[0] != said[1]
    assert all("forty" in one.casefold() for one in said)


def test_people_of_the_story_are_introduced_once_when_they_are_first_named():
    introduced = 0
    for persona in map(get_persona, [*library().ids("train")[::4], "dagny-fortnight-on-the-drive"]):
        said = [one for line in play(persona, *ORDINARY) for one in split_sentences(line)]
        for other in persona.situation.people:
            naming = [one.casefold() for one in said if other.name in one]
            if other.introduction and naming:
                introduced += other.introduction.casefold() in naming[0]
                assert not any(other.introduction.casefold() in one for one in naming[1:])
    assert introduced >= 5


def test_whom_the_agent_named_needs_no_introduction():
    asked = "Can I ask what your friend's name is?"
    assert reply(asked) == "My friend Saskia."
    assert reply(asked, before=("How is Saskia?",)) == "Saskia."


@pytest.mark.parametrize(
    ("persona_id", "typing"),
    [("laila-the-mistake-in-row-42", "quick"), ("aidan-the-jar-without-a-label", "terse")],
)
def test_people_type_as_they_type(persona_id, typing):
    persona = get_persona(persona_id)
    assert persona.person.typing == typing
    for said in play(persona, *ORDINARY):
        assert not said.endswith(".")
        assert " I " not in said
        lines = said.split("\n")
        assert typing == "quick" or len(" ".join(lines[1:]).split()) <= 10


def test_a_person_without_facts_and_answers_still_talks():
    lists = dict.fromkeys(("facts", "suggestions", "threads"), ())
    tables = {name: {} for name in ("answers", "about_people", "feelings")}
    bare = NADIA.situation.model_copy(update=lists | tables)
    persona = NADIA.model_copy(update={"situation": bare})
    assert all(play(persona, *ORDINARY, "Maybe you could rest."))


def test_the_answer_depends_on_what_was_said_and_on_the_seed_alone():
    words = ("That must have been hard.", "It sounds lonely.", "I'm listening.")
    assert len({reply(one) for one in words}) > 1
    assert len({reply(words[0], seed=seed) for seed in range(6)}) > 1
    assert play(NADIA, *ORDINARY) == play(NADIA, *ORDINARY)


@pytest.mark.parametrize("persona_id", library().ids())
def test_the_shipped_cards_can_be_asked(persona_id):
    persona = library().get(persona_id)
    assert len(persona.situation.facts) >= 30
    assert len(persona.person.facts) >= 12
    assert len(persona.situation.answers) >= 50
    assert {other.name for other in persona.situation.people} == set(persona.situation.about_people)
    assert set(persona.situation.feelings) == set(Feeling)
    assert len(persona.person.manner.openers) >= 6
    assert len(persona.person.manner.tags) >= 6
