"""Runs that somebody bent: with the embedded user and with an LLM user, checksums and fingerprints
computed anew. `verify` names what is wrong, and `report` says it, on the terminal, on the page and
in JSON.
"""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rlver_gym.bench.folder import EPISODES, MANIFEST, RESPONSE_CACHE_FILE, read_episodes
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.plan import BenchPlan, manifest_check
from rlver_gym.bench.plan import fingerprint as compute_fingerprint
from rlver_gym.bench.run import run
from rlver_gym.cli.root import app
from rlver_gym.core.dialogue import Appraisal, Reason, ReasonCode, Turn
from rlver_gym.core.emotion import Outcome
from rlver_gym.environment.episode import Episode
from rlver_gym.io.errors import RlverError, RunError
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers

PEOPLE = ("noor-missed-evening", "noor-first-time")
AGENTS = ("listener", "comfort")


def command(*words: object) -> Result:
    """A command's result; an error of the package is its exception."""
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    if result.exception and not isinstance(result.exception, SystemExit | RlverError):
        raise result.exception
    return result
