"""What a model computes in."""

from typing import Literal

Dtype = Literal["auto", "float32", "bfloat16"]
"""auto: bfloat16 on a GPU, float32 on a CPU."""
