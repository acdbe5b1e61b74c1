"""The languages that people and policies can have, and what a policy is told in each.

What the LLM user is told stands in `rlver_gym/users/llm/prompts`, a file a language.
"""

import re
from typing import Literal, NamedTuple

Language = Literal["en", "zh"]
CHINESE = re.compile(r"[\u4e00-\u9fff]")
"""A character that is Chinese."""


class _AgentTexts(NamedTuple):
    """What a policy is told of its part."""

    talk: str
    think: str
    """How thoughts are written, for a policy that thinks before it replies."""


AGENT_TEXTS: dict[Language, _AgentTexts] = {
    "en": _AgentTexts(
        talk=(
            "You are talking with somebody who has something on their mind. Answer them the way a"
            " good friend would, in a few sentences of everyday speech, so that they feel better"
            " for having talked to you."
        ),
        think=(
            "Before each answer, think it over between <think> and </think>: what is going on in"
            " this person, what they might want from you, what you will say. They do not hear your"
            " thoughts. After </think>, say your answer and nothing else.\nForm: <think>your"
            " thoughts</think>your answer"
        ),
    ),
    "zh": _AgentTexts(
        talk=(
            "有人心里有事，想找你聊聊。像一个知心的朋友那样，用几句平常的话回应对方，"
            "让对方聊过之后心里好受一些。"
        ),
        think=(
            "每次回应之前，先在 <think> 和 </think> 之间想一想：对方现在是什么心情，"
            "可能希望从你这里得到什么，你打算怎么说。"
            "对方听不到你的想法。写完 </think> 之后，只说你的回应，不要说别的。"
            "\n格式：<think>你的想法</think>你的回应"
        ),
    ),
}
