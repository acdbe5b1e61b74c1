"""Parse: what an utterance asks of the person and claims about them, sentence by sentence.

A pure function of the text; knows no card.
"""

import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from rlver_gym.core.words import split_words
from rlver_gym.text.tokens import QUESTION_WORDS


class QuestionKind(StrEnum):
    """What kind of answer a question asks for."""

    WHO = "who"
    WHAT = "what"
    WHEN = "when"
    WHERE = "where"
    WHY = "why"
    HOW = "how"
    HOW_LONG = "how long"
    HOW_MANY = "how many"
    YES_NO = "yes or no"
    TELL_MORE = "tell more"


class Act(StrEnum):
    """What else is done with words, apart from asking and claiming."""

    GREETS = "greets"
    THANKS = "thanked"
    APOLOGISES = "apologised"
    FAREWELL = "farewell"
    SHOUTS = "shouted"
    FOREIGN = "foreign"
    SILENCE = "silence"
    INSULTS = "hurt"
    COMMAND = "command"
    """Such as "/help": said to a machine."""


class Question(NamedTuple):
    """Something that is asked."""

    kind: QuestionKind
    words: tuple[str, ...]
    """From the question word on, lower-case."""
    text: str
    is_guess: bool = False
    """A statement with a question mark or a tag: "He left?", "She's your sister, right?"."""


class Claim(NamedTuple):
    """Something that is said about the person or their story."""

    words: tuple[str, ...]
    text: str
    names: tuple[str, ...] = ()
    """Capitalised words within it, lower-case."""

    @property
    def is_negative(self) -> bool:
        """Whether something is denied."""
        return not NEGATIONS.isdisjoint(self.words)


class ParsedUtterance(NamedTuple):
    """What an utterance addresses to the person."""

    questions: tuple[Question, ...]
    claims: tuple[Claim, ...]
    """Statements and guesses that can be true or false."""
    acts: frozenset[Act]
    wants_more: bool
    """"Go on", "tell me more", without saying about what."""
    word_count: int
    suggestions: tuple[Question, ...] = ()
    """Questions that suggest something to do: "Could you write to her?"."""


