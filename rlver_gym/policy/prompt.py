"""What a policy is told: what its config says, or else what the folder of its model says."""

from pathlib import Path
from typing import TypeVar

from rlver_gym.core.agent import agent_prompt
from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.models.agent import REPLY_CONFIG_FILE, ReplyConfig
from rlver_gym.policy.sft_config import SftConfig
from rlver_gym.util.errors import TrainingError

Config = TypeVar("Config", TrainConfig, SftConfig)


def pin_prompt(config: Config) -> Config:
    """The config with the prompt of its model's folder, where it names none itself. TrainingError
    where that is for another style or language, AgentError for a file that cannot be read.
    """
    folder = Path(config.model).expanduser()
    if config.system is not None or not (folder / REPLY_CONFIG_FILE).exists():
        return config
    saved = ReplyConfig.read(folder)
    if saved.system == agent_prompt(config.language, saved.style):
        return config
    if saved.style != config.style or config.language != "en":
        raise TrainingError(
            f"{folder / REPLY_CONFIG_FILE} says a prompt of its own for style {saved.style}, which"
            f" would be lost with style {config.style} and language {config.language}. Leave both"
            f" as they are there, or say the whole prompt: --system TEXT."
        )
    return config.model_copy(update={"system": saved.system})
