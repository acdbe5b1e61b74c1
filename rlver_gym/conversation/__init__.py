"""Conversation: what an utterance asks and claims, what a card knows about it, and what the person
has told so far. Shared by all users; knows no score.
"""
