"""Listen: what an utterance asks and does, sentence by sentence. A pure function of the text; knows
no card.
"""

from enum import StrEnum
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from rlver_gym.core.inquiries import Feeling
from rlver_gym.core.words import split_words
from rlver_gym.users.embedded.hearing.feelings import find_feelings
from rlver_gym.users.embedded.hearing.words import PATTERNS, load_word_set


class Ask(StrEnum):
    """What kind of answer a sentence asks for."""

    WHO = "who"
    WHAT = "what"
    WHEN = "when"
    WHERE = "where"
    WHY = "why"
    HOW = "how"
    HOW_LONG = "how long"
    HOW_MANY = "how many"
    YES_NO = "yes or no"
    ABOUT = "tell about"
    MORE = "more"
    """Nothing in particular: "Go on.", "What happened then?"."""
    PREFERENCE = "preference"
    """What they want of this talk: "Would you like advice, or should I just listen?"."""
    MEANING = "meaning"
    """What they meant by what they said last."""
    WHOM = "whom"
    """Whom they meant by what they said last."""


FACTUAL = frozenset({Ask.WHO, Ask.WHEN, Ask.WHERE, Ask.HOW_LONG, Ask.HOW_MANY})


class Act(StrEnum):
    """What is done with the words themselves; the value is the manner that answers it."""

    GREETS = "greets"
    THANKS = "thanked"
    APOLOGISES = "apologised"
    FAREWELL = "farewell"
    SHOUTS = "shouted"
    FOREIGN = "foreign"
    SILENCE = "silence"
    INSULTS = "hurt"
    COMMAND = "puzzled"


class Sentence(NamedTuple):
    """One sentence, or one of two questions in a sentence."""

    text: str
    words: tuple[str, ...]
    asked: tuple[str, ...]
    """The words of what is asked, without the frame of politeness around it."""
    ask: Ask | None
    """None for a sentence that asks nothing."""
    is_guess: bool
    """A statement with a question mark or a tag: "He left?", "She's your sister, right?"."""
    suggests: bool
    """Whether it suggests to do something."""
    feelings: tuple[Feeling, ...]


class Utterance(NamedTuple):
    """What was said, taken apart."""

    sentences: tuple[Sentence, ...]
    acts: frozenset[Act]
    words: tuple[str, ...]

    @property
    def questions(self) -> list[Sentence]:
        return [one for one in self.sentences if one.ask is not None]


_MOST_SENTENCES, _MOST_CHARS = 14, 3_000
_ENGLISH = load_word_set("little words")
_FOREIGN = load_word_set("little words of other languages")


@lru_cache(maxsize=256)
def parse_utterance(text: str) -> Utterance:
    """Take an utterance apart. Kept for a moment: several steps ask for it."""
    plain = text[:_MOST_CHARS].replace("’", "'").replace("‘", "'")
    plain = PATTERNS["spaces"].sub(" ", plain)
    if not plain.strip():
        return Utterance((), frozenset({Act.SILENCE}), ())
    found: list[Sentence] = []
    is_split = False
    pattern = PATTERNS["sentence"] if _may_contain_inner_stop(plain) else PATTERNS["plain_sentence"]
    for whole in map(str.strip, pattern.findall(plain)):
        parts = _split_questions(whole) if whole.endswith("?") else (whole,)
        is_split = is_split or len(parts) > 1
        for part in parts:
            words = split_words(part)
            if words:
                found.append(_parse_sentence(part, words, found[-1] if found else None))
    words = split_words(plain) if is_split else tuple(chain(*[one.words for one in found]))
    sentences = tuple(found[-_MOST_SENTENCES:])
    asks = any(one.ask is not None for one in sentences)
    return Utterance(sentences, _find_acts(plain, words, asks), words)


def _may_contain_inner_stop(text: str) -> bool:
    return (
        any(title in text for title in _TITLES) or PATTERNS["inner_stop"].search(text) is not None
    )


_TITLES = ("Dr.", "Drs.", "Mr.", "Mrs.", "Ms.", "St.")


