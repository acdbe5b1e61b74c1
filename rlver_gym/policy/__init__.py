"""The learner: token-level PPO and GRPO on any text environment. The only place that imports torch, and it knows Gymnasium's interface, not our classes."""
