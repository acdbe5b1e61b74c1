"""Listen: what an utterance asks and does, sentence by sentence. A pure function of the text; knows
no card.
"""

import re
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from rlver_gym.core.inquiries import Feeling
from rlver_gym.core.words import split_words
from rlver_gym.text.feelings import feelings_in


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
        """The sentences that ask."""
        return [one for one in self.sentences if one.ask is not None]


_MOST_SENTENCES, _MOST_CHARS = 14, 3_000
_AUX = (
    "is|are|was|were|am|do|does|did|has|have|had|can|could|will|would|should|shall|may|might|must"
    "|isn't|aren't|wasn't|weren't|don't|doesn't|didn't|hasn't|haven't|hadn't|won't|wouldn't"
    "|couldn't|shouldn't|can't"
)
_SUBJECT = (
    "you|u|your|he|she|it|they|we|i|there|that|this|these|those|the|his|her|their|my|any|some"
    "|anyone|anybody|someone|everyone|everybody|nobody|one|[A-Z][a-zé]+"
)
_WH = (
    r"how (?:long|many|much|often|old|far|come)|(?:since|until|till|by) when|what time"
    r"|(?:for|at|in|by|to|with|from|about|of) (?:what|whom|which|how (?:much|many|long))"
    r"|who|whom|whose|what|which|when|where|why|how"
)
_LEAD = r"(?:(?:and|so|but|or|oh|well|ok|okay|hey|hi|hello|then|also|wait|um|hm+|now|sorry|yes|no|just|alright|right|tell me)\b[,:\s]+)*"
_SENTENCE = re.compile(
    r"(?:[^.!?…\n]|(?<=\b[DM]r)\.|(?<=\bM[rs])\.|(?<=\bMrs)\.|(?<=\bSt)\.|(?<=\d)\.(?=\d))+[.!?…]*[\"'”’)*]*"
)
_INNER_STOP = re.compile(r"\d\.\d")
_PLAIN_SENTENCE = re.compile(r"[^.!?…\n]+[.!?…]*[\"'”’)*]*")
"""The same where no stop stands within a sentence."""
_TWO = re.compile(
    rf"(?<=[\w'\"]),?\s+(?:and|or|but)\s+(?=(?:{_WH})\b|(?:{_AUX})\s+(?:you|he|she|they|it|your|there|anyone|anybody|someone)\b)"
    r"|(?<=\w),\s+(?=(?:who|what|when|where|why|how)(?:'s|\s+(?:did|do|does|is|are|was|were|has|have|long|many|much|old))\b)",
    re.IGNORECASE,
)
"""Where the second of two questions in one sentence begins."""
_FRAME = re.compile(
    rf"^\W*{_LEAD}(?:if (?:i may|i can|you don't mind),?\s+)?"
    r"(?:(?:can|could|may|might) i (?:just |please |also |maybe )*ask(?: you)?(?: something| a question)?[,:]?"
    r"|(?:do you |would you )?mind (?:if i ask(?:ed)?(?: you)?|(?:me |my )?(?:asking|telling|saying|sharing)(?: me| you)?)"
    r"|(?:can|could|would|will) you (?:please |maybe |perhaps |just )*(?:tell|say|share|describe|explain|talk about|help me understand)(?: with| to)?(?: me)?(?: a (?:bit|little))?(?: more)?(?: about)?"
    r"|(?:are|would|do) you (?:be )?(?:willing|able|like|want|comfortable|happy|open|okay|ok)(?: with)?(?: to)? (?:tell|say|share|sharing|telling|saying)(?:ing)?(?: me)?(?: more)?(?: about)?"
    r"|i(?:'m| am|'d be| was)? (?:just |really |also |still )*(?:wondering|wonder|curious|interested)(?: about| in| to know| to hear)?"
    r"|i(?:'d| would) (?:really |just |also )*(?:like|love|want) to (?:know|hear|understand|ask)(?: you)?(?: more)?(?: about)?"
    r"|(?:please )?(?:tell|help) me(?: to)?(?: understand)?|do you (?:know|remember))"
    rf"[,:–—-]?\s+(?P<asked>(?:{_WH}|if|whether|(?:{_AUX})(?= (?:{_SUBJECT})\b))\b.*|(?:your|his|her|their) (?:[\w']+ )?(?:name|age|job)\b.*)$",
    re.IGNORECASE,
)
"""Politeness in front of what is asked."""
_LAST_WORDS = re.compile(
    r",? if (?:you don't mind(?: (?:me|my) asking)?|i (?:may|can|might) ask|that's (?:ok|okay|alright|all right)(?: to ask)?|you(?:'d| would)? (?:like|want)(?: to \w+(?: \w+){0,3})?)(?=[ ?.!…]*$)",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    rf"^\W*{_LEAD}(?:(?:can|could|would|will|please|you|maybe|i'd like to hear)\s+)*(?:tell|talk to|say to|explain to)\s+me\s+(?:a (?:bit|little) |some |something |more |again )*about\s+(?P<what>.+)"
    rf"|^\W*{_LEAD}what about (?P<about>(?!\w+ing\b).+\?)|\b(?:hear|know) more about (?P<more>.+)",
    re.IGNORECASE,
)
_MORE = re.compile(
    r"\b(?:tell me (?:more|everything|the rest|all)|say more|go on|keep going|please continue|what else|and then|what happened (?:then|next|after that)|i'm all ears|take your time and tell)\b|^\W*(?:i'm listening|i am listening|and)\W*$",
    re.IGNORECASE,
)
_VAGUE = re.compile(
    r"^(?:that|it|this|all (?:of )?(?:that|it|this)|everything|what happened)\W*$", re.I
)
_WH_FIRST = re.compile(rf"^\W*{_LEAD}(?P<word>{_WH})(?:'s|'re|'d|'ll)?\b", re.IGNORECASE)
_WH_WITHIN = re.compile(
    rf"(?:[,;:–—-]\s*|\b(?:and|but|so|or|wonder|ask|tell me|know|me)\s+)(?P<word>(?:{_WH}))(?:'s|'re|'d|'ll)?\b(?=.*\?)",
    re.IGNORECASE,
)
_UNMARKED = re.compile(
    rf"^\W*{_LEAD}(?:how (?:long|many|much|often|old|far|come)\b|(?:who|whom|whose|what|which|when|where|why|how)(?:'s|'re|'d|'ll)?\b(?!\s+a\b)\s*(?:(?:\w+\s+)?(?:{_AUX}|'s|'re|happened|else)\b|$))",
    re.IGNORECASE,
)
_RELATIVE = re.compile(
    rf"^\W*{_LEAD}(?:what|who|where|how|why|which|that|when)\s+(?:you|u|i|he|she|they|we|it|a|an)(?:'\w+)?\b",
    re.IGNORECASE,
)
"""How a statement begins that looks like a question: "What you need is…"."""
_INVERTED = re.compile(
    rf"(?:^|[,;:–—-]\s*|\b(?:and|but|so|or)\s+){_LEAD}(?P<word>(?:{_AUX}))\s+(?=(?:{_SUBJECT})\b)",
    re.IGNORECASE,
)
_TAG = re.compile(
    rf"[,–—-]?\s*\b(?:right|correct|yes|no|true|huh|eh|yeah|or not|is that (?:right|so|it)|have i got that right|am i right|did i get that right|(?:{_AUX})(?: not)?\s+(?:you|he|she|it|they|i|we|that))\s*[?.!]*$",
    re.IGNORECASE,
)
_SUGGESTION = re.compile(
    rf"^\W*{_LEAD}(?:(?:maybe|perhaps|if you)\s+)?(?:(?:could|can|would|might) (?:you|it help)\b(?! (?:tell|say|explain|describe|imagine|know|remember|talk me|share|like|mean|want|rather|prefer)\b)|(?:have|had) you (?:ever )?(?:thought (?:about|of)|considered|tried)\b|what if (?:you|we)\b|what about (?:\w+ing)\b|how about\b|why (?:don't (?:you|we)\b|not \w+)|shall we\b|should you\b|do you think you (?:could|can|might)\b)"
    r"|\byou (?:should|could (?!be\b|have\b|n)|might want to|might try|need to|ought to|have to|must (?!be\b|have\b|feel\b|miss\b)|had better)\b|\bi(?:'d| would) (?:suggest|recommend|try|talk|write|ask|tell|go|give|take)\b|\bmy advice\b"
    r"|^\W*(?:just |maybe |perhaps |please )?(?:give|write|tell|ask|talk|call|ring|go|take|put|start|stop|try|get|make|send|let|sleep|breathe|forget)\b(?! me\b| on\b)",
    re.IGNORECASE,
)
_PREFERENCE = re.compile(
    r"\b(?:advice|advise|suggestions?|solutions?|tips|ideas|help|vent|opinion)\b.*\b(?:or|rather|just|simply|only)\b.*\b(?:listen(?:ed|ing)?|hear|heard|ear|vent|talk|advice|ideas|suggestions?|solutions?|company|space)\b"
    r"|\b(?:listen(?:ed|ing)?|ear|vent|heard)\b.*\bor\b.*\b(?:advice|ideas|suggestions?|solutions?|help|think|opinion|tips)\b"
    r"|\bwhat (?:would|do|could) you (?:like|want|need|hope for|wish for|hope)(?: (?:to get|most|for))? (?:from|of|out of) (?:me|this|our|talking)\b|\bhow (?:can|could|may) i (?:best )?(?:help|support|be (?:there|of help|useful))\b|\bwhat (?:would help|do you need|kind of (?:help|support)).{0,20}\bfrom me\b|\bwhat can i do for you\b"
    r"|\b(?:do|would) you (?:want|like|prefer)(?: me)? (?:to (?:just )?(?:listen|hear)|my (?:opinion|advice)|some advice|advice)\b",
    re.IGNORECASE,
)
_MEANING = re.compile(
    rf"^\W*{_LEAD}(?:i (?:don't|do not) (?:quite )?(?:follow|understand)(?: (?:that|what you mean|you))?|(?:what|how) (?:do|did) you mean(?: (?:by|with) .*| exactly| that)?|what does that mean|what(?:'s| is| was) that supposed to mean|meaning(?: what)?|in what (?:way|sense)|how so|come again|pardon|sorry|what was that|can you (?:explain|clarify)(?: (?:that|what you mean))?|could you (?:explain|clarify)(?: (?:that|what you mean))?|say that again|what do you mean)\W*(?:sorry|please|exactly|by that)?\W*$",
    re.IGNORECASE,
)
_WHOM = re.compile(
    rf"^\W*{_LEAD}(?:who (?:do|did) you mean(?: by .*)?|who(?:'s| is| are| was)? (?:that|this|he|she|they|it|him|her|them)|who are (?:we|you) talking about|which (?:one|person) do you mean|who exactly)\W*(?:then|again|exactly|please)?\W*$",
    re.IGNORECASE,
)
_GREETING = re.compile(
    r"^\W*(?:hi|hello|hey|hiya|good (?:morning|evening|afternoon|day)|greetings|howdy)(?:\s+(?:there|again|everyone|you|\w{2,12}))?\W*$",
    re.IGNORECASE,
)
_THANKS = re.compile(r"\b(?:thank you|thanks|thx|cheers|i(?:'m| am) grateful|i appreciate)\b", re.I)
_APOLOGY = re.compile(
    r"\b(?:i(?:'m| am)(?: so| very| really| truly)? sorry (?:if i|that i|for (?:what i|my|being|saying|pushing|asking|interrupting|the (?:way|advice|question))|about (?:what i|my|before|earlier))|i apologi[sz]e|my apologies|my mistake|my bad|forgive me|that came out wrong|i shouldn't have (?:said|asked|pushed|told)|sorry,? (?:i(?! hear)|what i|that was|my|for (?:that|before|earlier|pushing|asking|what))|i take (?:it|that) back)\b",
    re.IGNORECASE,
)
_INSULT = re.compile(
    r"\b(?:you(?:'re| are)(?: (?:just|really|all|nothing but|being))*(?: such)?(?: an?| the)? (?:\w+ ){0,2}?|what an? (?:\w+ ){0,2}?|you (?:\w+ )?)"
    r"(?:idiot|fool|coward|doormat|loser|moron|cry-?baby|liar|brat|wimp|weakling|whiner|wuss|hypocrite|jerk|bitch|bastard|arsehole|asshole|pathetic|stupid|worthless|useless|disgusting|ridiculous|spineless|dumb|selfish|lazy|weak|crazy|insane|spoilt|spoiled)\b"
    r"|\b(?:shut up|grow up|get a life|get over yourself|screw you|fuck (?:you|off)|nobody (?:likes|cares about) you|stop (?:whining|moaning|wallowing|crying))\b",
    re.IGNORECASE,
)
_FAREWELL = re.compile(
    r"\b(?:good ?bye|bye(?: bye)?|good night|see you (?:later|soon|tomorrow)|talk to you (?:later|soon|tomorrow)|take care(?: of yourself)?[.!]*$|i(?:'ve| have)? (?:got to|gotta|have to|need to|must|should) (?:go|run|leave|log off|head off)|i(?:'m| am) off(?: now)?[.!]*$|speak soon|farewell|until next time)\b",
    re.IGNORECASE,
)
_ENGLISH = frozenset(
    """the a to of and i you it is that in was for on my me your are be have with so this do not what
    he she they we but at if just about as can how there or am had were who when why did no yes all
    from his her will would""".split()
)
_FOREIGN = frozenset(
    """ich du er sie wir ist nicht und das der die ein eine mir dir mich dich es tut leid wie geht je
    tu il elle nous vous est pas et le la les un une moi toi mais que qui dans pour yo el ella no y
    lo los las mi ti pero con por para muy estoy eres como esta siento mucho io non che di gli per
    sono sei come mi dispiace het een niet ik jij en van met jag inte och att det som nie jest co
    tak jak jeg ikke og saya tidak anda bu ve bir ne ma mon ton quelle quel""".split()
)
_CAPITALS = re.compile(r"[A-Z]{2,}")
_SPACES = re.compile(r"[^\S\n]{2,}")


