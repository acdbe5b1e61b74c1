"""What tests read of a failure of a chat server."""

from rlver_gym.llm_client import excerpts


def show_failure(failure):
    """The reason, with what may be shown of the server's words."""
    return f"{failure.reason}: {excerpts.mask(failure.quote, [], [])}".removesuffix(": ")
