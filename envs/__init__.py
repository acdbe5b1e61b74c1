"""One YAML card per registered environment, holding every number of its protocol. No code."""
