"""What users need to test their own agents, users and loops: a real chat server on loopback, and a
scripted chat that needs no network.
"""

from rlver_gym.testing.chat_server import ChatServer, Refused, ScriptedChat

__all__ = ["ChatServer", "Refused", "ScriptedChat"]