NEGATIONS = frozenset("not no never nobody none nothing nowhere neither nor without hardly".split())
_SENTENCE = re.compile(
    r"(?:[^.!?…\n]|(?<=\b[DM]r)\.|(?<=\bM[rs])\.|(?<=\bMrs)\.|(?<=\bSt)\.|(?<=\d)\.(?=\d))+[.!?…]*[\"'”’)]*"
)
_AUX = "is|are|was|were|am|do|does|did|has|have|had|can|could|will|would|should|shall|may|might|must|isn't|aren't|wasn't|weren't|don't|doesn't|didn't|hasn't|haven't|hadn't|won't|wouldn't|couldn't|shouldn't|can't"
_SUBJECT = r"you|u|your|ur|he|she|it|they|we|i|there|that|this|these|those|the|his|her|their|my|any|some|anyone|anybody|someone|everyone|everybody|nobody|one|[A-Z][a-zé]+"
_LEAD = r"(?:(?:and|so|but|or|oh|well|ok|okay|hey|hi|hello|then|also|wait|um|hm+|now|sorry|yes|no|just|alright|right)[,\s]+)*"
_ASKING = re.compile(
    r"(?:^|[,;:–—-]\s*|\b(?:and|but|so|or|if|wonder|wondering|ask|asking|tell"
    rf" me|know|curious|remember|say|explain|describe)\s+){_LEAD}"
    rf"(?P<word>how long|how many|how much|how often|how old|how far|how come|since when|until"
    rf" when|till when|by when|by what|at what|in what|what"
    rf" time|who|whom|whose|what|which|when|where|why|how)\b",
    re.IGNORECASE,
)
_WORD = re.compile(
    r"\b(?P<word>how long|how many|how much|how often|how old|how far|how come|since when|until"
    r" when|by when|what time|who|whom|whose|what|which|when|where|why|how)\b",
    re.IGNORECASE,
)
_INVERTED = re.compile(
    rf"(?:^|[,;:–—-]\s*|\b(?:and|but|so|or)\s+){_LEAD}(?P<word>(?:{_AUX}))\s+(?=(?:{_SUBJECT})\b)",
    re.IGNORECASE,
)
_INDIRECT = re.compile(
    r"\b(?:i(?:'d| would)? (?:just |only |really |do )*(?:wonder|like to know|love to know|want to"
    r" know|am curious|was wondering)|i'm (?:just )?(?:wondering|curious)|"
    r"(?:can|could|may|might|would|will) (?:you|i|u)(?: please| maybe| perhaps)* (?:tell"
    r" me|say|describe|explain|ask(?: you)?)|(?:please )?(?:tell|explain to|describe to) me|if i"
    r" (?:may|can|might) ask|do you (?:know|remember))\b",
    re.IGNORECASE,
)
_TELL_ABOUT = re.compile(
    r"^(?:\W*\w+,\s+)?(?:(?:and|so|ok|okay|please|well|but|can|could|would|will|you|maybe|do)\s+)*(?:tell|talk"
    r" to|say|explain to)\s+me\s+(?:a (?:bit|little) |some|any)?(?:something |more |again"
    r" )*(?:about|of)\s+(?P<what>.+)|\bwhat about\s+(?P<about>.+)|\bhow about\s+(?P<how>.+)",
    re.IGNORECASE,
)
_MORE = re.compile(
    r"\b(?:tell me (?:more|everything|the rest|all)|(?:say|talk|tell me) (?:\w+ ){0,3}more(?:"
    r" (?:about|of) (?:that|it|this|all that|all of (?:it|that|this)|everything))?|go on|say"
    r" more|keep going|please continue|i'm (?:all ears|listening)|i am listening|what else|and"
    r" then|what happened (?:then|next)|take your time)\b",
    re.IGNORECASE,
)
_SUGGESTION = re.compile(
    rf"^{_LEAD}(?:(?:maybe|perhaps|if you)\s+)?(?:(?:could|can|would|might) (?:you|it|that|there"
    r" be)\b(?! (?:tell|say|explain|describe|imagine|know|remember|talk|share)\b)|(?:have|had) you"
    r" (?:ever )?(?:thought (?:about|of)|considered|tried)\b|"
    r"what if (?:you|we)\b|what about (?:\w+ing)\b|how about\b|why don't (?:you|we)\b|why"
    r" not\b|shall we\b|should you\b|do you think you (?:could|can|might)\b|what would happen"
    r" if\b|is there (?:a way|any way|someone|somebody|anyone|anybody) (?:you|that you|to)\b)",
    re.IGNORECASE,
)
_ADVICE = re.compile(
    r"\b(?:you (?:should|could|might want to|might try|need to|ought to|have to|had better)|why"
    r" don't you|i(?:'d| would) (?:suggest|recommend|try|talk|write|ask|tell|go|give|take)|my"
    r" advice|try (?:to|and|\w+ing)|maybe"
    r" (?:write|ask|tell|talk|try|go|call|ring|take|give|just|start))\b|"
    r"^\W*(?:just"
    r" )?(?:give|write|tell|ask|talk|call|ring|go|take|put|start|stop|try|get|make|let|sleep|breathe|forget)\b(?! me)",
    re.IGNORECASE | re.MULTILINE,
)
_VAGUE = re.compile(
    r"\babout (?:that|it|this|all (?:of )?(?:that|it|this)|everything)\W*$", re.IGNORECASE
)
_TAG = re.compile(
    r"[,–—-]?\s*\b(?:right|correct|yes|no|true|huh|eh|yeah|or not|is (?:that|it)"
    r" (?:right|so|true|how it (?:was|went|is|happened))|have i got that right|am i right|did i"
    r" get that right|if i(?:'ve| have)? understood(?: it| you)?(?: right|"
    rf" correctly)?|(?:{_AUX})(?: not)?\s+(?:you|he|she|it|they|i|we|that))\s*[?.!]*$",
    re.IGNORECASE,
)
_OPEN_WH = re.compile(
    rf"^{_LEAD}(?:how (?:long|many|much|often|old|far|come)|since when|until when|till when|by"
    r" when|at what|what"
    rf" time|(?:who|whom|whose|what|which|when|where|why|how)(?:'s|'re|'d|'ll)?)\b(?!\s+a\b)(?:\s+\w+){{0,3}}?\s*(?:(?:{_AUX}|'s|'re|'d|happened|made|makes|said|told|came|went|kept|else|about)\b|$)",
    re.IGNORECASE,
)
_RELATIVE = re.compile(
    rf"^{_LEAD}(?:what|who|where|how|why|which|that)\s+(?:you|u|i|he|she|they|we|it|a|an)(?:'\w+)?\b",
    re.IGNORECASE,
)
"""How a statement begins that looks like a question: "What you need is…"."""
_OPEN_WH_UNMARKED = re.compile(
    rf"^{_LEAD}(?:how (?:long|many|much|often|old|far|come)|since when|what"
    rf" time|(?:who|whom|whose|what|which|when|where|why|how)(?:'s|'re|'d|'ll)?)\b(?!\s+a\b)\s*(?:(?:\w+\s+)?(?:{_AUX}|'s|'re|'d|happened|else)\b(?!\s+(?:with|to)"
    r" me\b)|$)",
    re.IGNORECASE,
)
"""How a question begins that lacks its mark."""
_GREETING = re.compile(
    r"^\W*(?:hi|hello|hey|hiya|good"
    r" (?:morning|evening|afternoon|day)|greetings|howdy)(?:\s+(?:there|again|everyone|you|\w{2,12}))?\W*$",
    re.IGNORECASE,
)
_THANKS = re.compile(
    r"\b(?:thank you|thanks|thx|cheers|i(?:'m| am) grateful|i appreciate (?:that|you|it))\b",
    re.IGNORECASE,
)
_APOLOGY = re.compile(
    r"\b(?:i(?:'m| am)(?: so| very| really| truly)? sorry (?:if i|that i|for (?:what"
    r" i|my|being|saying|pushing|asking|sounding|interrupting|the"
    r" (?:way|advice|question|list))|about (?:what i|my|before|earlier|that))|i apologi[sz]e|my"
    r" apologies|my mistake|my bad|forgive me|that came out wrong|i shouldn't have"
    r" (?:said|asked|pushed|told)|sorry,? (?:i(?! hear)|what i|that was|my|shouldn't have|for"
    r" (?:that|before|earlier|pushing|asking|what))|i take (?:it|that) back)\b",
    re.IGNORECASE,
)
_INSULT = re.compile(
    r"\b(?:you(?:'re| are)(?: (?:just|really|all|nothing but|being))*(?: such)?(?: an?| the)?"
    r" (?:\w+ ){0,2}?|what an? (?:\w+ ){0,2}?|you (?:\w+ ){0,2}?)"
    r"(?:idiot|fool|coward|doormat|loser|moron|cry-?baby|liar|brat|wimp|weakling|whiner|wuss|show-off|hypocrite|jerk|bitch|bastard|arsehole|asshole|pathetic|stupid|worthless|useless|disgusting|ridiculous|spineless|dumb|selfish|lazy|weak|crazy|insane|spoilt|spoiled)\b"
    r"|\b(?:shut up|grow up|get a life|get over yourself|screw you|fuck (?:you|off)|nobody"
    r" (?:likes|cares about) you|stop (?:whining|moaning|wallowing|crying))\b",
    re.IGNORECASE,
)
_OF_INSULT = frozenset(
    """idiot fool coward doormat loser moron crybaby baby cry liar brat wimp weakling whiner wuss
    show hypocrite jerk bitch bastard arsehole asshole pathetic stupid worthless useless
    disgusting ridiculous spineless dumb selfish lazy weak crazy insane spoilt spoiled shut
    grow get screw fuck nobody stop""".split()
)
_FAREWELL = re.compile(
    r"\b(?:good ?bye|bye(?: bye)?|good night|see you (?:later|soon|tomorrow)|talk to you"
    r" (?:later|soon|tomorrow)|take care(?: of yourself)?[.!]*$|i(?:'ve| have)? (?:got"
    r" to|gotta|have to|need to|must|should) (?:go|run|leave|log off|head off)|i(?:'m| am) off(?:"
    r" now)?[.!]*$|speak soon|farewell|until next time)\b",
    re.IGNORECASE,
)
_SHOUTED = re.compile(r"[A-Z]{2,}")
_MAX_SENTENCES = 60


