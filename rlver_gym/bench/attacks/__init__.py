"""Replies made to raise the score without helping: the red team and its search."""
