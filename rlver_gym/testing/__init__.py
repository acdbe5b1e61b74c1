"""What users need to test their own agents, users and loops: a real chat server on loopback, and scripted ones."""

from rlver_gym.testing.chat_server import ChatServer
from rlver_gym.testing.faults import Faults
from rlver_gym.testing.scripted import ScriptedChat

__all__ = ["ChatServer", "Faults", "ScriptedChat"]
