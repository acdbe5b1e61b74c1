"""The reader: a sentient user that reads meaning with a small pretrained encoder, and mixes what it finds with the embedded user's appraisal.

Needs torch and transformers (extra `reader`). Slower than the embedded user; nearer to what readers of rated replies said (docs/trust.md).
"""
