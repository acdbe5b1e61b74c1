"""What vLLM's /v1/completions answers."""


def completion(ids, logprobs, ended, other=None):
    """A completion of these token ids; `other`: fields of it that are to be different."""
    named = {"tokens": [f"token_id:{one}" for one in ids], "token_logprobs": logprobs}
    choice = {"index": 0, "text": "", "finish_reason": ended, "logprobs": named} | (other or {})
    return {"id": "x", "object": "text_completion", "created": 0, "model": "m", "choices": [choice]}
