"""React: a line of the person's manner that answers what the agent did, where what was heard and what was felt agree; else none."""

from collections.abc import Mapping

from rlver_gym.conversation.parse import Act, Parsed
from rlver_gym.dialogue import Appraisal
from rlver_gym.users.embedded.reactions import reaction_to

_DOES = {
    "heard": ("told_back", "reflect_feeling", "validate", "sympathy"),
    "warmed": ("side", "praise", "emphasis"),
    "thinking": ("motives", "other_side", "reflect_prompt", "contrast"),
    "helped": ("advice", "concrete", "self_care", "referral"),
    "pushed": ("advice", "command", "referral", "self_care"),
    "hurt": ("blame", "insult", "threat", "minimise"),
    "cold": ("cliche", "ai", "promise", "agree_all", "hedge", "sympathy", "referral"),
}
"""Which acts each manner answers."""
_SURE = 0.6
"""An act that is heard less surely is not answered to."""
_SAID_BY_WORDS = {
    "repeated": ("copying", "repetition", "torn"),
    "puzzled": ("nonsense", "broken", "elsewhere", "foreign", "strangers"),
    "pushed": ("list", "interrogation", "many_questions"),
    "cold": ("crowded", "long", "over", "far_over"),
}
"""Reasons that stand for themselves, whatever acts were heard."""
_LEAST = 1.5
"""Points that such a reason must have cost."""
_APOLOGY = 30
"""Words of an utterance that is an apology and nothing more, at most."""
_WELCOME = ("heard", "warmed", "thinking", "helped")


def manner_of_act(parsed: Parsed, is_content: bool) -> str | None:
    """The manner that answers an act done with the words themselves, whatever is felt; None when there is none."""
    for act in (Act.SILENCE, Act.COMMAND, Act.FOREIGN, Act.SHOUTS, Act.FAREWELL):
        if act in parsed.acts:
            return "puzzled" if act is Act.COMMAND else act.value
    if Act.INSULTS in parsed.acts and not parsed.questions:
        return Act.INSULTS.value
    if Act.APOLOGISES in parsed.acts and parsed.word_count <= _APOLOGY and not parsed.questions:
        return Act.APOLOGISES.value
    if is_content or parsed.questions:
        return None
    for act in (Act.GREETS, Act.THANKS):
        if act in parsed.acts:
            return act.value
    return None


def choose_reaction(appraisal: Appraisal, done: Mapping[str, float], *, suggests: bool) -> str | None:
    """The manner that fits the main reason of the appraisal, when the words bear it out; None when they don't. `done`: how surely each act was heard; `suggests`: whether something to do was suggested."""
    if suggests:
        return "helped" if appraisal.change > 0 else "pushed" if appraisal.change < -1 else None
    manner = reaction_to(appraisal.reasons, appraisal.change)
    if manner in ("asked", "pushed", "helped"):
        return None
    for code, points, _ in appraisal.reasons:
        name = code.partition("/")[0]
        if points <= -_LEAST and name in _SAID_BY_WORDS.get(manner, ()):
            return manner
        if points > 0 and name.startswith("anchor:") and manner in _WELCOME:
            return manner
    return manner if any(done.get(act, 0.0) >= _SURE for act in _DOES.get(manner, ())) else None
