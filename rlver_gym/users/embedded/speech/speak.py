"""Speak: the person's answer.

One move a turn: a correction, an answer, a reply to what was said, or the next piece of the story;
never the same sentence twice.
"""

from collections.abc import Sequence

from rlver_gym.conversation.parse import gives_advice
from rlver_gym.conversation.sentences import Sentence
from rlver_gym.core.dialogue import Appraisal, Dialogue, Reason
from rlver_gym.core.emotion import Band, Outcome
from rlver_gym.core.inquiries import Inquiry
from rlver_gym.core.user import Scene
from rlver_gym.core.words import FUNCTION_WORDS, split_words
from rlver_gym.text.names import introduce
from rlver_gym.users.embedded.english import describe
from rlver_gym.users.embedded.speech.answer import wordings
from rlver_gym.users.embedded.speech.candidates import (
    Candidate,
    answers_to,
    asks_own_fact,
    is_factual,
)
from rlver_gym.users.embedded.speech.lines import choose, split_line
from rlver_gym.users.embedded.speech.moment import Moment, is_near_duplicate
from rlver_gym.users.embedded.speech.names import whose_name
from rlver_gym.users.embedded.speech.react import (
    ALONE,
    GENTLE,
    YOU_WORDS,
    asks,
    guesses_a_feeling,
    is_about_others,
    manner_of_act,
    manner_of_form,
    reaction,
    sentence_to_react_to,
    suggests,
)
from rlver_gym.users.embedded.speech.reactions import reaction_to
from rlver_gym.users.embedded.speech.tell import tell_next

_INVITED = 0.3
"""The probability from which somebody wants to hear more."""
_INVITATION = 14
"""Words of a sentence that only says to go on, at most."""
_INVITATIONS = frozenset(map(str, (Inquiry.MORE, Inquiry.HAPPENED)))
_THOUGHT_OF = {
    "heard": "touched",
    "warmed": "touched",
    "thinking": "touched",
    "helped": "touched",
    "asked": "eased",
    "hurt": "hurt",
    "pushed": "missed",
    "repeated": "missed",
    "puzzled": "puzzled",
    "cold": "cold",
}
_LAST_RESORT = (
    "I don't know what else to say.",
    "I've said what I had to say, I think.",
    "Let me sit with that for a moment.",
    "It's late.",
    "That's all there is.",
)
_PLAIN = {
    "greets": "puzzled",
    "thanked": "cold",
    "apologised": "cold",
    "shouted": "hurt",
    "foreign": "puzzled",
    "silence": "puzzled",
    "farewell": "goodbye_content",
    "unknown": "puzzled",
    "not_yet": "cold",
    "seen": "heard",
    "retold": "heard",
    "sympathised": "heard",
    "normalised": "heard",
    "reassured": "cold",
    "belittled": "hurt",
    "invited": "asked",
    "given_time": "asked",
    "confided": "cold",
    "teased": "cold",
    "encouraged": "warmed",
    "explained": "thinking",
    "offered": "asked",
    "confirmed": "heard",
    "unconfirmed": "cold",
    "machine": "cold",
    "unsure": "thinking",
    "suggested": "thinking",
    "other_minds": "thinking",
}
"""Which older manner stands in where a card has none of a newer one."""
_BRIEF = 7
"""Words of a reaction that may stand before an answer."""
_REACTS = 0.45
"""How often a reaction stands before an answer."""
_ACKNOWLEDGED = 0.45
"""The probability from which a remark is acknowledged beside a question."""
_ROOM = 13
"""Words of an answer beside which a second one has room."""
_LATER = 0.5
"""What stands last is answered rather, in nats."""
_SECOND = -0.7
"""The score from which a second question is answered too."""
_MOST_HINTS = 3
_FIRST_HINT_AFTER, _HINTS_AFTER = 0.45, 0.2
"""How often the need shows behind an answer, before it has shown and afterwards."""
_AGAIN = ("As I said", "Like I said")
_NO = ("No.", "No, that's not right.")


def thought(scene: Scene, dialogue: Dialogue, reasons: tuple[Reason, ...], change: int) -> str:
    """What the person thinks and does not say; empty when they have thought all that they have."""
    done = describe(scene.persona, dialogue).evidence if scene.persona.language == "en" else reasons
    kind = _THOUGHT_OF[reaction_to(done, change)]
    if kind in ("touched", "eased") or change > 0:
        kind = "touched" if change >= 4 else "eased" if change > 0 else "missed"
    had = {turn.appraisal.thought for turn in dialogue.turns}
    others = ("eased", "touched") if change > 0 else ("missed", "cold", "puzzled")
    for each in (kind, *others):
        fresh = [line for line in getattr(scene.persona.person.thoughts, each) if line not in had]
        if fresh:
            return choose(scene, len(dialogue.turns), "thought", (), fresh)
    return ""


