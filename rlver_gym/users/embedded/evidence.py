"""Evidence: what an English utterance does to one person by the anchors of their card, dialogue
acts and form, weighed as experts would. Pure; the weights are data.
"""

import math
from typing import NamedTuple

from rlver_gym.core.anchors import AnchorMatch
from rlver_gym.core.dialogue import Dialogue, Reason, ReasonCode
from rlver_gym.core.ledger import ACT_IN_WORDS, KIND_IN_WORDS, Ledger, quote
from rlver_gym.core.persona import Persona
from rlver_gym.core.words import content_stems
from rlver_gym.text.act_classifier import load_act_classifier
from rlver_gym.text.story_index import index_story, match_anchor_keys, match_anchors
from rlver_gym.text.utterance_analysis import (
    ActStrength,
    SentenceAnalysis,
    UtteranceAnalysis,
    UtteranceSummary,
    analyse_utterance,
    combine_acts,
    join_stems,
    summarise_utterance,
)
from rlver_gym.users.embedded.priors import ExpertPoints, load_expert_points
from rlver_gym.users.embedded.relevance import UtteranceRelevance, measure_relevance

_HURTING = ("insult", "blame", "threat", "minimise")
"""Acts beside which kind words are not believed."""
_OF_THE_WHOLE = ("invite", "open_question", "question")
"""Acts that refer to all that was said, wherever they stand."""


class UtteranceContext(NamedTuple):
    """One utterance and all that it is weighed against."""

    expert: ExpertPoints
    persona: Persona
    dialogue: Dialogue
    heard: UtteranceAnalysis
    earlier: tuple[UtteranceSummary, ...]
    relevance: UtteranceRelevance
    done: dict[str, ActStrength]
    """What the utterance does, act by act."""
    credibility: float
    """What is left of a gain when words are copied or repeated, when others leave them wondering,
    or beside what hurts: a share.
    """


def collect_evidence(persona: Persona, dialogue: Dialogue) -> tuple[Reason, ...]:
    """What the last utterance does to this person, item by item, in the points that experts would
    give it before anything is measured.

    Codes are "anchor:KIND/ID", "act:ACT" and those of form; an item that weighs nothing is left
    out.
    """
    expert = load_expert_points(persona.language)
    utterance = dialogue.utterance or ""
    heard = analyse_utterance(utterance)
    earlier = tuple(map(summarise_utterance, dialogue.earlier_utterances))
    ledger = Ledger()
    if is_language(heard, dialogue):
        hurts = any(act in heard.acts and not _is_quoted(act, heard, dialogue) for act in _HURTING)
        relevance = measure_relevance(
            expert, index_story(persona.situation), heard, earlier, dialogue
        )
        credibility = relevance.own_words * relevance.novelty * relevance.attention
        credibility *= expert.beside_a_hurt if hurts else 1.0
        acts = combine_acts(heard.sentences)
        context = UtteranceContext(
            expert, persona, dialogue, heard, earlier, relevance, acts, credibility
        )
        _add_all(ledger, context)
    else:
        _add_no_language(ledger, expert, heard)
    # Fills the caches while the analysis is at hand: the next turns will ask for both.
    summarise_utterance(utterance)
    match_anchor_keys(index_story(persona.situation).anchors, utterance)
    return tuple(ledger.reasons)


def _add_all(ledger: Ledger, context: UtteranceContext) -> None:
    _add_copying(ledger, context)
    _add_anchors(ledger, context)
    _add_acts(ledger, context)
    _add_overall_logit(ledger, context)
    _add_timing(ledger, context)
    _add_bad_acts(ledger, context)
    _add_form(ledger, context)


def is_language(heard: UtteranceAnalysis, dialogue: Dialogue) -> bool:
    """Whether it is something that one says, in a few words also something that takes up theirs."""
    if heard.word_count == 0:
        return False
    if heard.word_count < 4:
        return heard.function_share > 0 or any(
            heard.content & content_stems(line) for line in dialogue.user_lines
        )
    return heard.function_share >= 0.2 and not _is_word_salad(heard)


