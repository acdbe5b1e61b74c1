"""The published algorithms, as pairs of how turns are credited and what is minimised."""

from typing import NamedTuple

from rlver_gym.policy.credit import Credit
from rlver_gym.policy.objective import Objective


class Variant(NamedTuple):
    """A published algorithm."""

    credit: Credit
    objective: Objective


VARIANTS = {
    # Schulman et al., arXiv:1707.06347, over tokens; whitened, value clipped, no KL as in RLVER, arXiv:2507.03112
    "ppo": Variant(Credit("gae"), Objective(aggregate="token")),
    # Shao et al., arXiv:2402.03300: an output of the paper's is one reply, so the mean is over turns
    "grpo": Variant(Credit(), Objective()),
    # Liu et al., arXiv:2503.20783: neither the group's spread nor the length divides
    "dr_grpo": Variant(Credit(scale=False), Objective(aggregate="constant")),
    # Yu et al., arXiv:2503.14476: clip-higher, mean over tokens, no groups without signal; its resampling is left out, its overlong shaping and filtering are options
    "dapo": Variant(Credit(drop_flat=True), Objective(high=0.28, aggregate="token")),
    # Zheng et al., arXiv:2507.18071: the ratio of the sequence, with its own much smaller bounds
    "gspo": Variant(Credit(), Objective(ratio="sequence", low=3e-4, high=4e-4, aggregate="sequence")),
    # MiniMax, arXiv:2506.13585: no bound below; it gives no number for the one above, so that one is ours
    "cispo": Variant(Credit(), Objective(surrogate="cispo", low=1.0, high=4.0, aggregate="token")),
    # Ahmadian et al., arXiv:2402.14740: REINFORCE against the mean of the others; a reply is one action, so its tokens add up
    "rloo": Variant(Credit(baseline="others", scale=False), Objective(aggregate="constant")),
}