@lru_cache(maxsize=256)
def listen(text: str) -> Utterance:
    """Take an utterance apart. Kept for a moment: several steps ask for it."""
    plain = text[:_MOST_CHARS].replace("’", "'").replace("‘", "'")
    plain = _SPACES.sub(" ", plain)
    if not plain.strip():
        return Utterance((), frozenset({Act.SILENCE}), ())
    found: list[Sentence] = []
    is_split = False
    pattern = _SENTENCE if _may_stop_within(plain) else _PLAIN_SENTENCE
    for whole in map(str.strip, pattern.findall(plain)):
        parts = _split_questions(whole) if whole.endswith("?") else (whole,)
        is_split = is_split or len(parts) > 1
        for part in parts:
            words = split_words(part)
            if words:
                found.append(_read(part, words, found[-1] if found else None))
    words = split_words(plain) if is_split else tuple(chain(*[one.words for one in found]))
    sentences = tuple(found[-_MOST_SENTENCES:])
    asks = any(one.ask is not None for one in sentences)
    return Utterance(sentences, _acts(plain, words, asks), words)


def _may_stop_within(text: str) -> bool:
    return any(title in text for title in _TITLES) or _INNER_STOP.search(text) is not None


_TITLES = ("Dr.", "Drs.", "Mr.", "Mrs.", "Ms.", "St.")
_SECOND = re.compile(r"\b(?:and|or|but)\b|, (?:who|what|when|where|why|how)\b", re.IGNORECASE)


