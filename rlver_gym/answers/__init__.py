"""What a model's text says: its words, its thoughts, and what stands around them."""