def _straight(text: str) -> str:
    return text.replace("’", "'").replace("‘", "'")


@lru_cache(maxsize=4)
def sentences_of(text: str) -> tuple[str, ...]:
    """The sentences of an utterance, apostrophes made straight and runs of blanks made one."""
    found: list[str] = []
    for sentence in map(
        str.strip, _SENTENCE.findall(_BLANKS.sub(" ", _straight(text)))[:_MAX_SENTENCES]
    ):
        split = _TWO_QUESTIONS.search(sentence) if sentence.endswith("?") else None
        found += [f"{sentence[: split.start()]}?", sentence[split.end() :]] if split else [sentence]
    return tuple(found)


_BLANKS = re.compile(r"[ \t]{2,}")
_TWO_QUESTIONS = re.compile(
    rf"(?<=\w),?\s+(?:and|or|but)\s+(?=(?:who|what|when|where|why|how|{_AUX})\s+\w+\s+\w+)(?!.*,?\s+(?:and|or|but)\s+(?:who|what|when|where|why|how)\b)",
    re.IGNORECASE,
)
"""Where the second of two questions in one sentence begins: "How are you, and when did you find
out?".
"""


@lru_cache(maxsize=4)
def parse_utterance(text: str) -> ParsedUtterance:
    """What an utterance asks, claims and does.

    Kept for a moment: several steps of a turn ask for it.
    """
    if not text.strip():
        return ParsedUtterance((), (), frozenset({Act.SILENCE}), False, 0)
    plain = _straight(text)
    questions: list[Question] = []
    claims: list[Claim] = []
    count = 0
    for sentence in sentences_of(text):
        words = split_words(sentence)
        count += len(words)
        if words:
            question = _question(sentence, words)
            if question is None or question.is_guess:
                claims.append(_claim(sentence, words))
            else:
                claims += _claims_before(sentence, question)
            if question is not None:
                questions.append(question)
    suggestions = [question for question in questions if _is_suggestion(question)]
    questions = [
        question for question in questions if question not in suggestions and not _is_echo(question)
    ]
    more = bool(_MORE.search(plain))
    return ParsedUtterance(
        tuple(questions),
        tuple(claims),
        _acts(plain, count, bool(questions), split_words(plain)),
        more,
        count,
        tuple(suggestions),
    )


