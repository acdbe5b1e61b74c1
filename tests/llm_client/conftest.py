"""Every test asks as nobody in particular, and leaves no connection."""

import pytest


@pytest.fixture(autouse=True)
def _nothing_shared(monkeypatch, close_shared_clients):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