def _is_word_salad(heard: UtteranceAnalysis) -> bool:
    """Little words stirred: nothing but them, or the same few again and again. Distinct words grow
    with about the 0.8th power of a text's length (Heaps' law); of 2,000 replies by people, one in a
    hundred has fewer than 1.38 times that, one in a thousand fewer than 1.07.
    """
    count = heard.word_count
    return count >= 20 and (heard.function_share > 0.97 or heard.distinct_words < 1.05 * count**0.8)


def _add_no_language(ledger: Ledger, expert: ExpertPoints, heard: UtteranceAnalysis) -> None:
    if heard.word_count == 0 and not heard.sentences:
        ledger.add(ReasonCode.SILENCE, expert.silence, "the agent said nothing")
    else:
        ledger.add(
            ReasonCode.NONSENSE, expert.nonsense, "that was no sentence that they could follow"
        )


def _add_copying(ledger: Ledger, context: UtteranceContext) -> None:
    """What is not meant for this person: their own words back, the agent's again, somebody else's
    story.
    """
    expert, heard, relevance = context.expert, context.heard, context.relevance
    ledger.add(
        ReasonCode.COPYING,
        expert.copying.points * (1 - relevance.own_words),
        "gave their own words back",
    )
    ledger.add(
        ReasonCode.REPETITION,
        expert.reuse.points * (1 - relevance.novelty),
        "said what was already said",
    )
    if relevance.spliced:
        text = heard.sentences[min(relevance.spliced)].text
        ledger.add(
            ReasonCode.TORN,
            expert.torn.points * min(2, len(relevance.spliced)),
            f"tore a piece out of their words: “{quote(text)}”",
        )
    ledger.add(
        ReasonCode.BROKEN,
        expert.nonsense * heard.incoherent_share,
        "could not follow all of it: words that do not hang together",
    )
    ledger.add(
        ReasonCode.ELSEWHERE,
        expert.elsewhere.points * relevance.elsewhere,
        "little of it was about them",
    )
    strangers = sorted(relevance.strangers - {context.persona.person.name.lower()})
    if strangers:
        points = max(expert.strangers.most, expert.strangers.points * len(strangers))
        ledger.add(
            ReasonCode.STRANGERS,
            points,
            f"named people they do not know: {quote(', '.join(strangers))}",
        )


def _add_anchors(ledger: Ledger, context: UtteranceContext) -> None:
    """Touch: anchors named for the first time. The dearest counts whole, the next ones less."""
    index = index_story(context.persona.situation).anchors
    touching = match_anchors(index, context.dialogue.utterance or "")
    if not touching:
        return
    known = {
        key
        for before in context.dialogue.earlier_utterances
        for key in match_anchor_keys(index, before)
    }
    touched = [
        (_compute_anchor_points(context, touch), touch)
        for touch in touching
        if touch.key not in known
        and context.heard.sentences[touch.sentence].is_fluent
        and touch.sentence not in context.relevance.spliced
    ]
    touched.sort(key=lambda pair: -pair[0])
    for number, (points, touch) in enumerate(touched):
        if points > 0:
            points *= (
                context.expert.saturation[min(number, len(context.expert.saturation) - 1)]
                * context.credibility
            )
        sentence = context.heard.sentences[touch.sentence].text
        ledger.add(
            f"anchor:{touch.key}", points, f"{KIND_IN_WORDS[touch.kind]}: “{quote(sentence)}”"
        )


def _compute_anchor_points(context: UtteranceContext, touch: AnchorMatch) -> float:
    """An anchor's points: less when it is only mentioned (a deed without praise, an option not
    suggested), less in a quotation, none in a formula.
    """
    if "cliche" in context.heard.sentences[touch.sentence].acts:
        return 0.0
    framed = max(
        (
            context.done[act].share
            for act in context.expert.frames[touch.kind]
            if act in context.done
        ),
        default=0.0,
    )
    mentioned = context.expert.unframed + (1 - context.expert.unframed) * framed
    quoted = (
        context.expert.parrot.share
        if touch.sentence in context.relevance.parroted
        else context.expert.quote.share
        if touch.sentence in context.relevance.quoted
        else 1.0
    )
    points = context.expert.anchors[context.persona.need][touch.kind] * mentioned * quoted
    at_home = context.relevance.at_home[touch.sentence] * (
        1.0 if touch.is_in_one_sentence else context.expert.in_two
    )
    return points * at_home if points > 0 else points


