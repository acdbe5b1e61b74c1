"""The benchmark: plan, run, score, report, verify; each works on what the one before wrote."""
