"""What an algorithm gives to be a policy, and what the rest of the engine may use of it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from pmbandits.constraints import Limits
from pmbandits.engine.locking import LockedMemory
from pmbandits.engine.plan import Setup
from pmbandits.metrics.distortion import Distortion
from pmbandits.state.layout import Own
from pmbandits.state.memory import Memory
from pmbandits.supports import Support


class Algorithm(LockedMemory):
    """A policy as its memory is made from it: options, problem, and the methods that its author writes."""

    name: ClassVar[str]
    _update: ClassVar[Any]  # compiled: bring the mixture up to date
    _choose_in_lanes: ClassVar[Any] = None  # compiled: decide in many trials at once, if the policy has an index
    _own: ClassVar[Own] = ()  # the fields that its state has of its own
    _uses_sets: ClassVar[bool] = True  # whether the kernels look at the confidence sets, or only readers do
    takes_segments: ClassVar[bool] = False  # whether ``choose`` looks at the segment that arrives
    forgets: ClassVar[bool] = False  # whether it can go on when rewards are forgotten: ``adjust_after_forgetting``
    _max_bytes: int | None = None  # limit on the memory, for policies from files

    metric: Distortion | None
    support: Support | None
    seed: int
    epsilon: float | None
    limits: Limits | None  # those on the arms that play
    _all_limits: Limits | None
    _own_names: bool  # whether the arms were named by the user

    @abstractmethod
    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        """What the algorithm needs: its grid, numbers and confidence sets. Authors of a policy write this method."""

    def check_options(self) -> None:
        """Refuse options that do not go together. Each option by itself was checked already."""

    def default_metric(self) -> Distortion | None:
        """The metric where none is given."""
        return None

    def holds_together(self, memory: Memory) -> bool:
        """Whether the policy's own numbers are possible, in a memory that was read from a file and is sound otherwise.

        A policy whose kernels use numbers of its own as positions in arrays checks them here. Files can come from
        strangers, and kernels do not check where they read and write.
        """
        del memory
        return True

    @staticmethod
    def adjust_after_forgetting(memory: Memory) -> None:
        """Adjust the policy's own numbers after rewards and pulls were forgotten, so that there are fewer now.

        A policy with ``forgets = True`` sets back here whatever it has counted in rounds or rewards.
        """

    def _reason(self, arm: int) -> str:
        """Why this arm was just chosen, in the policy's own words. If it has none, :meth:`explain` finds some."""
        return ""