def _split_questions(sentence: str) -> list[str]:
    if _SECOND.search(sentence) is None or _PREFERENCE.search(sentence):
        return [sentence]
    found = next(
        (one for one in _TWO.finditer(sentence) if _asks_something(sentence[: one.start()])), None
    )
    if found is None:
        return [sentence]
    return [f"{sentence[: found.start()]}?", sentence[found.end() :]]


def _asks_something(text: str) -> bool:
    return bool(_WH_FIRST.match(text) or _INVERTED.match(text) or _FRAME.match(text))


def _read(text: str, words: tuple[str, ...], before: Sentence | None) -> Sentence:
    feelings = feelings_in(words)
    ask, asked, is_guess = _what_is_asked(text, words)
    if ask is not None and not feelings and before is not None and len(words) <= 4:
        feelings = before.feelings  # "I'd be furious. Are you?"
    is_ellipsis = len(asked) <= 2 or (len(asked) <= 3 and asked[0] in _PREPOSITIONS)
    if ask in _OPEN and is_ellipsis and before is not None and before.ask is not None:
        asked = (*asked, *before.asked)  # "…, and for how much?"
    suggests = (
        ask in (None, Ask.YES_NO, Ask.WHAT, Ask.HOW, Ask.WHY)
        and _may_suggest(words)
        and _SUGGESTION.search(text) is not None
    )
    return Sentence(text, words, asked, None if suggests else ask, is_guess, suggests, feelings)


