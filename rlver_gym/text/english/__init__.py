"""English: what the embedded user knows of the language. Knows no card and no user."""
