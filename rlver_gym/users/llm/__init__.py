"""The LLM user: a sentient user that thinks with a language model, on any server that speaks the
OpenAI chat API.
"""

from rlver_gym.users.llm.options import LLMOptions
from rlver_gym.users.llm.user import LLMUser

__all__ = ["LLMOptions", "LLMUser"]
