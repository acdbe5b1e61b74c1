"""Cards of people beyond playing them: checked, paired with stories, written by a model."""
