"""Speak: the person's answer. What was asked comes first, then what is wrong, then a reaction or
none, then what comes next to what was spoken about; never the same sentence twice.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from rlver_gym.core.dialogue import Appraisal, Dialogue, Reason
from rlver_gym.core.emotion import Band, Outcome
from rlver_gym.core.persona import Disposition
from rlver_gym.core.user import Scene
from rlver_gym.core.words import split_sentences, split_words, words
from rlver_gym.users.embedded.hearing.choices import find_choices
from rlver_gym.users.embedded.hearing.names import add_introductions
from rlver_gym.users.embedded.hearing.utterance_parser import FACTUAL, Act, Ask, Sentence
from rlver_gym.users.embedded.hearing.vectors import SCALE, embed_text
from rlver_gym.users.embedded.speech.answers import (
    Answer,
    asks_about_inner_life,
    asks_name,
    decide_yes_or_no,
    explain_last_line,
    explain_whom_was_meant,
    find_answers,
    find_personal_facts,
)
from rlver_gym.users.embedded.speech.claims import Claim, check_claims
from rlver_gym.users.embedded.speech.either_or import answer_either_or, mentions_an_option
from rlver_gym.users.embedded.speech.moment import (
    Moment,
    draw_uniform,
    normalise_sentence,
    put_name_first,
    split_line,
)
from rlver_gym.users.embedded.speech.react import (
    ALONE,
    GENTLE,
    choose_advice_manner,
    choose_reaction_manner,
    find_substitute_manner,
    score_reply_urgency,
)
from rlver_gym.users.embedded.speech.typed import apply_typing_style
from rlver_gym.util.files import load_json

PHRASES: dict = load_json("rlver_gym.users.embedded.hearing", "phrases.json")
_BRIEF, _ROOM = 8, 16
"""Words of a reaction that may stand before an answer; of an answer beside which more has room."""
_REACTS = 0.3
"""How often a reaction stands before an answer."""
_REMARKED, _SURELY = 0.3, 0.5
"""The probability from which a remark is reacted to; from which it is taken for one that hurts."""
_CLEARLY = 0.6
"""The probability from which what anybody may ask is answered as that, whatever it offers."""
_MOST_HINTS = 3
_TAGGED = 0.07
"""How often a verbal habit stands behind an answer."""
_OPTIONAL = frozenset({Ask.MEANING, Ask.WHOM, Ask.PREFERENCE, Ask.MORE})


def compose_opening(scene: Scene, emotion: int) -> str:
    said = scene.persona.situation.openings.in_tone(Band.of(emotion).tone)
    return apply_typing_style(scene.persona, add_introductions(scene.persona.situation, said, ""))


def choose_thought(
    scene: Scene, dialogue: Dialogue, reasons: tuple[Reason, ...], change: int
) -> str:
    """What the person thinks and does not say; empty when they have thought all that they have."""
    kind = "touched" if change >= 4 else "eased" if change > 0 else "missed"
    if change <= 0:
        codes = {reason.code for reason in reasons if reason.points < 0}
        if change <= -7:
            kind = "hurt"
        elif codes & {"nonsense", "broken", "silence"}:
            kind = "puzzled"
        elif change > -3:
            kind = "cold"
    had = {turn.appraisal.thought for turn in dialogue.turns}
    others = ("eased", "touched") if change > 0 else ("missed", "cold", "puzzled")
    for each in (kind, *others):
        fresh = [line for line in getattr(scene.persona.person.thoughts, each) if line not in had]
        if fresh:
            return fresh[int(draw_uniform(scene, len(dialogue.turns), "thought", ()) * len(fresh))]
    return ""


def compose_reply(scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str:
    moment = Moment(scene, emotion, dialogue, appraisal)
    outcome = scene.card.outcome(emotion, len(dialogue.turns) + 1)
    if outcome is Outcome.CONTENT or outcome is Outcome.LEFT:
        return _join_reply_parts(moment, [_say_goodbye(moment, outcome)], is_plain=False)
    parts = _answer_dialogue_act(moment)
    if parts is not None:
        return _join_reply_parts(moment, parts, is_plain=False)
    claims = check_claims(scene.persona, dialogue)
    correction = _correct_false_claim(moment, claims)
    answered = _answer_questions(moment, claims, bool(correction))
    if correction or answered:
        if not correction:
            answered = [*_acknowledge_remarks(moment, answered), *answered]
        return _join_reply_parts(moment, [*correction, *answered], is_plain=True)
    return _join_reply_parts(
        moment, _reply_to_remarks(moment) or _continue_story(moment), is_plain=True
    )


def _find_unsaid_lines(moment: Moment, name: str) -> list[str]:
    lines = getattr(moment.manner, name) or getattr(moment.manner, find_substitute_manner(name))
    return moment.drop_said(lines)


def _choose_manner_line(moment: Moment, name: str) -> list[str]:
    lines = _find_unsaid_lines(moment, name)
    return [moment.choose(name, lines)] if lines else []


def _choose_phrase(moment: Moment, name: str, **given: str) -> list[str]:
    lines = [_capitalise(line.format(**given)) for line in PHRASES[name]]
    fresh = [line for line in lines if normalise_sentence(line) not in moment.said]
    return [moment.choose(name, fresh)] if fresh else []


def _say_goodbye(moment: Moment, outcome: Outcome) -> str:
    manner = moment.manner
    is_content = outcome is Outcome.CONTENT
    return moment.choose("goodbye", manner.goodbye_content if is_content else manner.goodbye_left)


def _answer_dialogue_act(moment: Moment) -> list[str] | None:
    acts, count = moment.heard.acts, len(moment.heard.words)
    asks = any(not one.is_guess for one in moment.heard.questions)
    for act in (Act.SILENCE, Act.COMMAND, Act.FOREIGN, Act.SHOUTS, Act.FAREWELL):
        if act in acts:
            return _choose_manner_line(moment, act.value)
    if Act.INSULTS in acts and not asks:
        return _choose_manner_line(moment, Act.INSULTS.value)
    if Act.APOLOGISES in acts and count <= 30 and not asks:
        return [
            *_choose_manner_line(moment, Act.APOLOGISES.value),
            *(_continue_story(moment) if moment.emotion >= 20 else []),
        ]
    if moment.heard.questions:
        return None
    if count <= 12:
        for act in (Act.GREETS, Act.THANKS):
            if act in acts:
                more = _continue_story(moment) if moment.emotion >= 20 else []
                return [*_choose_manner_line(moment, act.value), *more]
    form = _find_manner_for_empty_words(moment)
    return _choose_manner_line(moment, form) if form is not None else None


_OF_FORM = {
    "copying": "repeated", "repetition": "repeated", "nonsense": "puzzled", "broken": "puzzled",
    "torn": "puzzled",
}  # fmt: skip


def _find_manner_for_empty_words(moment: Moment) -> str | None:
    """The manner that answers words that say nothing of their own, when that cost most."""
    said = moment.heard.words
    if len(said) >= 4 and any(words(turn.utterance) == said for turn in moment.dialogue.turns[-4:]):
        return "repeated"
    costs = [(one.points, one.code) for one in moment.appraisal.reasons]
    worst = min(costs, default=(0.0, ""))
    return _OF_FORM.get(worst[1]) if worst[0] <= -2.0 and moment.appraisal.change < 0 else None


# Corrections.


def _correct_false_claim(moment: Moment, claims: Sequence[Claim]) -> list[str]:
    """What they say is right, when something about their story was surely wrong; nothing when they
    have just corrected something.
    """
    asked = {one.text for one in moment.heard.sentences if one.ask is Ask.YES_NO}
    false = [one for one in claims if one.verdict == "false"]
    wrong = next((one for one in false if one.is_sure), None) or next(
        (one for one in false if one.right and one.sentence in asked), None
    )
    if wrong is None or (moment.turn and _is_last_line_correction(moment)):
        return []
    truth = _state_truth(moment, wrong)
    if not truth:
        return []
    other = next(
        (one for one in false if one.is_sure and one.kind != wrong.kind and one.right), None
    )
    if other is not None:
        truth = [*truth, *_state_truth(moment, other)]
    openers = moment.drop_said(moment.manner.corrects or PHRASES["correct_first"])
    if wrong.kind == "name" and not wrong.right:
        openers = []
    return [*([moment.choose("corrects", openers)] if openers else []), *truth]


def _is_last_line_correction(moment: Moment) -> bool:
    last = moment.lines[-1]
    return last.startswith(tuple(moment.manner.corrects or PHRASES["correct_first"]))


def _state_truth(moment: Moment, wrong: Claim) -> list[str]:
    if wrong.kind == "name":
        if not wrong.right:
            return _choose_phrase(moment, "strange_name", said=wrong.said)
        return _choose_phrase(moment, "right_name", right=wrong.right, said=wrong.said)
    if wrong.kind in ("number", "date"):
        said, right = wrong.said.split(), wrong.right.split()
        if wrong.kind == "number" and len(said) > 1 and said[-1] == right[-1]:
            said = said[:-1]
        return _choose_phrase(moment, "right_value", right=" ".join(right), said=" ".join(said))
    if wrong.kind == "doer":
        return _choose_phrase(moment, "right_doer", right=wrong.right, said=wrong.said)
    if wrong.kind == "work":
        return [wrong.source] if wrong.source else []
    return [wrong.source] if wrong.source else _choose_phrase(moment, "not_so")


# Answers.


class _Asked(NamedTuple):
    """A question and what may answer it, best first."""

    sentence: Sentence
    answers: Sequence[Answer]
    invites: bool
    """Whether it only asks to go on."""


def _answer_questions(moment: Moment, claims: Sequence[Claim], is_corrected: bool) -> list[str]:
    """Answers to the questions, at most two of them, in their order; or an honest refusal."""
    wrong = {one.sentence for one in claims if one.verdict == "false"}
    asking: list[_Asked] = []
    for at, sentence in enumerate(moment.heard.sentences):
        if sentence.ask is None or (is_corrected and sentence.text in wrong):
            continue
        if sentence.ask in (Ask.MEANING, Ask.WHOM) and len(moment.heard.questions) > 1:
            continue
        invites = sentence.ask is Ask.MORE or _only_invites_to_go_on(moment, sentence, at)
        answers = () if invites else _find_question_answers(moment, sentence, at)
        asking.append(_Asked(sentence, answers, invites))
    if not asking:
        return []
    asking = _select_two_questions(asking)
    parts: list[str] = []
    unanswered = []
    for one in asking:
        said = _answer_question(moment, one, parts)
        if said:
            parts += said
        else:
            unanswered.append(one.sentence)
    if not parts:
        return [] if is_corrected else _decline_to_answer(moment, asking[-1].sentence)
    if unanswered and not is_corrected and len(asking) > 1 and _expects_answer(unanswered[0]):
        parts += _choose_phrase(moment, "second_unknown")
    elif len(asking) == 1 and _count_words(parts) <= _ROOM and not is_corrected:
        if moment.was_asked(asking[0].sentence):
            parts += _choose_related_detail(moment, parts)
        else:
            parts += _choose_need_hint(
                moment,
                0.15 if _count_need_hints_given(moment) else 0.3,
                near=[*parts, asking[0].sentence.text],
            )
    return parts


def _expects_answer(sentence: Sentence) -> bool:
    return sentence.ask not in _OPTIONAL and not sentence.is_guess


def _select_two_questions(asking: list[_Asked]) -> list[_Asked]:
    if len(asking) <= 2:
        return asking
    best = sorted(
        range(len(asking)),
        key=lambda at: -(asking[at].answers[0].score + 0.15 * at if asking[at].answers else -9.0),
    )[:2]
    return [asking[at] for at in sorted(best)]


def _find_question_answers(moment: Moment, sentence: Sentence, at: int) -> Sequence[Answer]:
    if sentence.ask is Ask.PREFERENCE:
        return [Answer(0.0, _get_preference_lines(moment), None)]
    if sentence.ask is Ask.MEANING:
        return explain_last_line(moment, _get_preference_lines(moment))
    if sentence.ask is Ask.WHOM:
        return explain_whom_was_meant(moment, sentence)
    offered = find_choices(sentence)
    if offered and moment.labels(at).probability < _CLEARLY:
        own = find_personal_facts(moment, sentence, PHRASES)
        if own:
            return own
        chosen = answer_either_or(moment, sentence, offered)
        if chosen is not None:
            return [Answer(1.0, chosen.lines, chosen.topic)]
        return [
            one
            for one in find_answers(moment, sentence, at)
            if mentions_an_option(moment, offered, one)
        ]
    return [*find_personal_facts(moment, sentence, PHRASES), *find_answers(moment, sentence, at)]


def _only_invites_to_go_on(moment: Moment, sentence: Sentence, at: int) -> bool:
    if sentence.ask in _OPTIONAL:
        return False
    label, probability = moment.labels(at).ranked[0]
    if label not in ("more", "happened") or probability < 0.3:
        return False
    return len(moment.card.content(sentence.asked)) <= 2


def _get_preference_lines(moment: Moment) -> tuple[str, ...]:
    persona = moment.scene.persona
    is_veiled = persona.person.disposition is Disposition.AVOIDANT
    return tuple(PHRASES["preference_veiled" if is_veiled else "preference"][persona.need])


def _answer_question(moment: Moment, asked: _Asked, parts: Sequence[str]) -> list[str]:
    if asked.invites:
        return _choose_next_disclosure(moment, parts)
    for one in asked.answers:
        if one.topic is not None and one.topic.depth > moment.depth + 1 and moment.emotion < 30:
            continue
        fresh = [
            line for line in moment.drop_said(one.lines) if not _repeats_earlier_part(line, parts)
        ]
        if not fresh:
            continue
        best = _select_best_wordings(moment, asked.sentence, fresh)
        said = moment.choose("answer", best)
        plain = decide_yes_or_no(moment, asked.sentence, one, said)
        if plain is None:
            return [said]
        own = [
            line
            for line in (moment.manner.yes if plain else moment.manner.no)
            if _is_plain_yes_or_no(line)
        ]
        return [moment.choose("yes or no", own or PHRASES["yes" if plain else "no"]), said]
    told = [one for one in asked.answers if one.lines and one.score > -1.2]
    if told and not parts:  # all was told: the point of it again, in a few words
        first = split_sentences(told[0].lines[-1])[0]
        frames = moment.manner.asked_again or PHRASES["again"]
        again = [f"{frame.rstrip(',:.')}: {first}" for frame in frames]
        fresh = [line for line in again if normalise_sentence(line) not in moment.said]
        return (
            [moment.choose("again", fresh), *_choose_related_detail(moment, [first])]
            if fresh
            else []
        )
    return []


def _select_best_wordings(moment: Moment, sentence: Sentence, lines: Sequence[str]) -> list[str]:
    if len(lines) == 1:
        return list(lines)
    card = moment.card
    tokens = card.content(sentence.asked)
    vector = embed_text(sentence.asked) / SCALE
    worth = [
        card.weigh(tokens & own.tokens) + 3.0 * float(own.vector @ vector)
        for own in map(card.line, lines)
    ]
    return [line for line, value in zip(lines, worth, strict=True) if value >= max(worth) - 0.4]


def _decline_to_answer(moment: Moment, sentence: Sentence) -> list[str]:
    """An honest refusal that fits the question: to what anybody knows of themselves that they keep
    it, to what lies within them that they are not sure, to the rest that they do not know.
    """
    if sentence.ask is Ask.MORE:
        return _continue_story(moment)
    if _asks_personal_detail(sentence):
        return _choose_manner_line(moment, "not_yet")
    if find_choices(sentence):
        return _choose_phrase(moment, "which") or _choose_manner_line(moment, "unsure")
    first, second = (
        ("unsure", "unknown") if asks_about_inner_life(sentence) else ("unknown", "unsure")
    )
    refusal = (
        _choose_manner_line(moment, first)
        or _choose_manner_line(moment, second)
        or _choose_phrase(moment, "no_answer")
    )
    if not moment.scene.persona.situation.is_lean or sentence.ask in FACTUAL:
        return refusal
    told = _choose_next_disclosure(
        moment, refusal
    )  # few lines answer there: the story goes on instead
    is_invited = sentence.ask is Ask.ABOUT or not moment.turn
    return told if told and is_invited else [*refusal, *told]


_OWN = re.compile(
    r"\b(?:your name|old are you|you live|you from|you born|you work|your (?:job|age))\b"
)


def _asks_personal_detail(sentence: Sentence) -> bool:
    return asks_name(sentence) or _OWN.search(" ".join(sentence.asked)) is not None


def _acknowledge_remarks(moment: Moment, answered: Sequence[str]) -> list[str]:
    said = [
        at
        for at, one in enumerate(moment.heard.sentences)
        if one.ask is None and not one.suggests and len(one.words) >= 3
    ]
    if not said or _count_words(answered) > 1.5 * _ROOM or moment.draw("acknowledge") >= _REACTS:
        return []
    at = max(said, key=lambda at: score_reply_urgency(moment, at))
    manner = choose_reaction_manner(moment, at, _SURELY)
    if manner is None or manner in ALONE or manner not in GENTLE:
        return []
    brief = [
        line
        for line in _find_unsaid_lines(moment, manner)
        if len(split_words(line)) <= _BRIEF and "?" not in line
    ]
    return [moment.choose("acknowledge", brief)] if brief else []


# What was said rather than asked.


def _reply_to_remarks(moment: Moment) -> list[str]:
    sentences = moment.heard.sentences
    if not sentences:
        return []
    suggesting = [one for one in sentences if one.suggests]
    for sentence in reversed(suggesting):
        lines = moment.drop_said(_find_lines_on_suggestion(moment, sentence))
        if lines:
            return [moment.choose("suggestion", lines)]
    at = max(range(len(sentences)), key=lambda at: score_reply_urgency(moment, at))
    main = sentences[at]
    if main.suggests:
        return _choose_manner_line(moment, choose_advice_manner(moment.appraisal.change))
    if main.feelings and _guesses_a_feeling(main):
        for feeling in main.feelings:
            number = moment.card.number.get(("feeling", str(feeling)))
            if number is not None:
                lines = moment.drop_said(moment.drop_guarded(moment.card.topics[number].lines))
                if lines:
                    return [moment.choose("feeling", lines)]
    manner = choose_reaction_manner(moment, at, _REMARKED)
    if manner is not None and manner in ALONE:
        return _choose_manner_line(moment, manner)
    parts: list[str] = []
    thread = _choose_story_thread_line(moment, main)
    is_kind = manner in GENTLE
    if manner is not None and (thread is None or moment.draw("react") < 0.5):
        parts += _choose_manner_line(moment, manner)
    if thread is not None and (not parts or is_kind):
        parts.append(thread)
    elif _count_words(parts) <= _ROOM // 2 or (is_kind and moment.draw("leave it") < 0.6):
        parts = parts or _react_by_worth(moment, manner)
        parts += (
            _choose_next_disclosure(moment, parts, is_near=bool(parts))
            if moment.turn
            else _continue_story(moment)
        )
    return parts


def _react_by_worth(moment: Moment, manner: str | None) -> list[str]:
    if manner is not None or not moment.appraisal.change:
        return []
    return _choose_manner_line(
        moment, "confirmed" if moment.appraisal.change > 0 else "unconfirmed"
    )


_FELT = frozenset(
    """sounds sound must feel feels felt feeling seem seems are you're be been imagine guess so
    hear""".split()
)
_DENIED = frozenset("not isn't don't doesn't aren't never no because if".split())


def _guesses_a_feeling(sentence: Sentence) -> bool:
    """Whether a sentence says that the person may have a feeling, and not much else."""
    words = frozenset(sentence.words)
    return (
        len(sentence.words) <= 16
        and not words.isdisjoint(_FELT)
        and words.isdisjoint(_DENIED)
        and not (sentence.words[:1] in (("i",), ("my",)) and "you" not in words)
    )


def _find_lines_on_suggestion(moment: Moment, sentence: Sentence) -> Sequence[str]:
    card = moment.card
    tokens = card.content(sentence.words)
    suggested = card.suggested
    if not suggested.lines:
        return ()
    likeness = suggested.vectors @ (embed_text(sentence.words) / SCALE)
    best, found = 0.62, None
    for topic, way, alike in zip(suggested.topics, suggested.lines, likeness.tolist(), strict=True):
        named = card.line(way).tokens
        shared = card.weigh(named & tokens) / (card.weigh(named) or 1.0)
        worth = 0.7 * shared + 0.5 * alike
        if worth > best and (len(named & tokens) >= 2 or shared > 0.9):
            best, found = worth, topic
    return found.lines if found is not None else ()


def _choose_story_thread_line(moment: Moment, sentence: Sentence) -> str | None:
    card = moment.card
    tokens = card.content(sentence.words)
    best, found = 1.8, None
    for topic in card.threads:
        if not tokens.isdisjoint(topic.about):
            shared = card.weigh(tokens & topic.about)
            if shared > best:
                lines = moment.drop_said(moment.drop_guarded(topic.lines))
                if lines:
                    best, found = shared, (topic, lines)
    if found is None:
        return None
    topic, lines = found
    person = card.facts.person(topic.person) if topic.person else None
    spoken = (moment.dialogue.utterance or "", moment.lines[-1])
    line = moment.choose("thread", lines[:2])
    if person is not None and not any(person.name in text for text in spoken):
        return put_name_first(line, person.name)
    return line


# What comes next.


def _continue_story(moment: Moment) -> list[str]:
    chance = 0.35 if moment.turn == 0 or moment.appraisal.change <= 0 else 0.2
    return _choose_need_hint(moment, chance) or _choose_next_disclosure(moment, ())


def _count_need_hints_given(moment: Moment) -> int:
    hints = moment.scene.persona.situation.hints.of(moment.scene.persona.need)
    return len(hints) - len(moment.drop_said(hints))


_NEAR = 0.45
"""How like what was spoken of a hint must be to stand behind an answer (cosine)."""


def _choose_need_hint(moment: Moment, chance: float, near: Sequence[str] = ()) -> list[str]:
    """A line that lets the need show, with that chance; one that has to do with some texts."""
    hints = moment.scene.persona.situation.hints.of(moment.scene.persona.need)
    fresh = moment.drop_said(hints)
    if len(hints) - len(fresh) >= _MOST_HINTS or not fresh or moment.draw("hint") >= chance:
        return []
    if near:
        vector = embed_text(split_words(" ".join(near))) / SCALE
        fresh = [one for one in fresh if float(moment.card.line(one).vector @ vector) >= _NEAR]
    return [moment.choose("hint", fresh)] if fresh else []


_BEFORE = 0.4
"""How much words of their own last line count, beside those of the utterance."""
_IN_ORDER, _BY_CHANCE = 0.3, 4.0
"""What each place further down the card's order costs, and how much chance moves, in nats."""


