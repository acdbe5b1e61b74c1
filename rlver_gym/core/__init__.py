"""The values that everything else is about: persona, env card, emotion, dialogue, and what a user
and an agent are. All frozen; nothing here talks to anybody.
"""