def opening(scene: Scene, emotion: int) -> str:
    """The first words, in the tone of the start emotion."""
    said = scene.persona.situation.openings.in_tone(Band.of(emotion).tone)
    return introduce(scene.persona.situation, said, "")


def answer(scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str:
    """What they say: goodbye; a correction; answers; a reply to what was said; or what comes
    next.
    """
    speech = _AnswerBuilder(Moment(scene, emotion, dialogue, appraisal))
    outcome = scene.card.outcome(emotion, len(dialogue.turns) + 1)
    if outcome is Outcome.CONTENT or outcome is Outcome.LEFT:
        speech.take_leave(outcome)
    else:
        _ = (
            speech.answer_the_act()
            or speech.correct()
            or speech.follow_an_invitation()
            or speech.answer_questions()
            or speech.reply_to_remarks()
            or speech.go_on()
        )
    return speech.text()


class _AnswerBuilder:
    """One answer while it is put together. Each step says whether the answer is complete."""

    def __init__(self, moment: Moment) -> None:
        self.moment = moment
        self.manner = moment.manner
        self.parts: list[str] = []
        self._is_colourable = True

    # The steps.

    def take_leave(self, outcome: Outcome) -> None:
        """Say goodbye, having got what they came for or having had enough."""
        self._is_colourable = False
        if outcome is Outcome.CONTENT:
            self._react()
        self.parts.append(
            self.moment.choose(
                "goodbye",
                (
                    self.manner.goodbye_content
                    if outcome is Outcome.CONTENT
                    else self.manner.goodbye_left
                ),
            )
        )

    def answer_the_act(self) -> bool:
        """Answer silence, a greeting, a farewell and their kind, when that is all there is to
        answer.
        """
        manner = manner_of_act(
            self.moment.parsed, self.moment.parsed.word_count > 12 or self.moment.parsed.wants_more
        )
        if manner is None and not self.moment.parsed.questions:
            manner = manner_of_form(self.moment.reasons)
        if manner is None:
            return False
        self._say(manner)
        if manner in ("greets", "apologised", "thanked") and self.moment.emotion >= 20:
            self.go_on()
        return True

    def correct(self) -> bool:
        """Put right what is wrong about their story."""
        truth = self.moment.answerer.find_correction(self.moment.tone)
        if not truth:
            return False
        self._say_one_of("corrects", self.manner.corrects or _NO)
        self.parts.append(truth)
        return True

    def follow_an_invitation(self) -> bool:
        """Go on with the story when that is what is asked for: "Tell me more.", "What happened
        next?".
        """
        sentences = self.moment.sentences
        if not sentences or not self._invites(sentences[-1]) or not self._tell():
            return False
        self._acknowledge(sentences[-1:])
        return True

    def _invites(self, sentence: Sentence) -> bool:
        label, probability = sentence.classification.ranked[0]
        is_vague = (
            sentence.question is None
            and self.moment.parsed.wants_more
            and len(sentence.words) <= _INVITATION
        )
        return is_vague or (label in _INVITATIONS and probability >= _INVITED)

    def answer_questions(self) -> bool:
        """Answer the question that they know most about, rather the last one, and a second one in
        few words; or say truthfully that they have no answer.
        """
        asking = [sentence for sentence in self.moment.sentences if asks(sentence)]
        found = [
            (candidate._replace(score=candidate.score + _LATER * at / len(asking)), at)
            for at, sentence in enumerate(asking)
            for candidate in answers_to(self.moment, sentence)
        ]
        found.sort(key=lambda pair: -pair[0].score)
        answered: set[int] = set()
        for candidate, at in found:
            is_first = not self.parts
            if at in answered or (not is_first and (candidate.score < _SECOND or self._is_long())):
                continue
            if self._add_answer(asking[at], candidate, is_only=is_first):
                answered.add(at)
                if len(answered) == 2:
                    break
        if answered:
            if not self._is_long():
                self.hint(_HINTS_AFTER if self._hints_given() else _FIRST_HINT_AFTER)
            self._acknowledge(asking)
            return True
        if not asking:
            return False
        self._decline(asking[-1])
        return True

    def reply_to_remarks(self) -> bool:
        """Reply to what was said rather than asked: to the remark that asks most for it."""
        if not self.moment.sentences:
            return False
        if is_about_others(self.moment.reasons) and not self.moment.parsed.questions:
            self._say("puzzled")
            return True
        suggesting = [sentence for sentence in self.moment.sentences if suggests(sentence)]
        telling = [sentence for sentence in self.moment.sentences if gives_advice(sentence.text)]
        for sentence in (*reversed(suggesting), *reversed(telling)):
            lines = self.moment.select_unsaid(
                self.moment.repertoire.to_suggestion(self.moment.known.tokens(sentence.words))
            )
            if lines:
                self.parts.append(self.moment.choose("suggestion", lines))
                return True
        main = sentence_to_react_to(self.moment.sentences, self.moment.reasons)
        if suggesting and main in suggesting:
            self._say("suggested")
            return True
        for feeling in main.feelings if guesses_a_feeling(main) else ():
            lines = self.moment.select_unsaid(
                self.moment.filter_by_trust(self.moment.repertoire.to_feeling(feeling))
            )
            if lines:
                self.parts.append(self.moment.choose("feeling", lines))
                return True
        manner = reaction(main, self.moment.reasons)
        if manner is not None:
            self._say(manner)
            if manner in ALONE:
                return True
        thread = (
            self.moment.choose_thread(self.moment.known.tokens(main.words))
            if manner is None or manner in GENTLE
            else None
        )
        if thread is not None and (not self.parts or self.moment.draw_chance("thread") < 0.5):
            self.parts.append(thread)
            return True
        return bool(self.parts) and self.moment.draw_chance("leave it") < 0.5

    def _acknowledge(self, asking: Sequence[Sentence]) -> None:
        """Now and then, a few words in front of an answer to what else was said."""
        said = [
            sentence
            for sentence in self.moment.sentences
            if sentence not in asking and not sentence.suggests
        ]
        if not said or self.moment.draw_chance("acknowledge") >= _REACTS or self._is_long():
            return
        main = sentence_to_react_to(said, self.moment.reasons)
        manner = reaction(main, self.moment.reasons, _ACKNOWLEDGED)
        if manner is not None and manner not in ALONE:
            lines = getattr(self.manner, manner) or getattr(self.manner, _PLAIN.get(manner, manner))
            brief = [
                line
                for line in self.moment.select_unsaid(lines)
                if len(split_words(line)) <= _BRIEF and "?" not in line
            ]
            if brief:
                self.parts.insert(0, self.moment.choose("acknowledge", brief))
                self._is_colourable = False

    def go_on(self) -> bool:
        """Let the need show, or tell what comes next to what was spoken about."""
        if self.hint(0.4 if self.moment.turn == 0 or self.moment.appraisal.change <= 0 else 0.2):
            return True
        return self._tell()

    def _tell(self) -> bool:
        """Tell what comes next to what was spoken about."""
        moment = self.moment
        spoken = (
            *moment.words,
            *split_words(moment.dialogue.user_lines[-1]),
            *split_words(" ".join(self.parts)),
        )
        told = tell_next(
            moment.scene, moment.turn, spoken, moment.depth, moment.said_sentences, moment.tone
        )
        if told:
            self.parts.append(told)
        return bool(told)

    def hint(self, chance: float) -> bool:
        """Let the need show, with that chance."""
        fresh = self.moment.select_unsaid(self.moment.hints)
        if (
            self._hints_given() >= _MOST_HINTS
            or not fresh
            or self.moment.draw_chance("hint") >= chance
        ):
            return False
        self.parts.append(self.moment.choose("hint", fresh))
        return True

    def _hints_given(self) -> int:
        return len(self.moment.hints) - len(self.moment.select_unsaid(self.moment.hints))

    def _add_answer(self, sentence: Sentence, answer: Candidate, *, is_only: bool) -> bool:
        if answer.found is None:
            fresh = self.moment.select_unsaid(answer.lines)
            if fresh and not (self.parts and is_near_duplicate(fresh[0], self.parts)):
                self.parts.append(self.moment.choose("answer", fresh))
                return True
            return False
        assert answer.found.match is not None
        entry = answer.found.match.entry
        if entry.depth > self.moment.depth + 1 and self.moment.emotion < 30:
            if is_only:
                self._say("not_yet")
            return is_only
        ways = wordings(entry, self.moment.tone)
        fresh = self.moment.select_unsaid(
            self.moment.answerer.keep_best_wordings(answer.found, ways)
        )
        if not fresh:
            if is_only:
                frames = self.manner.asked_again or _AGAIN
                self._is_colourable = False
                again = [f"{frame.rstrip(',:.')}: {_first_sentence(ways[-1])}" for frame in frames]
                self.parts.append(
                    self.moment.choose("asked again", self.moment.select_unsaid(again) or again)
                )
            return is_only
        if is_near_duplicate(fresh[0], self.parts):
            return False
        said = self.moment.choose("answer", fresh)
        plain = self.moment.answerer.answer_yes_or_no(answer.found, said) if is_only else None
        if plain is not None:
            lines = self.manner.yes if plain else self.manner.no
            self.parts.append(
                self.moment.choose("yes or no", _short(lines) or (("Yes.",) if plain else ("No.",)))
            )
        self.parts.append(said)
        return True

    def _is_long(self) -> bool:
        return len(split_words(" ".join(self.parts))) > _ROOM

    def _decline(self, sentence: Sentence) -> None:
        """Say that they have no answer: to what they would know of themselves, and of names, that
        they keep it to themselves.
        """
        question = sentence.question
        if question is not None and (whose_name(question) is not None or asks_own_fact(question)):
            self._say("not_yet")
        elif is_factual(sentence) or YOU_WORDS.isdisjoint(sentence.words):
            self._say("unknown")
        else:
            self._say("unsure")

    def _react(self) -> None:
        """The reaction to the main remark, when there is one."""
        if self.moment.sentences:
            manner = reaction(
                sentence_to_react_to(self.moment.sentences, self.moment.reasons),
                self.moment.reasons,
            )
            if manner is not None and manner not in ALONE:
                self._say(manner)

    def text(self) -> str:
        """The parts as one text, names introduced, without any sentence that was said before."""
        once = {
            folded: sentence
            for part in reversed(self.parts)
            for folded, sentence in split_line(part).backwards
        }
        fresh = [
            sentence
            for folded, sentence in reversed(once.items())
            if folded not in self.moment.said_sentences
        ]
        if not fresh:
            lines = [
                line for line in _LAST_RESORT if line.casefold() not in self.moment.said_sentences
            ]
            return self.moment.choose("last", lines) if lines else "…"
        told = add_habit(self.moment, " ".join(fresh)) if self._is_colourable else " ".join(fresh)
        heard = "\n".join(
            [
                *self.moment.dialogue.user_lines,
                *self.moment.dialogue.earlier_utterances,
                self.moment.utterance,
            ]
        )
        return introduce(self.moment.scene.persona.situation, told, heard)

    def _say(self, manner: str) -> None:
        """A line of that manner that was not said yet, or of the one that stands in for it."""
        lines = getattr(self.manner, manner) or getattr(self.manner, _PLAIN.get(manner, manner))
        self._say_one_of(manner, lines)

    def _say_one_of(self, purpose: str, lines: Sequence[str]) -> None:
        unused = self.moment.select_unsaid(lines)
        if unused:
            self._is_colourable = False  # these lines are in their own voice
            self.parts.append(self.moment.choose(purpose, unused))


_OF_SOME_QUESTIONS = frozenset({"it", "was", "did"})


def _short(lines: Sequence[str]) -> list[str]:
    """Lines that are a plain yes or no to whatever was asked: "It was, yes." is not."""
    return [
        line
        for line in lines
        if len(words := split_words(line)) <= 3 and _OF_SOME_QUESTIONS.isdisjoint(words)
    ]


def _first_sentence(text: str) -> str:
    return split_line(text).backwards[-1][1] if split_line(text).backwards else text


_OFTEN = 0.35
"""How often a text is coloured."""
_SHORT = 4
"""Words of a text that is left as it is."""


def add_habit(moment: Moment, text: str) -> str:
    """The text with one of their habits before or behind it, now and then."""
    chance = moment.draw_chance("colour")
    if chance >= _OFTEN or len(split_words(text)) < _SHORT:
        return text
    spoken = "\n".join(moment.dialogue.user_lines).casefold()
    before = [one for one in moment.manner.openers if one.casefold() not in spoken]
    after = [one for one in moment.manner.tags if one.casefold() not in spoken]
    if before and chance < 0.5 * _OFTEN:
        opener = moment.choose("opener", before)
        return f"{opener} {text if opener.endswith('.') else _lower_first_letter(text)}"
    return f"{text} {moment.choose('tag', after)}" if after and text.endswith(".") else text


def _lower_first_letter(text: str) -> str:
    """The text as it goes on behind a comma: small, where it does not begin with a name or I."""
    first = text.split(" ", 1)[0].rstrip(",.'").casefold().partition("'")[0]
    return text[0].lower() + text[1:] if first in FUNCTION_WORDS and first != "i" else text
