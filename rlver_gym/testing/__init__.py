"""What users need to test their own agents, users, loops and clients: a real chat server on
loopback, a hostile one, and scripted ones.
"""

from rlver_gym.testing.chat_server import ChatServer
from rlver_gym.testing.faults import Faults
from rlver_gym.testing.hostile import HostileServer
from rlver_gym.testing.scripted import ScriptedChat

__all__ = ["ChatServer", "Faults", "HostileServer", "ScriptedChat"]
