"""The embedded user, version 13: `compile` the card, `hear` the words, `appraise`, `speak`."""