@lru_cache(maxsize=16_384)
def question_in(text: str) -> Question | None:
    """The last question of a text; None when it asks nothing.

    Kept, because cards of one situation hold the same questions.
    """
    for sentence in reversed(sentences_of(text)):
        words = split_words(sentence)
        question = _question(sentence, words) if words else None
        if question is not None and not _is_suggestion(question) and not _is_echo(question):
            return question
    return None


def _is_suggestion(question: Question) -> bool:
    return _SUGGESTION.search(question.text) is not None


_MIDDLE_TAG = re.compile(rf",\s*(?:{_AUX})\s+(?:it|that|he|she|they|you)\s*,", re.IGNORECASE)


_ABOUT_WORDS = frozenset({"about", "tell", "explain", "say", "talk"})
_INDIRECT_WORDS = frozenset(
    "wonder wondering like love want curious tell say describe explain ask know remember".split()
)
_AUX_WORDS = (
    frozenset(word.split("'")[0].removesuffix("n") for word in _AUX.split("|"))
    | frozenset(_AUX.split("|"))
    | {"can", "will"}
)


def _question(sentence: str, words: tuple[str, ...]) -> Question | None:
    """What a sentence asks; None for a statement."""
    sentence = _MIDDLE_TAG.sub(",", sentence)
    is_marked = sentence.rstrip("\"'”) ").endswith("?")
    has = frozenset(words)
    about = (
        None
        if has.isdisjoint(_ABOUT_WORDS) or (_MORE.search(sentence) and _VAGUE.search(sentence))
        else _TELL_ABOUT.search(sentence)
    )
    if about and (is_marked or about.group("what")):
        return Question(
            QuestionKind.TELL_MORE,
            split_words(about.group("what") or about.group("about") or about.group("how")),
            sentence,
        )
    indirect = None if has.isdisjoint(_INDIRECT_WORDS) else _INDIRECT.search(sentence)
    if indirect:
        found = _WORD.search(sentence, indirect.end())
        if found:
            return _open_question(sentence, found)
        condition = re.search(r"\b(?:if|whether)\s+(.+)", sentence[indirect.end() :])
        if condition:
            return Question(QuestionKind.YES_NO, split_words(condition.group(1)), sentence)
    if len(words) <= 12 and _MORE.search(sentence):
        return None
    if is_marked:
        return _marked_question(sentence, words)
    if len(words) > 1 and has.isdisjoint(QUESTION_WORDS):
        inverted = None if has.isdisjoint(_AUX_WORDS) else _INVERTED.match(sentence)
        return (
            Question(QuestionKind.YES_NO, words, sentence)
            if inverted and _is_unmarked_question(sentence, words)
            else None
        )
    if (
        _OPEN_WH_UNMARKED.search(sentence)
        and words[:1] != ("when",)
        and not _RELATIVE.search(sentence)
    ):
        found = _ASKING.search(sentence)
        return _open_question(sentence, found) if found else None
    if _OPEN_WH.search(sentence) and re.match(rf"when\s+(?:{_AUX})\b", sentence, re.IGNORECASE):
        return Question(QuestionKind.WHEN, words, sentence)
    inverted = _INVERTED.match(sentence)
    if inverted and _is_unmarked_question(sentence, words):
        return Question(QuestionKind.YES_NO, words, sentence)
    return None