_OF_SUGGESTION = frozenset(
    """could can would might why shall should shoulder shoulders shouldnt need ought must advice
    give write tell ask talk call ring go take put start stop try get make send let sleep breathe
    forget""".split()
)
_OF_SUGGESTION_WITH = (
    ("you", frozenset({"have", "had"})),
    ("what", frozenset({"if", "about"})),
    ("how", frozenset({"about"})),
)
"""Words of which one is in every sentence that suggests something."""


def _may_suggest(words: tuple[str, ...]) -> bool:
    return not _OF_SUGGESTION.isdisjoint(words) or any(
        one in words and not others.isdisjoint(words) for one, others in _OF_SUGGESTION_WITH
    )


_SUPPOSING = frozenset({"may", "might", "had", "should", "must"})
_PREPOSITIONS = frozenset("for at in by to with from about of since until".split())
_OPEN = frozenset(
    {Ask.WHO, Ask.WHAT, Ask.WHEN, Ask.WHERE, Ask.WHY, Ask.HOW, Ask.HOW_LONG, Ask.HOW_MANY}
)


_OF_WHOM = frozenset({"who", "which", "whom"})
_OF_PREFERENCE = frozenset(
    """advice advise suggestions suggestion solutions solution tips ideas help vent opinion listen
    listened listening ear heard hear from me support""".split()
)
_OF_FRAME = frozenset(
    """ask asking mind tell telling say saying share sharing describe explain talk understand
    wonder wondering curious interested know hear remember help""".split()
)
_OF_MORE = frozenset(
    "more everything rest all on going continue else then next listening ears tell and after".split()
)
_BEGINS = (
    frozenset(
        "who whom whose what which when where why how since until till by for at in to".split()
    )
    | frozenset("with from about of and so but or oh well ok okay hey hi hello then also".split())
    | frozenset(
        "wait um hm hmm now sorry yes no just alright right tell please help if mind".split()
    )
    | frozenset("i are your his her their you".split())
    | frozenset(split_words(_AUX.replace("|", " ")))
)
"""Words with which what is asked begins, with what is said to lead to it."""
_MAY_ASK = (
    frozenset("who whom whose what which when where why how".split())
    | frozenset(word.partition("'")[0].removesuffix("n") for word in _AUX.split("|"))
    | frozenset(_AUX.split("|"))
    | _OF_FRAME
    | _OF_MORE
    | {"can", "about"}
)
"""Words of which one is in every sentence that asks without a question mark."""


