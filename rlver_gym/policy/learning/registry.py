"""The algorithms by name. A new one is one entry of `ALGORITHMS`; its options, checks, help and
presets follow from that.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Aggregate = Literal["token", "turn", "sequence", "constant"]
Comparison = Literal["dialogues", "replies"]
"""What there are `group_size` of: dialogues that begin alike, or replies to one moment."""
GroupAdvantage = Literal["episode", "turn", "centred"]
NextReply = Literal["best", "drawn"]


@dataclass(frozen=True, slots=True)
class AdvantageConfig:
    """How rewards become advantages."""

    kind: Literal["gae", "winner", "pairs", "reply"] | GroupAdvantage = "episode"
    """gae: by a critic; winner: 1 for the best of the replies to a moment; pairs: none, since
    replies are compared two by two in the loss; reply: its reward against its moment's mean. The
    others compare dialogues of a group by the
    whole return, the return from this turn on, or this turn's reward.
    """
    compare: Comparison = "dialogues"
    """With replies, nothing that comes after a reply counts."""
    gamma: float = 1.0
    """Discount (gae, turn)."""
    gae_lambda: float = 1.0
    """GAE's lambda."""
    whiten: bool = True
    """Advantages with mean 0 and standard deviation 1 over all action tokens (gae)."""
    baseline: Literal["group", "others"] = "group"
    """A dialogue is compared with the mean of its group, itself included, or of the others."""
    scale: bool = True
    """Divided by the group's standard deviation."""
    min_std: float = 0.0
    """The least that divides (`scale`), in units of scaled rewards."""
    margin: float = 2.0
    """The least distance of a pair, or of the winner from the mean, in the environment's rewards.
    """
    drop_flat: bool = False
    """Groups in which no advantage differs from 0 take no part in learning."""


@dataclass(frozen=True, slots=True)
class Objective:
    """What an update minimises."""

    surrogate: Literal["clip", "cispo", "likelihood", "preference"] = "clip"
    """Of the policy: PPO's, CISPO's, the cross-entropy of the action tokens, weighed by the
    advantage, or DPO's, which compares replies two by two.
    """
    ratio: Literal["token", "sequence"] = "token"
    """Whose probability ratio."""
    clip_low: float = 0.2
    """The ratio counts down to 1 - clip_low."""
    clip_high: float = 0.2
    """The ratio counts up to 1 + clip_high."""
    aggregate: Aggregate = "turn"
    """How tokens are averaged."""
    constant: float = 512.0
    """The length that `aggregate="constant"` divides by, in tokens."""
    tis_cap: float = float("inf")
    """Truncated importance sampling, where another program samples: the most that a token counts
    because the sampler thought it less likely. Infinite: no correction.
    """
    entropy: float = 0.0
    """Weight of the entropy bonus."""
    kl: float = 0.0
    """Weight of the divergence from the reference."""
    beta: float = 0.1
    """DPO's."""
    anchor: float = 0.0
    """Weight of the better reply's cross-entropy, a token of it, beside its preference."""
    value_clip: float | None = 0.5
    """How far a value may move from its old one; None for any distance."""


CRITIC_OPTIONS = frozenset("gae_lambda critic_lr critic_knows value_clip".split())
GROUP_OPTIONS = frozenset("group_size advantage min_std".split())
REPLY_OPTIONS = frozenset(("next_reply",))
"""Of comparing replies to one moment."""
NOT_OF_REPLIES = frozenset("advantage gamma gae_lambda min_std".split())
"""What decides nothing where replies to one moment are compared."""
_CLIP_OPTIONS = frozenset(("clip_low", "clip_high"))
_RFT_IGNORES = CRITIC_OPTIONS | NOT_OF_REPLIES | _CLIP_OPTIONS | {"compare", "reward_scale"}
KL = 0.04
"""Weight of the divergence from the model at the start: GRPO's own (arXiv:2402.03300, 4.2)."""