def _marked_question(sentence: str, words: tuple[str, ...]) -> Question:
    """What a sentence with a question mark asks."""
    tag = _TAG.search(sentence)
    if tag and tag.start() > 3 and not _OPEN_WH.search(sentence) and not _INVERTED.match(sentence):
        return Question(QuestionKind.YES_NO, split_words(sentence[: tag.start()]), sentence, True)
    inverted, found = _last_match(_INVERTED, sentence), _ASKING.search(sentence)
    if (
        found
        and _OPEN_WH.search(sentence[found.start("word") :])
        and not (inverted and inverted.start("word") < found.start("word") - 1)
    ):
        return _open_question(sentence, found)
    if inverted:
        return Question(
            QuestionKind.YES_NO, split_words(sentence[inverted.start("word") :]), sentence
        )
    if found:
        return _open_question(sentence, found)
    return Question(QuestionKind.YES_NO, words, sentence, True)


def _is_unmarked_question(sentence: str, words: tuple[str, ...]) -> bool:
    """Whether a sentence with the verb first and no question mark asks, rather than wishes or
    supposes.
    """
    return words[0] not in ("may", "might", "had", "should", "must") and not sentence.endswith("!")


def _last_match(pattern: re.Pattern[str], sentence: str) -> re.Match[str] | None:
    found = None
    for found in pattern.finditer(sentence):  # noqa: B007
        pass
    return found


def _open_question(sentence: str, found: re.Match[str]) -> Question:
    words = split_words(sentence[found.start("word") :])
    return Question(_question_kind(words), words, sentence)


def _question_kind(words: tuple[str, ...]) -> QuestionKind:
    for at, word in enumerate(words[:4]):
        after = words[at + 1] if at + 1 < len(words) else ""
        if word == "how":
            if after in ("long", "old"):
                return QuestionKind.HOW_LONG
            if after in ("many", "much", "often", "far"):
                return QuestionKind.HOW_MANY
            return QuestionKind.WHY if after == "come" else QuestionKind.HOW
        if word == "what" and after == "time":
            return QuestionKind.WHEN
        if word in ("who", "whom", "whose"):
            return QuestionKind.WHO
        if word in QUESTION_WORDS:
            return QuestionKind("what" if word == "which" else word)
    return QuestionKind.WHAT


def _claims_before(sentence: str, question: Question) -> list[Claim]:
    """What is stated in front of a question in the same sentence."""
    words = split_words(sentence)
    front = words[: len(words) - len(question.words)]
    return [_claim(sentence, front)] if len(front) >= 5 else []


