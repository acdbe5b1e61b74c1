"""A dialogue as a tool, for TRL's `environment_factory` and models that call tools: the policy
speaks by calling `say`. In `rlver_gym.integrations.trl.Rollout` it simply speaks.
"""

from typing import Any

from rlver_gym.answers.reading import read_words
from rlver_gym.core.cards import DEFAULT_ENV
from rlver_gym.environment.make import make_for_loop
from rlver_gym.integrations.trl import parse_prompt
from rlver_gym.util.errors import DialogueError


class EmpathyTool:
    """One dialogue at a time. TRL makes a tool of every public method but `reset` and `get_reward`,
    so there is one.

    GRPOTrainer(environment_factory=EmpathyTool, train_dataset=prompt_rows(...), ...); with options:
    functools.partial(EmpathyTool, user="openai:MODEL").
    """

    def __init__(self, env: str = DEFAULT_ENV, **env_options: Any) -> None:
        self._env = make_for_loop(env, **env_options)
        self._info: dict[str, Any] = {}

    def reset(self, prompt: Any = None, **columns: Any) -> str:
        """Begin a dialogue with the prompt's persona: the first words, which TRL adds to it."""
        spec = parse_prompt(prompt)
        options = {"persona": spec.persona}
        opening, self._info = self._env.reset(seed=spec.seed, options=options)
        return opening

    def say(self, message: str) -> str:
        """Say something to the person you are talking with.

        Args:
            message: What you say to them.

        Returns:
            What they answer.
        """
        if self._info.get("outcome") is not None:
            raise DialogueError("The conversation is over.")
        answer, _, _, _, self._info = self._env.step(read_words(message))
        return answer

    def get_reward(self) -> float | None:
        """The emotion now, from 0 to 1; None, which TRL leaves out, when the dialogue broke off."""
        return self._info["emotion"] / 100 if self._info["valid"] else None
