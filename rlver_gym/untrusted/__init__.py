"""What comes from outside: files, servers and models. One way to read a file, to parse JSON, and to show text, all of them bounded. Knows nothing else.

What the caller types is trusted; what a file, a server or a model says is not. It is never imported, never opened as a path outside its folder, never
rendered as markup or terminal codes, and is bounded in size, depth and number before it is parsed.
"""
