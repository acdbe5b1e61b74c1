"""The learner: token-level PPO, GRPO and their kin, and best-of-n fine-tuning, on any text
environment. Of the environment it knows Gymnasium's interface alone.
"""
