"""The studio: look at runs, try other replies, talk and rate, in a local web application that needs
the extra; and its pages as one file to read, which needs nothing.
"""
