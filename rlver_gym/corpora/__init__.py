"""Recorded dialogues and the corpus of rated replies, read line by line."""
