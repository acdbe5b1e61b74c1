"""The LLM user: a sentient user that thinks with a language model, on any server that speaks the
OpenAI chat API. What others need of it is named here; the rest is its own.
"""

from rlver_gym.users.llm.hostile import find_judge_address
from rlver_gym.users.llm.options import LLMOptions, sort_options
from rlver_gym.users.llm.prompts import words
from rlver_gym.users.llm.requests import RequestBuilder
from rlver_gym.users.llm.user import LLMUser

__all__ = [
    "LLMOptions",
    "LLMUser",
    "RequestBuilder",
    "find_judge_address",
    "sort_options",
    "words",
]