class Algorithm(NamedTuple):
    """A published algorithm: what it takes of the equations, and what it leaves to the config."""

    advantage: AdvantageConfig
    objective: Objective
    ignores: frozenset[str] = CRITIC_OPTIONS
    """Options of the config that decide nothing here; to set one is an error."""

    @property
    def has_critic(self) -> bool:
        return self.advantage.kind == "gae"

    @property
    def learns_pairs(self) -> bool:
        """Whether it learns from two replies at a time, and so needs the reference."""
        return self.objective.surrogate == "preference"

    @property
    def has_margin(self) -> bool:
        return self.advantage.kind in ("winner", "pairs")

    def list_unused_options(self, compare: Comparison) -> frozenset[str]:
        """The options that decide nothing with this way to compare."""
        unused = self.ignores | (NOT_OF_REPLIES if compare == "replies" else REPLY_OPTIONS)
        if compare == "replies":
            unused -= {"group_size"}
        return unused | (frozenset() if self.has_margin else {"margin"})


ALGORITHMS: dict[str, Algorithm] = {
    # Schulman et al., arXiv:1707.06347, over tokens; whitened, value clipped as in RLVER,
    # arXiv:2507.03112
    "ppo": Algorithm(
        AdvantageConfig("gae"), Objective(aggregate="token", kl=KL), ignores=GROUP_OPTIONS
    ),
    # Shao et al., arXiv:2402.03300: an output of the paper's is one reply, so the mean is over
    # turns
    "grpo": Algorithm(AdvantageConfig(), Objective(kl=KL)),
    # Liu et al., arXiv:2503.20783: neither the group's spread nor the length divides
    "dr_grpo": Algorithm(
        AdvantageConfig(scale=False),
        Objective(aggregate="constant"),
        ignores=CRITIC_OPTIONS | {"min_std"},
    ),
    # Yu et al., arXiv:2503.14476: clip-higher, mean over tokens, no groups without signal; its
    # resampling and overlong filtering are left out, its overlong shaping is an option
    "dapo": Algorithm(
        AdvantageConfig(drop_flat=True), Objective(clip_high=0.28, aggregate="token")
    ),
    # Zheng et al., arXiv:2507.18071: the ratio of the sequence, with its own much smaller bounds
    "gspo": Algorithm(
        AdvantageConfig(),
        Objective(ratio="sequence", clip_low=3e-4, clip_high=4e-4, aggregate="sequence"),
    ),
    # MiniMax, arXiv:2506.13585: no bound below; it gives no number for the one above, so that one
    # is ours
    "cispo": Algorithm(
        AdvantageConfig(),
        Objective(surrogate="cispo", clip_low=1.0, clip_high=4.0, aggregate="token"),
    ),
    # Ahmadian et al., arXiv:2402.14740: REINFORCE against the mean of the others; a reply is one
    # action, so its tokens add up
    "rloo": Algorithm(
        AdvantageConfig(baseline="others", scale=False),
        Objective(aggregate="constant"),
        ignores=CRITIC_OPTIONS | {"min_std"},
    ),
    # Best of n with fine-tuning on the winners: Dong et al., RAFT, arXiv:2304.06767, and Yuan et
    # al., RFT, arXiv:2308.01825; here turn by turn
    "rft": Algorithm(
        AdvantageConfig("winner", compare="replies"),
        Objective(surrogate="likelihood"),
        ignores=_RFT_IGNORES,
    ),
    # Rafailov et al., arXiv:2305.18290, on pairs of the policy's own, as in Guo et al.,
    # arXiv:2402.04792; the anchor is Pang et al.'s, arXiv:2404.19733, its weight ours
    "dpo": Algorithm(
        AdvantageConfig("pairs", compare="replies"),
        Objective(surrogate="preference", anchor=0.1),
        ignores=_RFT_IGNORES | {"aggregate", "tis_cap"},
    ),
}


def list_algorithms_with_option(option: str) -> list[str]:
    """Those that take the option with one of their ways to compare."""
    return [
        name
        for name, algorithm in ALGORITHMS.items()
        if option
        not in algorithm.list_unused_options("dialogues") & algorithm.list_unused_options("replies")
    ]
