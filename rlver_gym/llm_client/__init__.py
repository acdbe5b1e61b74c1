"""Asking chat servers with the OpenAI API: the one room whose words leave the process.

A request (`values`, with the fields of `body_fields`) goes through a handle that anybody may copy
or pickle (`connect`), past the response cache, which keeps answers and failures for a replay, to
the one client that its settings share (`settings`: address, key, patience, budget). The client
(`client`) is one loop: wait until the server may be asked, send, classify, and ask again while
attempts and time last. When it may be asked (`admission`) is the server's state: whether it is
down, which everybody waits for. One table (`refusals`) says what a failure means and how far it
reaches: the request, the dialogue, the model or the account. HTTP is left to the library that
`openai` brings (`transport`): connections, TLS, proxies; what comes back is bounded, read by
`wire`, and quoted only as `excerpts` allows. Retries of `openai` are not used: they know neither
budgets, nor outages, nor answers that cannot be used.
"""
