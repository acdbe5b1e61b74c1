"""The dialogues of benchmark runs as data to train on, in the formats of others."""
