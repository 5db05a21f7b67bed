"""What a policy shows of itself: what it knows of each arm, why the next arm is next, and a table for notebooks."""

from __future__ import annotations

import numpy as np

from pmbandits import _html
from pmbandits.engine.certainty import Certainty
from pmbandits.engine.roster import PLAYS
from pmbandits.engine.segment_tradeoffs import segment_tradeoffs, tradeoff_text
from pmbandits.engine.stopping import Stopping

MAX_SHOWN_SEGMENTS = 5  # so many are explained one by one


class Explaining(Stopping):
    """What a policy shows of itself."""

    def explain(self, regret: float | str | None = None, *, segment: str | None = None) -> str:
        """Explain in a few sentences and numbers why the next arm is the next one. This changes nothing.

        With a ``regret`` such as ``0.02`` or ``"2%"`` it also says whether that regret is certain, or when it may be.
        In a policy with segments, the next arm is that for somebody of the ``segment``; without one, this is said of
        each. There it also says which segments give up something of their own for everybody together.
        """
        clone = self._clone()  # all that is said is of one moment, also if other threads go on
        return clone._explanation_text(None if self.confidence is None else clone.certainty(), regret, segment)

    def _explanation_text(
        self, sure: Certainty | None, regret: float | str | None = None, segment: str | None = None
    ) -> str:
        """The explanation, with a certainty that is worked out already."""
        waiting = int(self.pending.sum())
        if self._segments is None or segment is not None:
            text = f"Round {self.t + 1}: {self._text_of_next_arm(segment)}"
        else:
            said = " ".join(self._text_of_next_arm(name) for name in self.segments[:MAX_SHOWN_SEGMENTS])
            text = f"Round {self.t + 1}: {said}"
        if self._segments is not None and self.metric is not None:
            found = segment_tradeoffs(
                self.metric, self._segments, self._arm_estimates(), self.mixture, self._segment_frequencies()
            )
            text += tradeoff_text(found, None if segment is None else self._segments.index(segment), self._segments)
        if sure is not None:
            text += (
                f" The utility of the mixture is estimated at {sure.utility:.4g}, and it lies between {sure.lower:.4g} "
                f"and {sure.upper:.4g}. {sure}"
            )
        if regret is not None:
            text += f" {self.forecast(regret)}"
        text += self._detected_changes_text()
        if waiting:
            text += f" {waiting:,} reward{'s have' if waiting > 1 else ' has'} not been told yet."
        return text

    def _text_of_next_arm(self, segment: str | None) -> str:
        """Which arm is next (for somebody of a segment), the shares played and wanted, and the reason."""
        at, t = self._segment_positions(segment, 1), self.t
        arm, reason = self._next_arm_and_reason(segment)
        mixture, pulls, n, who = self.mixture, self.pulls, t, f"{arm} is next."
        if at.size:
            mixture, pulls, n = mixture[at[0]], pulls[at[0]], int(self.arrivals[at[0]])
            who = f"{arm} is next for somebody of {segment} ({n:,} of {t:,} arrivals)."
        shares = "; ".join(f"{name}: {100 * p / max(n, 1):.1f} % ({100 * m:.1f} %)"
                           for name, p, m in zip(self.names[:6], pulls, mixture, strict=False))  # fmt: skip
        return f"{who} Shares played so far (and wanted): {shares}. {reason}"

    def _next_arm_and_reason(self, segment: str | None = None) -> tuple[str, str]:
        """The next arm, and the reason alone: quick, also where it takes long to say what is certain."""
        clone = self._clone()
        people = clone._segment_positions(segment, 1)
        pulls, memory = clone._copy_of_arm_field("pulls"), clone._memory
        spent, since = int(memory.certify_pulls.sum()), memory.t
        if people.size:  # what is said is of this segment
            mine = memory.segment_of == people[0]
            since, row = int(memory.pulls[mine].sum()), clone.mixture[people[0]]
            assert clone._segments is not None
            wanted = np.where(mine, row[clone._segments.arm_of[list(clone._active_arms)]], 0.0)
        else:
            mine, wanted = np.ones(memory.n_arms, dtype=bool), clone.mixture[list(clone._active_arms)]
        counted, n_rewards = memory.pulls.copy(), memory.n_rewards.copy()
        known = np.maximum(counted, n_rewards)[mine]
        arm = clone.ask(segment=segment)
        if people.size and clone._segments is not None:
            arm = int(clone._segments.column_at[people[0], arm])
        place = clone._active_arms.index(arm) if arm in clone._active_arms else -1
        # since the clock began: after a change of the arms that play it begins anew
        behind = np.where(mine, since * wanted - counted, -np.inf)
        lag = float(behind[place]) if place >= 0 else 0.0
        own = clone._reason(place) if place >= 0 else ""
        if place < 0 and clone._roster is not None:
            came = clone._roster.joined_at[arm] + 1
            when = f"in round {came:,}" if segment is None else f"before number {came:,} of {segment}"
            text = f"It came {when} and has no reward yet, so it is tried now and then."
        elif int(clone._memory.certify_pulls.sum()) > spent:
            share = 100 * clone._memory.certify
            text = f"This pull is for certifying, as {share:.3g} % of pulls are. " + (
                "A reward of this arm makes the certified regret smaller faster than a reward of any other arm."
                if spent % 2 == 0
                else "Every second pull of this kind is of the arm with the fewest pulls."
            )
        elif own:
            text = own
        elif max(counted[place], n_rewards[place]) == known.min() and lag < max(behind) - 1e-9:
            text = f"It has the fewest pulls ({int(pulls[arm])}), and is explored."
        elif lag >= 0.0 and not np.allclose(behind[mine], 0.0, rtol=0.0, atol=1e-9):
            text = f"It is {round(lag, 1) + 0.0:.1f} pulls behind its share."
        else:
            text = f"This is what the rule of {type(self).__name__} says."
        if self.limits is not None:
            text += f" It keeps the limits {self.limits}."
        return self.names[arm if clone._segments is None else clone._segments.arm_list[arm]], text

    def _repr_html_(self) -> str:
        """A table of the arms, for notebooks."""
        given = ", ".join(f"{k}={v!r}" for k, v in self.options.items() if v is not None)
        title = f"{type(self).__name__}({given})"
        if "_now" not in self.__dict__:
            known = repr(self.metric) if self.metric is not None else "not given"
            return _html.html_titled_block(
                title, _html.html_table((), [("metric", known), ("state", "a recipe: not bound to arms yet")])
            )
        clone = self._clone()
        t, pulls, n_rewards = clone.t, clone._copy_of_arm_field("pulls"), clone._copy_of_arm_field("n_rewards")
        mixture, rounds = clone.mixture, np.full(pulls.size, t)
        if clone._segments is not None:  # shares are those within a segment
            segment_of, arm_of = clone._segments.segment_of, clone._segments.arm_of
            mixture, rounds = mixture[segment_of, arm_of], clone.arrivals[segment_of]
        count, labels = (
            pulls.size,
            [
                name if state == PLAYS else f"{name} ({state})"
                for name, state in zip(clone._columns, clone._arm_states(), strict=True)
            ],
        )
        shown = np.argsort(-mixture, kind="stable")[:12] if count > 12 else np.arange(count)
        rows = [
            (labels[i], f"{pulls[i]:,}", f"{100 * pulls[i] / max(rounds[i], 1):.1f} %", f"{100 * mixture[i]:.1f} %",
             f"{n_rewards[i]:,}")
            for i in shown
        ]  # fmt: skip
        head = ("arm", "pulls", "played", "wanted", "rewards told")
        words = [f"{self.metric!r}, round {t:,}", f"{count - 12} more arms" if count > 12 else ""]
        return _html.html_titled_block(title, _html.html_paragraphs(words), _html.html_table(head, rows))

    def _detected_changes_text(self) -> str:
        """What was found, as sentences for :meth:`Policy.explain`; nothing if no change was found."""
        all_of_them = self.changes
        if not all_of_them:
            return ""
        last, count = all_of_them[-1], len(all_of_them)
        forgotten = self._plan.forgetting is not None and self._plan.forgetting.on_change == "restart"
        text = f" {count} change{'s were' if count > 1 else ' was'} found, the last in round {last.round:,}: {last}"
        return text + (" Its rewards from before were forgotten." if forgotten else "")


def next_arm_and_reason(policy: Explaining, segment: str | None = None) -> tuple[str, str]:
    """The next arm of a policy (for somebody of a segment), and the reason alone: quick, and nothing changes."""
    return policy._next_arm_and_reason(segment)
