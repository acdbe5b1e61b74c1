"""The one door through which anything leaves the process: chat completions of OpenAI-compatible
servers.
"""
