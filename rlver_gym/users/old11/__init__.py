"""How the embedded user appraises: an utterance to features, to points, each with its reason.

`rlver_gym.users.EmbeddedUser` is the user itself.
"""