def _what_is_asked(text: str, words: tuple[str, ...]) -> tuple[Ask | None, tuple[str, ...], bool]:
    is_marked = text.rstrip("\"'”)* ").endswith("?")
    has = frozenset(words)
    if len(words) <= 12 and is_marked and not has.isdisjoint(_OF_WHOM) and _WHOM.match(text):
        return Ask.WHOM, words, False
    if len(words) <= 9 and (is_marked or words[:1] == ("i",)) and _MEANING.match(text):
        return Ask.MEANING, words, False
    if (
        (is_marked or words[:1] == ("tell",))
        and not has.isdisjoint(_OF_PREFERENCE)
        and _PREFERENCE.search(text)
    ):
        return Ask.PREFERENCE, words, False
    if not is_marked and has.isdisjoint(_MAY_ASK):
        return None, words, False
    about = _ABOUT.search(text) if "about" in has else None
    if about:
        what = about.group(about.lastgroup or "what")
        return (Ask.MORE if _VAGUE.match(what) else Ask.ABOUT), split_words(what), False
    bare = _LAST_WORDS.sub("", text) if "if" in has or "that" in has else text
    begins = not _BEGINS.isdisjoint(words[:1])
    framed = None if not begins or has.isdisjoint(_OF_FRAME) else _FRAME.match(bare)
    if framed:
        asked = framed.group("asked")
        return _kind_of(split_words(asked)), split_words(asked), False
    if len(words) <= 14 and not has.isdisjoint(_OF_MORE) and _MORE.search(text):
        return Ask.MORE, words, False
    if not is_marked:
        if not begins:
            return None, words, False
        if _UNMARKED.match(text) and not _RELATIVE.match(text) and words[:1] != ("when",):
            return _kind_of(words), words, False
        inverted = _INVERTED.match(text)
        if inverted and _SUPPOSING.isdisjoint(words[:1]) and text[-1] != "!":
            return Ask.YES_NO, words, False
        return None, words, False
    first = _WH_FIRST.match(bare)
    if first:
        asked = split_words(bare[first.start("word") :])
        return _kind_of(asked), asked, False
    tag = _TAG.search(text)
    inverted = list(_INVERTED.finditer(bare))
    within = list(_WH_WITHIN.finditer(bare))
    if tag and tag.start() > 3 and not (inverted and inverted[0].start() == 0):
        return Ask.YES_NO, split_words(text[: tag.start()]), True
    if within and not (inverted and inverted[-1].start("word") < within[-1].start("word")):
        asked = split_words(bare[within[-1].start("word") :])
        return _kind_of(asked), asked, False
    if inverted:
        return Ask.YES_NO, split_words(bare[inverted[-1].start("word") :]), False
    if len(words) <= 4 and "you" not in words:
        return None, words, False  # only an exclamation at what was heard: "Three points??"
    return Ask.YES_NO, words, True


