"""What a page of `rlver-gym report` holds."""

import base64
import gzip
import json
import re


def read_page(page):
    """The data that the page's script shows."""
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/gzip" id="data">([A-Za-z0-9+/=]*)</script>', text)
    assert found
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def alarms(page):
    """What it warns of: what is not as a run of its plan writes it, or not as recomputed."""
    return list_sentences(read_page(page)["overview"])


def list_sentences(overview, *, alarms_only=True):
    """The same of what the studio's first page is given, or all that it says of runs."""
    verdicts = overview["verdicts"]
    return [one["text"] for one in verdicts if one["is_alarm"] or not alarms_only]
