"""The benchmark: plan, run, score, report, verify.

Each step is a function of what the one before wrote down.
"""
