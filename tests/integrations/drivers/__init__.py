"""A driver for each framework: `play(persona, seed, utterances)` runs one episode through the
framework's own interface, and gives its rewards.

A driver imports its framework at the top; `test_same_rewards.py` skips those that are not
installed.
"""