_RELATED = 6.5
"""How near a piece of the story must lie to what was just said to stand behind a reaction."""


def _choose_next_disclosure(
    moment: Moment, parts: Sequence[str], *, is_near: bool = False
) -> list[str]:
    """The untold piece of the story that lies nearest to what was spoken about; `is_near`: none
    where that has nothing to do with it. Of a lean card, the next one where none lies near.
    """
    card = moment.card
    spoken = card.content(moment.heard.words)
    before = card.content(split_words(" ".join((moment.last_line, *parts)))) - spoken
    told = card.disclosures
    if not told.lines:
        return []
    is_in_order = moment.scene.persona.situation.is_lean
    likeness = (told.vectors @ (embed_text(moment.heard.words) / SCALE)).tolist()
    best, found = -1e9, None
    for place, topic in enumerate(told.topics):
        if topic.depth > moment.depth or any(
            not moment.said.isdisjoint(split_line(line).folded) for line in topic.lines
        ):
            continue
        own = card.line(topic.lines[0]).tokens
        near = card.weigh(spoken & own) + 2.5 * likeness[place]
        if is_near and near < _RELATED:
            continue
        value = (
            near
            + _BEFORE * card.weigh(before & own)
            - _IN_ORDER * place
            + _BY_CHANCE * moment.draw(f"tell {topic.key}")
        )
        if is_in_order:
            value = near * (near >= _RELATED) - _IN_ORDER * place
        if value > best:
            best, found = value, moment.wordings(topic)[0]
    if found is not None:
        return [found]
    return _choose_related_detail(moment, [*parts, moment.dialogue.utterance or ""])


