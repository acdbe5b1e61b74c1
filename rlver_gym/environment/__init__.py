"""The environment: a session that plays one dialogue, its record, and the Gymnasium views of it."""
