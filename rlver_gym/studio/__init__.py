"""A local web application: look at runs, try other replies, talk, and rate. Needs the extra."""