def _choose_related_detail(moment: Moment, parts: Sequence[str]) -> list[str]:
    card = moment.card
    words = split_words(" ".join(parts))
    tokens = card.content(words)
    told = card.beside
    if not told.lines:
        return []
    likeness = (told.vectors @ (embed_text(words) / SCALE)).tolist()
    best, found = 0.8, None
    for topic, line, alike in zip(told.topics, told.lines, likeness, strict=True):
        if topic.depth > moment.depth:
            continue
        value = 0.3 * card.weigh(tokens & card.line(line).tokens) + alike
        if value > best and not _repeats_earlier_part(line, parts) and moment.drop_said([line]):
            best, found = value, line
    return [found] if found is not None else []


# Putting it together.


def _join_reply_parts(moment: Moment, parts: Sequence[str], *, is_plain: bool) -> str:
    """The parts as one text, names introduced, without any sentence that was said before."""
    fresh, had = [], set(moment.said)
    for part in parts:
        for sentence in split_sentences(part):
            folded = normalise_sentence(sentence)
            if folded not in had:
                fresh.append(sentence)
                if len(split_words(sentence)) > 3:
                    had.add(folded)
    if not fresh:
        fresh = _choose_phrase(moment, "last") or ["…"]
    elif is_plain:
        fresh += _choose_verbal_habit(moment, " ".join(fresh))
    heard = "\n".join(
        [*moment.lines, *moment.dialogue.earlier_utterances, moment.dialogue.utterance or ""]
    )
    said = add_introductions(moment.scene.persona.situation, " ".join(fresh), heard)
    return apply_typing_style(moment.scene.persona, said)


def _choose_verbal_habit(moment: Moment, text: str) -> list[str]:
    if moment.draw("habit") >= _TAGGED or len(split_words(text)) < 5 or not text.endswith("."):
        return []
    fresh = [tag for tag in moment.manner.tags if normalise_sentence(tag) not in moment.said]
    spoken = "\n".join(moment.lines)
    fresh = [tag for tag in fresh if tag not in spoken]
    return [moment.choose("tag", fresh)] if fresh else []


def _repeats_earlier_part(line: str, parts: Sequence[str]) -> bool:
    stems = split_line(line).stems
    return len(stems) >= 2 and any(
        len(stems & split_line(part).stems) >= 0.6 * len(stems) for part in parts
    )


def _count_words(parts: Sequence[str]) -> int:
    return len(split_words(" ".join(parts)))


def _is_plain_yes_or_no(line: str) -> bool:
    """Whether a line is a plain yes or no to whatever was asked: "It was, yes." is not."""
    words = split_words(line)
    return len(words) <= 3 and {"it", "was", "did"}.isdisjoint(words)


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]
