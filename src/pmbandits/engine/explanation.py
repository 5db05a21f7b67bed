"""What a policy shows of itself: what it knows of each arm, why the next arm is next, and a table for notebooks."""

from __future__ import annotations

import numpy as np

from pmbandits import _html
from pmbandits.engine.certainty import Certainty
from pmbandits.engine.roster import PLAYS
from pmbandits.engine.stopping import Stopping


class Explaining(Stopping):
    """What a policy shows of itself."""

    def explain(self, regret: float | str | None = None) -> str:
        """Explain in a few sentences and numbers why the next arm is the next one. This changes nothing.

        With a ``regret`` such as ``0.02`` or ``"2%"`` it also says whether that regret is certain, or when it may be.
        """
        clone = self._clone()  # all that is said is of one moment, also if other threads go on
        return clone._explanation_text(None if self.confidence is None else clone.certainty(), regret)

    def _explanation_text(self, sure: Certainty | None, regret: float | str | None = None) -> str:
        """The explanation, with a certainty that is worked out already."""
        mixture, pulls, t, waiting = self.mixture, self.pulls, self.t, int(self.pending.sum())
        shares = "; ".join(f"{n}: {100 * p / max(t, 1):.1f} % ({100 * m:.1f} %)"
                           for n, p, m in zip(self.names[:6], pulls, mixture, strict=False))  # fmt: skip
        arm, reason = self._next_arm_and_reason()
        text = f"Round {t + 1}: {arm} is next. Shares played so far (and wanted): {shares}. {reason}"
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

    def _next_arm_and_reason(self) -> tuple[str, str]:
        """The next arm, and the reason alone: quick, also where it takes long to say what is certain."""
        clone = self._clone()
        mixture, pulls = clone.mixture, clone.pulls
        spent, since = int(clone._memory.certify_pulls.sum()), clone._memory.t
        wanted = mixture[list(clone._active_arms)]
        counted, known = clone._memory.pulls.copy(), np.maximum(clone._memory.pulls, clone._memory.n_rewards)
        arm = clone.ask()
        place = clone._active_arms.index(arm) if arm in clone._active_arms else -1
        behind = since * wanted - counted  # since the clock began: after a change of the arms that play it begins anew
        lag = float(behind[place]) if place >= 0 else 0.0
        own = clone._reason(place) if place >= 0 else ""
        if place < 0 and clone._roster is not None:
            came = clone._roster.joined_at[arm] + 1
            text = f"It came in round {came:,} and has no reward yet, so it is tried now and then."
        elif int(clone._memory.certify_pulls.sum()) > spent:
            share = 100 * clone._memory.certify
            text = f"This pull is for certifying, as {share:.3g} % of pulls are. " + (
                "A reward of this arm makes the certified regret smaller faster than a reward of any other arm."
                if spent % 2 == 0
                else "Every second pull of this kind is of the arm with the fewest pulls."
            )
        elif own:
            text = own
        elif known[place] == known.min() and lag < max(behind) - 1e-9:
            text = f"It has the fewest pulls ({int(pulls[arm])}), and is explored."
        elif lag >= 0.0 and not np.allclose(behind, 0.0, rtol=0.0, atol=1e-9):
            text = f"It is {round(lag, 1) + 0.0:.1f} pulls behind its share."
        else:
            text = f"This is what the rule of {type(self).__name__} says."
        if self.limits is not None:
            text += f" It keeps the limits {self.limits}."
        return self.names[arm], text

    def _repr_html_(self) -> str:
        """A table of the arms, for notebooks."""
        given = ", ".join(f"{k}={v!r}" for k, v in self.options.items() if v is not None)
        title = f"{type(self).__name__}({given})"
        if "_now" not in self.__dict__:
            known = repr(self.metric) if self.metric is not None else "not given"
            return _html.html_titled_block(
                title, _html.html_table((), [("metric", known), ("state", "a recipe: not bound to arms yet")])
            )
        t, pulls, n_rewards, mixture = self.t, self.pulls, self._copy_of_arm_field("n_rewards"), self.mixture
        shown = np.argsort(-mixture, kind="stable")[:12]
        states = (PLAYS,) * self.n_arms if self._roster is None else self._roster.states
        labels = [n if state == PLAYS else f"{n} ({state})" for n, state in zip(self.names, states, strict=True)]
        rows = [
            (labels[i], f"{pulls[i]:,}", f"{100 * pulls[i] / max(t, 1):.1f} %", f"{100 * mixture[i]:.1f} %",
             f"{n_rewards[i]:,}")
            for i in (np.sort(shown) if self.n_arms <= 12 else shown)
        ]  # fmt: skip
        head = ("arm", "pulls", "played", "wanted", "rewards told")
        words = [f"{self.metric!r}, round {t:,}", f"{self.n_arms - 12} more arms" if self.n_arms > 12 else ""]
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


def next_arm_and_reason(policy: Explaining) -> tuple[str, str]:
    """The next arm of a policy, and the reason alone: quick, and nothing changes."""
    return policy._next_arm_and_reason()
