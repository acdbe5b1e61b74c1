"""TRL's `environment_factory`: the tool, which tells points by where the emotion is."""

from integrations.drivers import Played

from rlver_gym.integrations.trl import prompt_rows
from rlver_gym.integrations.trl_tool import EmpathyTool
from rlver_gym.util.errors import DialogueError


def play(persona, seed, utterances, user="embedded"):
    tool = EmpathyTool(user=user)
    texts = [tool.reset(**prompt_rows([persona], [seed])[0])]
    rewards = []
    for utterance in utterances:
        before = tool.get_reward()
        try:
            texts.append(tool.say(utterance))
        except DialogueError:
            break
        after = tool.get_reward()
        if before is None or after is None:
            return Played(rewards, texts, failed=True)
        rewards.append(float(round(100 * after) - round(100 * before)))
    return Played(rewards, texts, failed=tool.get_reward() is None)