def _kind_of(words: tuple[str, ...]) -> Ask:
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


_OF_APOLOGY = frozenset(
    "sorry apologise apologize apologies mistake bad forgive wrong back should".split()
)
_OF_THANKS = frozenset("thank thanks thx cheers grateful appreciate".split())
_OF_INSULT = frozenset(
    """idiot fool coward doormat loser moron crybaby cry liar brat wimp weakling whiner wuss
    hypocrite jerk bitch bastard arsehole asshole pathetic stupid worthless useless disgusting
    ridiculous spineless dumb selfish lazy weak crazy insane spoilt spoiled shut grow get screw
    fuck nobody stop""".split()
)
_OF_FAREWELL = frozenset(
    "bye goodbye night see talk care go run leave log head off speak farewell until".split()
)


def _acts(text: str, words: tuple[str, ...], asks: bool) -> frozenset[Act]:
    found = set()
    count = len(words)
    shouted = _CAPITALS.findall(text)
    if text.lstrip().startswith("/") and count <= 4:
        found.add(Act.COMMAND)
    if len(shouted) >= 2 and sum(map(len, shouted)) >= 8:
        letters = [char for char in text if char.isalpha()]
        if sum(map(str.isupper, letters)) > 0.8 * len(letters):
            found.add(Act.SHOUTS)
    if count <= 5 and _GREETING.match(text):
        found.add(Act.GREETS)
    has = frozenset(words)
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
