"""Lets schemathesis get past the first call: what it makes up is valid, but names nobody, and a
request id that it uses twice begins nothing. Loaded by it, by way of SCHEMATHESIS_HOOKS.
"""

import random
import re
from uuid import uuid4

import schemathesis

KNOWN = {
    "env": ("RLVER-Empathy-v0", "RLVER-Sparse-v0", "SAGE-Sentient-v0"),
    "persona": ("noor-the-old-dog", "theo-the-burst-pipe"),
    "user": ("embedded",),
}
REPLACED = 0.8
"""The share of values that become known ones; the others stay as they were made up."""


@schemathesis.hook
def before_call(context, case, kwargs):
    """A valid value stays a valid value, and an invalid one an invalid one."""
    if not isinstance(case.body, dict):
        return
    request_id = case.body.get("request_id")
    is_valid = isinstance(request_id, str) and re.fullmatch(r"[!-~]{1,100}", request_id)
    if is_valid and random.random() < REPLACED:
        case.body = {**case.body, "request_id": uuid4().hex}
    for name, choices in KNOWN.items():
        made_up = case.body.get(name)
        if isinstance(made_up, str) and len(made_up) <= 80 and random.random() < REPLACED:
            case.body = {**case.body, name: random.choice(choices)}
