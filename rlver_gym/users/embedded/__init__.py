"""The embedded user, version 12: `compile` the card, `hear` the words, `appraise`, `speak`."""