def _split_questions(sentence: str) -> list[str]:
    if PATTERNS["second"].search(sentence) is None or PATTERNS["preference"].search(sentence):
        return [sentence]
    found = next(
        (
            one
            for one in PATTERNS["two"].finditer(sentence)
            if _asks_something(sentence[: one.start()])
        ),
        None,
    )
    if found is None:
        return [sentence]
    return [f"{sentence[: found.start()]}?", sentence[found.end() :]]


def _asks_something(text: str) -> bool:
    return bool(
        PATTERNS["wh_first"].match(text)
        or PATTERNS["inverted"].match(text)
        or PATTERNS["frame"].match(text)
    )


def _parse_sentence(text: str, words: tuple[str, ...], before: Sentence | None) -> Sentence:
    feelings = find_feelings(words)
    ask, asked, is_guess = _find_question(text, words)
    if ask is not None and not feelings and before is not None and len(words) <= 4:
        feelings = before.feelings  # "I'd be furious. Are you?"
    is_ellipsis = len(asked) <= 2 or (len(asked) <= 3 and asked[0] in _PREPOSITIONS)
    if ask in _OPEN and is_ellipsis and before is not None and before.ask is not None:
        asked = (*asked, *before.asked)  # "…, and for how much?"
    suggests = (
        ask in (None, Ask.YES_NO, Ask.WHAT, Ask.HOW, Ask.WHY)
        and _may_be_suggestion(words)
        and PATTERNS["suggestion"].search(text) is not None
    )
    return Sentence(text, words, asked, None if suggests else ask, is_guess, suggests, feelings)


_OF_SUGGESTION = load_word_set("suggesting")
_OF_SUGGESTION_WITH = (
    ("you", frozenset({"have", "had"})),
    ("what", frozenset({"if", "about"})),
    ("how", frozenset({"about"})),
)
"""Words of which one is in every sentence that suggests something."""


def _may_be_suggestion(words: tuple[str, ...]) -> bool:
    return not _OF_SUGGESTION.isdisjoint(words) or any(
        one in words and not others.isdisjoint(words) for one, others in _OF_SUGGESTION_WITH
    )


_SUPPOSING = frozenset({"may", "might", "had", "should", "must"})
_PREPOSITIONS = frozenset("for at in by to with from about of since until".split())
_OPEN = frozenset(
    {Ask.WHO, Ask.WHAT, Ask.WHEN, Ask.WHERE, Ask.WHY, Ask.HOW, Ask.HOW_LONG, Ask.HOW_MANY}
)


_OF_PREFERENCE = load_word_set("asking what they prefer")
_OF_MORE = load_word_set("asking for more")
_OF_FRAME = load_word_set("framing what is asked")
_BEGINS = load_word_set("beginning what is asked")
"""Words with which what is asked begins, with what is said to lead to it."""


