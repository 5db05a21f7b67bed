"""Whether smaller or larger numbers are better: by what was said, and by the name of their column."""

from __future__ import annotations

from collections.abc import Sequence

from pmbandits.logs import Finding, Log, sounds_like_gain, sounds_like_loss, words_of_name
from pmbandits.metrics import Preference


def is_loss_and_whether_assumed(
    loss: bool | None, wishes: Sequence[Preference], log: Log
) -> tuple[bool, bool, list[Finding]]:
    """Whether the numbers are losses, whether that was assumed, and a finding if words and the column's name differ.

    If words name another thing than the column ("maximise profit" of a column of costs), the column's name decides.
    """
    if loss is not None:
        return loss, False, []
    said = {wish.loss for wish in wishes if wish.loss is not None}
    if len(said) > 1:
        raise ValueError("some of the preferences say that smaller is better, and others that larger is; ask in turn.")
    by_name = sounds_like_loss(log.reward_column)
    if not said:
        return by_name, True, []
    wanted = said.pop()
    wish = next(wish for wish in wishes if wish.loss is wanted)
    named = words_of_name(log.reward_column)
    shared = any(a.startswith(b) or b.startswith(a) for a in words_of_name(wish.about) for b in named)
    if wanted is by_name or shared or not (by_name or sounds_like_gain(log.reward_column)):
        return wanted, False, []
    seen = f"“{log.reward_column}” sounds like something to keep {'small' if by_name else 'large'}"
    done = f"So {wish.statement} was taken to mean {'small' if by_name else 'large'} numbers there."
    change = "If not: --no-loss (loss=False in Python)." if by_name else "If not: --loss (loss=True in Python)."
    return by_name, False, [Finding("direction", f"{seen}, and not like {wish.about}.", done, change)]
