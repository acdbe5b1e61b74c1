"""The LLM user: two steps of reasoning, appraise and speak, on any OpenAI-compatible server."""
