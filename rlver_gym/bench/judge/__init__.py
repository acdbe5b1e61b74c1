"""A language model as the judge of five capabilities, and how far it agrees with readers."""
