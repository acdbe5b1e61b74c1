"""How environments are made: by `gym.make`, and for loops that score by the emotion."""

from typing import Any

import gymnasium as gym

from rlver_gym.core.cards import DEFAULT_ENV, EnvCard
from rlver_gym.environment.dialogue_env import DialogueEnv
from rlver_gym.environment.env import EmpathyEnv
from rlver_gym.util.errors import UnknownName


def make_env(
    card: str | EnvCard = DEFAULT_ENV, *, url: str | None = None, **options: Any
) -> DialogueEnv:
    for name in ("group_size", "autoreset_mode"):
        if name in options:
            raise UnknownName(
                f"{name} is an option of many dialogues at once, gym.make_vec, in its default mode."
                " Leave out vectorization_mode."
            )
    if url is None:
        return EmpathyEnv(card, **options)
    # only who gives a url needs a client
    from rlver_gym.environment.remote import RemoteEmpathyEnv  # noqa: PLC0415

    return RemoteEmpathyEnv(url, card, **options)


def make_for_loop(env_id: str, **options: Any) -> gym.Env[Any, Any]:
    """`gym.make` for a loop that leaves failed episodes out and scores by the emotion: ours get
    `on_failure="truncate"`, and those on this machine `info="privileged"`, unless the options say
    otherwise; environments of others get their options alone.
    """
    registered = gym.registry.get(env_id.rpartition(":")[2])
    if registered and str(registered.entry_point).startswith("rlver_gym."):
        ours = {"on_failure": "truncate", **({} if "url" in options else {"info": "privileged"})}
        options = ours | options
    return gym.make(env_id, **options)