def _find_question(text: str, words: tuple[str, ...]) -> tuple[Ask | None, tuple[str, ...], bool]:
    is_marked = text.rstrip("\"'”)* ").endswith("?")
    has = frozenset(words)
    if len(words) <= 12 and is_marked and PATTERNS["whom"].match(text):
        return Ask.WHOM, words, False
    if len(words) <= 9 and (is_marked or words[:1] == ("i",)) and PATTERNS["meaning"].match(text):
        return Ask.MEANING, words, False
    if (
        (is_marked or words[:1] == ("tell",))
        and not has.isdisjoint(_OF_PREFERENCE)
        and PATTERNS["preference"].search(text)
    ):
        return Ask.PREFERENCE, words, False
    about = PATTERNS["about"].search(text) if "about" in has else None
    if about:
        what = about.group(about.lastgroup or "what")
        return (Ask.MORE if PATTERNS["vague"].match(what) else Ask.ABOUT), split_words(what), False
    bare = PATTERNS["last_words"].sub("", text) if "if" in has or "that" in has else text
    begins = not _BEGINS.isdisjoint(words[:1])
    framed = PATTERNS["frame"].match(bare) if begins and not has.isdisjoint(_OF_FRAME) else None
    if framed:
        asked = framed.group("asked")
        return _classify_question(split_words(asked)), split_words(asked), False
    if len(words) <= 14 and not has.isdisjoint(_OF_MORE) and PATTERNS["more"].search(text):
        return Ask.MORE, words, False
    if not is_marked:
        if not begins:
            return None, words, False
        if (
            PATTERNS["unmarked"].match(text)
            and not PATTERNS["relative"].match(text)
            and words[:1] != ("when",)
        ):
            return _classify_question(words), words, False
        inverted = PATTERNS["inverted"].match(text)
        if inverted and _SUPPOSING.isdisjoint(words[:1]) and text[-1] != "!":
            return Ask.YES_NO, words, False
        return None, words, False
    first = PATTERNS["wh_first"].match(bare)
    if first:
        asked = split_words(bare[first.start("word") :])
        return _classify_question(asked), asked, False
    tag = PATTERNS["tag"].search(text)
    inverted = list(PATTERNS["inverted"].finditer(bare))
    within = list(PATTERNS["wh_within"].finditer(bare))
    if tag and tag.start() > 3 and not (inverted and inverted[0].start() == 0):
        return Ask.YES_NO, split_words(text[: tag.start()]), True
    if within and not (inverted and inverted[-1].start("word") < within[-1].start("word")):
        asked = split_words(bare[within[-1].start("word") :])
        return _classify_question(asked), asked, False
    if inverted:
        return Ask.YES_NO, split_words(bare[inverted[-1].start("word") :]), False
    if len(words) <= 4 and "you" not in words:
        return None, words, False  # only an exclamation at what was heard: "Three points??"
    return Ask.YES_NO, words, True


def _classify_question(words: tuple[str, ...]) -> Ask:
    for at, word in enumerate(words[:4]):
        after = words[at + 1] if at + 1 < len(words) else ""
        if word == "how":
            if after in ("long", "old"):
                return Ask.HOW_LONG
            if after in ("many", "much", "often", "far"):
                return Ask.HOW_MANY
            return Ask.WHY if after == "come" else Ask.HOW
        if word == "what" and after == "time":
            return Ask.WHEN
        if word in ("who", "whom", "whose"):
            return Ask.WHO
        if word in ("what", "which"):
            return Ask.WHAT
        if word in ("when", "where", "why"):
            return Ask(word)
    return Ask.YES_NO


_OF_APOLOGY = load_word_set("apologising")
_OF_INSULT = load_word_set("insulting")


def _find_acts(text: str, words: tuple[str, ...], asks: bool) -> frozenset[Act]:
    found = set()
    count = len(words)
    shouted = PATTERNS["capitals"].findall(text)
    if text.lstrip().startswith("/") and count <= 4:
        found.add(Act.COMMAND)
    if len(shouted) >= 2 and sum(map(len, shouted)) >= 8:
        letters = [char for char in text if char.isalpha()]
        if sum(map(str.isupper, letters)) > 0.8 * len(letters):
            found.add(Act.SHOUTS)
    if count <= 5 and PATTERNS["greeting"].match(text):
        found.add(Act.GREETS)
    has = frozenset(words)
    if not has.isdisjoint(_OF_APOLOGY) and PATTERNS["apology"].search(text):
        found.add(Act.APOLOGISES)
    if count <= 30 and PATTERNS["thanks"].search(text):
        found.add(Act.THANKS)
    if not has.isdisjoint(_OF_INSULT) and PATTERNS["insult"].search(text):
        found.add(Act.INSULTS)
    if not asks and count <= 40 and PATTERNS["farewell"].search(text):
        found.add(Act.FAREWELL)
    if _is_foreign(text, words):
        found.add(Act.FOREIGN)
    return frozenset(found)


def _is_foreign(text: str, words: tuple[str, ...]) -> bool:
    """Another script, or little words of another language and hardly an English one."""
    if not text.isascii():
        letters = [char for char in text if char.isalpha()]
        if sum(map(str.isascii, letters)) < 0.6 * len(letters):
            return True
    if not 3 <= len(words) <= 200:
        return False
    foreign = sum(map(_FOREIGN.__contains__, words))
    return foreign >= 0.3 * len(words) > sum(map(_ENGLISH.__contains__, words))
