"""Weights from recordings: what a reply does to people, with who they are and how they felt taken out."""
