"""The dialogues of benchmark runs as data to train on.

Reads run folders, writes the formats of others, and imports none of their libraries.
"""
