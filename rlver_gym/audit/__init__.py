"""Whether a score can be trusted: attacks on it (the red team), how it agrees with recordings
(fidelity), and checks of cards.
"""
