"""The people as cards: found in folders, read, and expanded into what every user knows of them."""
