"""The learner: token-level PPO, GRPO and their kin, and best-of-n fine-tuning, on any text
environment. Of the environment it knows Gymnasium's interface alone.

An iteration of `train`, a value on each arrow:

    reset_specs ─ ResetSpec ─▶ Renderer ─ Prompt (token ids) ─▶ Sampler: this model or a server
        ▲                                                          │ Completion (ids, logprobs)
        │              env.step ◀─ text ─ Renderer.parse ◀─────────┘
        │                  │ reward
        │                  ▼
        │     Trajectory ─ pack_rollouts ─▶ Rollouts ─ prepare ─▶ Prepared, with advantages
        │                                                          │ take_steps, compute_loss
        └── save: checkpoint ◀── weights, optimizer, metrics ◀─────┘
"""