def _add_acts(ledger: Ledger, context: UtteranceContext) -> None:
    """Fit: what the agent did, by what this need rewards or punishes.

    What is good counts in full only when it takes up what this person told; said to anyone it is
    worth little, and less each time. What is not wanted is not wanted every time.
    """
    expert, need, done = context.expert, context.persona.need, context.done
    acts = {act: points for act, points in expert.acts[need].items() if act in done}
    for act, points in acts.items():
        if points < 0 and not _is_quoted(act, context.heard, context.dialogue):
            share, _, text = done[act]
            ledger.add(
                f"act:{act}",
                points * share,
                f"{ACT_IN_WORDS[act]}, which they do not want: “{quote(text)}”",
            )
    gains = [
        (expert.told_back[need] * context.relevance.uptake * context.credibility, "told_back", "")
    ]
    gains += _compute_gains({act: points for act, points in acts.items() if points > 0}, context)
    left = expert.act_cap
    for points, act, text in sorted(gains, reverse=True):
        points = min(points, left)
        left -= points
        note = f"{ACT_IN_WORDS[act]}: “{quote(text)}”" if text else "took up what they had told"
        ledger.add(f"act:{act}", points, note)


def _compute_gains(
    wanted: dict[str, float], context: UtteranceContext
) -> list[tuple[float, str, str]]:
    """What each wanted act is worth, with the act and the sentence that did it."""
    if not wanted:
        return []
    relevance, rule, sentences = context.relevance, context.expert.touch, context.heard.sentences
    empty = (
        relevance.stale
        | relevance.spliced
        | _find_hollow_sentences(context.heard, relevance.story_share)
    )
    reached = [
        (one, meant)
        for number, (one, meant) in enumerate(
            zip(sentences, relevance.sentence_uptake, strict=True)
        )
        if number not in empty
    ]
    done_so = combine_acts([one for one, _ in reached]) if empty else context.done
    before = [one.acts for one in context.earlier]
    gains = []
    for act, points in wanted.items():
        if act in done_so:
            share, most, text = done_so[act]
            uptake = (
                relevance.uptake if act in _OF_THE_WHOLE else _max_act_uptake(act, reached) / most
            )
            times = sum([act in acts for acts in before])
            meant = uptake * rule.wear**times
            for_anyone = (1 - uptake) * rule.floor * rule.wear_for_anyone**times
            worn = (
                rule.same_words
                if before and _reuses_phrases(act, reached, context.dialogue)
                else 1.0
            )
            gains.append(
                (points * share * (meant + for_anyone) * worn * context.credibility, act, text)
            )
    return gains


def _add_overall_logit(ledger: Ledger, context: UtteranceContext) -> None:
    """What the utterance does taken together: less of what the need wants and more of something
    else costs, the contrary counts as far as it reaches them. Few words do not say which.
    """
    rule = context.expert.whole.get(context.persona.need)
    if rule and context.heard.evidence:
        logits = load_act_classifier().mean_logits(context.heard.evidence)
        logit = rule.shift + sum([share * logits[act] for act, share in rule.leaning.items()])
        points = (
            rule.points * math.tanh(logit / 2) * min(1.0, context.heard.word_count / rule.words)
        )
        if points > 0:
            uptake = (
                context.relevance.uptake
                + (1 - context.relevance.uptake) * context.expert.touch.floor
            )
            ledger.add(
                ReasonCode.WHOLE,
                points * uptake * context.credibility,
                "on the whole it did what they hope for",
            )
        else:
            ledger.add(
                ReasonCode.WHOLE,
                points,
                "on the whole it did something else than what they hope for",
            )


def _find_hollow_sentences(
    heard: UtteranceAnalysis, story_share: tuple[float, ...]
) -> frozenset[int]:
    """Numbers of the sentences that one says to anyone, that are no sentences, or that are about
    somebody else: what they say of feelings is not meant.
    """
    return frozenset(
        [
            number
            for number, one in enumerate(heard.sentences)
            if "cliche" in one.acts or not one.is_fluent or story_share[number] < 0.5
        ]
    )


