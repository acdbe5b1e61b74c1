"""The studio: look at runs, try other replies, talk and rate; and its pages as one file."""
