"""Direct questions: "Can I ask what you do for work?" as "what do you do for work?".

A frame of politeness hides what is asked from whoever compares questions word by word. Pure; knows
no card.
"""

import re

from rlver_gym.conversation.parse import sentences_of

_DOING = ("do", "does", "did")
_ALONE = (
    "is are was were am has have had can could will would should shall may might must isn't aren't"
    " wasn't weren't hasn't haven't hadn't can't couldn't won't wouldn't shouldn't don't doesn't"
    " didn't"
).split()
"""Auxiliaries that an indirect question has too; in "what you do", do is what is done."""
_AUXILIARY = "|".join(_ALONE)
_SOFTLY = r"(?:please |maybe |perhaps |just |also |quickly |really )*"
_TELLING = (
    r"(?:tell(?:ing)?|say(?:ing)?|shar(?:e|ing)|describ(?:e|ing)|explain(?:ing)?|talk(?:ing)? about"
    r"|talk me through|help me understand)"
    r"(?: with)?(?: me)?(?: a (?:bit|little)(?: more)?)?(?: more)?(?: about)?"
)
_FRAME = re.compile(
    r"^\W*(?:(?:and|but|so|well|okay|ok|sorry|hey|oh|hm+|if (?:i may|i can|you don't mind))\b,?"
    r"\s+)*"
    rf"(?:(?:can|could|may|might) i {_SOFTLY}ask(?: you)?(?: something| one thing| a question)?"
    rf"|(?:do you |would you )?mind (?:if i ask(?:ed)?(?: you)?|(?:my|me) asking(?: you)?"
    rf"|{_TELLING})"
    rf"|(?:can|could|would|will) you {_SOFTLY}{_TELLING}"
    rf"|(?:are|would|do) you (?:be )?(?:willing|able|like|want|comfortable|happy|open|okay|ok)"
    rf"(?: with)?(?: to)? {_TELLING}"
    rf"|i(?:'m| am|'d be| would be| was)? (?:just |really |also |still )*"
    rf"(?:wondering|wonder|curious|interested)(?: about| in| to know| to hear)?"
    rf"|i(?:'d| would) (?:really |just |also )*(?:like|love|want) to"
    rf" (?:know|hear|understand|ask(?: you)?)(?: more)?(?: about)?"
    rf"|(?:please )?(?:tell|help) me(?: to)?(?: understand)?)"
    rf"[,:–—-]?\s+(?P<asked>(?:who|whom|whose|what|which|when|where|why|how|if|whether"
    rf"|(?:{_AUXILIARY}|do|does|did)(?= (?:you|he|she|it|they|there|your|that)\b))\b.*"
    r"|(?P<name>(?:your|his|her|their)(?: [\w']+){0,2} name)(?:,.*|[?.!…]*))$",
    re.IGNORECASE,
)
"""What stands in front of a question, or a name, that is not asked for outright."""
_NEXT_FRAME = re.compile(
    r",? (?:and|but|or) (?=(?:can|could|may|might) i ask\b|(?:(?:do|would) you )?mind"
    r" (?:if i|me|my|telling|saying|sharing|describing|explaining)\b)",
    re.IGNORECASE,
)
"""Where a second one begins: "Can I ask your name, and would you mind telling me who knows?"."""
_LAST_WORDS = re.compile(
    r",? if (?:you don't mind(?: (?:me|my) asking)?|i (?:may|can|might) ask"
    r"|that's (?:ok|okay|alright|all right)(?: to ask)?|you(?:'d| would)? (?:like|want)(?: to"
    r" (?:say|share|tell me|talk about it))?|you feel like (?:it|sharing|saying))(?=[ ?.!…]*$)",
    re.IGNORECASE,
)
_SHORT_AUX = {"'s": "is", "'re": "are", "'ve": "have", "'ll": "will", "'m": "am"}
_ASKS = (
    r"(?P<asks>how (?:long|old|often|far|(?:many|much)(?: (?!of\b)\w+)?)|what (?:time|kind of \w+)"
    r"|(?:who|whom|what|when|where|why|how)(?: else| exactly)?|which(?: \w+)?|if|whether)"
)
_SOMEBODY = r"(?:your|his|her|their|the|my)(?: [\w']+)"
_INDIRECT = (
    re.compile(
        rf"^{_ASKS}\s+(?P<subject>(?:you|he|she|they|we|i|it)\b"
        rf"|(?:that|this|there)(?='| (?:{_AUXILIARY})\b))"
        r"(?P<short>'(?:s|re|ve|ll|m))?(?: (?P<verb>[\w']+))?(?P<rest>.*)$"
    ),
    re.compile(
        rf"^{_ASKS}\s+(?P<subject>{_SOMEBODY}{{1,3}}?|[A-Z][a-zé]+)"
        rf" (?P<verb>{_AUXILIARY})(?P<short>)(?P<rest>\b.*)$"
    ),
    re.compile(
        rf"^{_ASKS}\s+(?P<subject>{_SOMEBODY}|[A-Z][a-zé]+)"
        r" (?P<verb>[\w']+)(?P<short>)(?P<rest>.*)$"
    ),
)
"""An indirect question about a pronoun; about somebody, with an auxiliary; with another verb."""
_PAST = frozenset(
    """said told felt went saw thought knew heard got made came took left found met kept lost began
    gave did spoke wrote read rang meant wanted""".split()
)
_AFTER_HAS = frozenset({"been", "got", "had", "gone", "done"})
_OTHERS = frozenset({"he", "she", "it", "that", "this"})


