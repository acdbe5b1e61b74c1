"""Words, sentences and acts of an utterance, whoever it is said to."""
