"""Names of agents, users and judges that are chat models behind a server: "openai:MODEL"."""


def get_chat_model(name: str) -> str | None:
    """The MODEL of "openai:MODEL", with its address where it names one; None for other names."""
    kind, _, model = name.partition(":")
    return model if kind == "openai" and model else None


def uses_server(name: str) -> bool:
    """Whether whoever has that name is a chat model, and so waits for a server."""
    return get_chat_model(name) is not None