def ask_directly(text: str) -> str:
    """The text with every question that stands in a frame of politeness asked outright; other
    sentences as they are.
    """
    sentences = sentences_of(text)
    direct = [" ".join(map(_unframe, _split_frames(sentence))) for sentence in sentences]
    return text if direct == list(sentences) else " ".join(direct)


def _split_frames(sentence: str) -> list[str]:
    """The questions of a sentence, each with its own frame; any other sentence as it is."""
    if not sentence.endswith("?"):
        return [sentence]
    *first, last = _NEXT_FRAME.split(sentence)
    return [*(f"{one}?" for one in first), last]


def _unframe(sentence: str) -> str:
    bare = _LAST_WORDS.sub("", sentence)
    framed = _FRAME.search(bare)
    if framed and framed["name"]:
        return f"what is {framed['name']}?"
    direct = _invert(framed["asked"].rstrip(" .?!…")) if framed else None
    return f"{direct}?" if direct else bare if bare.endswith("?") else sentence


def _invert(asked: str) -> str | None:
    """An indirect question with its verb in front: "how old you are" as "how old are you"; None for
    one of another form behind "if".
    """
    found = next(filter(None, (form.match(asked) for form in _INDIRECT)), None)
    is_condition = asked.casefold().startswith(("if ", "whether "))
    if found is None or not (found["verb"] or found["short"]):
        return None if is_condition else asked
    front = "" if is_condition else f"{found['asks']} "
    subject, verb, rest = found["subject"], found["verb"] or "", found["rest"]
    if found["short"]:
        has = found["short"] == "'s" and (verb in _AFTER_HAS or _is_past(verb))
        aux, rest = "has" if has else _SHORT_AUX[found["short"]], f" {verb}{rest}"
    elif verb in _ALONE:
        aux = verb
    else:
        aux = _do_for(subject, verb)
        rest = f" {'do' if verb in _DOING else verb}{rest}"
    return f"{front}{aux} {subject}{rest}".rstrip()


def _do_for(subject: str, verb: str) -> str:
    if _is_past(verb):
        return "did"
    return "does" if subject in _OTHERS or verb.endswith("s") else "do"


def _is_past(verb: str) -> bool:
    return verb in _PAST or (verb.endswith("ed") and not verb.endswith("eed"))