def _max_act_uptake(act: str, reached: list[tuple[SentenceAnalysis, float]]) -> float:
    """How surely the act is done, by one sentence, to this very person."""
    return max([one.sure.get(act, 0.0) * meant for one, meant in reached])


def _reuses_phrases(
    act: str, reached: list[tuple[SentenceAnalysis, float]], dialogue: Dialogue
) -> bool:
    """Whether it does the act only in phrases of three words or more that the agent did it in
    before.
    """
    phrases = [one.acts[act] for one, _ in reached if act in one.acts]
    return bool(phrases) and all(_is_phrase_repeated(phrase, dialogue) for phrase in phrases)


def _is_phrase_repeated(phrase: str, dialogue: Dialogue) -> bool:
    """Whether the agent did it in the very same three words or more before."""
    return phrase.count(" ") >= 2 and any(
        f" {phrase} " in join_stems(utterance) for utterance in dialogue.earlier_utterances
    )


def _add_timing(ledger: Ledger, context: UtteranceContext) -> None:
    """What fits the beginning of a talk: questions do, solutions do not (good human support asks
    first and suggests later).
    """
    turn, acts = len(context.earlier), context.heard.acts.keys()
    if turn < context.expert.asked_first.turns and acts & {"open_question", "invite"}:
        ledger.add(
            ReasonCode.ASKED_FIRST,
            context.expert.asked_first.points,
            "wanted to know more before saying much",
        )
    if (
        turn < context.expert.too_soon.turns
        and "advice" in acts
        and context.persona.need != "practical_advice"
    ):
        ledger.add(
            ReasonCode.TOO_SOON,
            context.expert.too_soon.points,
            "had a solution before hearing the story",
        )


def _is_quoted(act: str, heard: UtteranceAnalysis, dialogue: Dialogue) -> bool:
    """Whether the words that make an unwelcome act are the person's own, given back."""
    phrases = [one.acts[act] for one in heard.sentences if act in one.acts]
    return bool(phrases) and all(
        " " in phrase and any(phrase in join_stems(line) for line in dialogue.user_lines)
        for phrase in phrases
    )


def _add_bad_acts(ledger: Ledger, context: UtteranceContext) -> None:
    """What nobody wants; more of it, and again, costs more."""
    relief, heard, all_done = (
        context.expert.relief.get(context.persona.need, {}),
        context.heard,
        context.done,
    )
    for act, points in context.expert.bad_acts.items():
        done = all_done.get(act)
        if (
            done is None
            or done.share < context.expert.bad_from
            or _is_quoted(act, heard, context.dialogue)
        ):
            continue
        count = max(1, min(3, sum(act in sentence.acts for sentence in heard.sentences)))
        again = 1.25 if any(act in before.acts for before in context.earlier) else 1.0
        points *= relief.get(act, 1.0) * (1 + 0.5 * (count - 1)) * again * done.share
        ledger.add(f"act:{act}", points, f"{ACT_IN_WORDS[act]}: “{quote(done.text)}”")


def _add_form(ledger: Ledger, context: UtteranceContext) -> None:
    """Length and form."""
    shape, heard = context.expert.shape, context.heard
    if heard.word_count < shape.few_words:
        ledger.add(ReasonCode.SHORT, shape.few, f"only {heard.word_count} words")
    over = heard.word_count - shape.many_words
    if over > 0:
        ledger.add(
            ReasonCode.LONG,
            max(shape.most, over * shape.per_word),
            f"a speech of {heard.word_count} words",
        )
    if heard.list_items >= shape.list_items:
        points = shape.list_advice if context.persona.need == "practical_advice" else shape.list
        ledger.add(ReasonCode.LIST, points, f"a list of {heard.list_items} points instead of talk")
    if heard.questions >= shape.questions:
        ledger.add(
            ReasonCode.INTERROGATION, shape.interrogation, f"{heard.questions} questions at once"
        )
