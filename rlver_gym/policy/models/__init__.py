"""The policy as a network: loading, rendering, sampling, rollouts.

Text and tokens meet here and nowhere else.
"""
