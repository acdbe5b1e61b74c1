"""What tests read of a failure of a chat server."""

from rlver_gym.llm_client import excerpts
from rlver_gym.llm_client.refusals import Failure


def show_failure(failure: Failure) -> str:
    """The reason, with what may be shown of the server's words."""
    return f"{failure.reason}: {excerpts.mask(failure.quote, [], [])}".removesuffix(": ")