_CAPITALISED = re.compile(
    r"(?<![.!?…:\"“‘'(]\s)(?<![.!?…:\"“‘'(\n])(?<!^)\b[A-ZÄÖÜÉ][a-zäöüéèàí]{2,}\b"
)
_NO_NAMES = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february march april may
    june july august september october november december christmas easter god english german
    french spanish god's okay mum dad mom gran grandma grandad grandpa mother father aunt
    uncle the what why how and but you your""".split()
)


def _claim(sentence: str, words: tuple[str, ...]) -> Claim:
    return Claim(words, sentence, names_in(sentence))


def names_in(sentence: str) -> tuple[str, ...]:
    """The capitalised words within a sentence that can be names, lower-case."""
    return tuple(
        name for name in map(str.casefold, _CAPITALISED.findall(sentence)) if name not in _NO_NAMES
    )


def _is_echo(question: Question) -> bool:
    """Whether it is only an exclamation at what was heard: "Three points??"."""
    return (
        question.is_guess
        and len(question.words) <= 4
        and "you" not in question.words
        and "is" not in question.words
    )


def gives_advice(text: str) -> bool:
    """Whether a text tells somebody what to do: "You should rest.", "Write to her."."""
    return bool(_ADVICE.search(text))


_OF_APOLOGY = frozenset(
    "sorry apologise apologize apologies mistake bad forgive wrong back should not".split()
)
_OF_THANKS = frozenset("thank thanks thx cheers grateful appreciate".split())
_OF_FAREWELL = frozenset(
    "bye goodbye night see talk care go run leave log head off speak farewell until".split()
)


def _acts(text: str, count: int, asks: bool, words: tuple[str, ...]) -> frozenset[Act]:
    found = set()
    has = frozenset(words)
    shouted = _SHOUTED.findall(text)
    if text.lstrip().startswith("/") and count <= 4:
        found.add(Act.COMMAND)
    if (
        len(shouted) >= 2
        and sum(map(len, shouted)) >= 8
        and sum(map(str.isupper, text)) > 0.8 * sum(map(str.isalpha, text))
    ):
        found.add(Act.SHOUTS)
    if count <= 5 and _GREETING.match(text):
        found.add(Act.GREETS)
    if not has.isdisjoint(_OF_APOLOGY) and _APOLOGY.search(text):
        found.add(Act.APOLOGISES)
    if count <= 30 and not has.isdisjoint(_OF_THANKS) and _THANKS.search(text):
        found.add(Act.THANKS)
    if not has.isdisjoint(_OF_INSULT) and _INSULT.search(text):
        found.add(Act.INSULTS)
    if not asks and count <= 40 and not has.isdisjoint(_OF_FAREWELL) and _FAREWELL.search(text):
        found.add(Act.FAREWELL)
    if _is_foreign(text, words):
        found.add(Act.FOREIGN)
    return frozenset(found)


_ENGLISH = frozenset(
    "the a to of and i you it is that in was for on my me your are be have with so this do not what"
    " he she they we but at if just about as can how there or am had were who when why did no yes"
    " all from his her will would".split()
)


def _is_foreign(text: str, words: tuple[str, ...]) -> bool:
    """Whether it is in another language than English: another script, or little words of another
    and hardly an English one.
    """
    if not text.isascii():
        letters = [char for char in text if char.isalpha()]
        if sum(map(str.isascii, letters)) < 0.6 * len(letters):
            return True
    if not 3 <= len(words) <= 200:
        return False
    return (
        sum(word in _FOREIGN for word in words)
        >= 0.3 * len(words)
        > sum(word in _ENGLISH for word in words)
    )


_FOREIGN = frozenset(
    """ich du er sie wir ist nicht und das der die ein eine mir dir mich dich es tut leid wie geht
    je tu il elle nous vous est pas et le la les un une moi toi mais que qui dans pour yo tu
    el ella no es y lo los las mi ti pero con por para muy estoy eres como esta siento mucho
    io non che di il lo gli per sono sei come mi dispiace het een niet ik jij en van met jag
    du inte och att det som nie jest co tak jak jeg ikke og saya tidak anda bu ve bir ne ma
    mon ton quelle quel""".split()
)
