"""The simulated people: YAML cards of situations and of persons, a language a folder, and an index that pairs them. No code."""
