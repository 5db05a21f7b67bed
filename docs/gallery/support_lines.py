"""# Support in two languages: the worst waits of all callers

A support desk has callers of two languages, and it knows the language before it chooses how to answer. It cares about
the average wait, and as much about the longest waits: the average of the worst 10 % of *all* callers. What should it
do for each language?
"""

# %%
# Each language can be served by phone, by chat or by calling back. Rewards are minutes of waiting with a minus sign.
# Three quarters of the callers speak English, and one quarter Portuguese.
import numpy as np
import scipy.stats as st

import pmbandits as pmb
from pmbandits.simulation import PerSegment


def waits(a, b, shortest, longest):
    return st.beta(a, b, loc=-longest, scale=longest - shortest)


lines = {
    "English": pmb.Bandit(
        {
            "phone": waits(4, 4, 5, 11),
            "chat": waits(3, 1.2, 0, 20),
            "call back": waits(2, 2, 4, 26),
        }
    ),
    "Portuguese": pmb.Bandit(
        {
            "phone": waits(2, 2, 14, 40),
            "chat": waits(6, 3, 10, 34),
            "call back": waits(5, 2, 4, 40),
        }
    ),
}
callers = {"English": 0.75, "Portuguese": 0.25}
preference = "0.5*mean + 0.5*lower_cvar(0.1)"

# %%
# One could ask for each language by itself. Then English callers get the phone: its waits are never long.
for language, arms in lines.items():
    best = pmb.oracle(preference, arms)
    print(f"{language} by itself: {arms.names[best.best_arm]}, {-best.value:.1f} minutes")
# check: "English by itself: phone" in shown and "Portuguese by itself: call back" in shown

# %%
# But the longest waits of all callers are those of the Portuguese line, whatever is done. An English caller who waits
# 20 minutes in a chat is hardly ever among them. So for English the average counts more, and chat is better.
plan = pmb.oracle(preference, lines, segments=callers)
print(plan)
print(f"minutes gained over the best choice for each language by itself: {plan.gain:.2f}")
# check: plan.weights[0].argmax() == 1 and plan.weights[1].argmax() == 2 and plan.gain > 0.7

# %%
# A policy with segments learns this plan from the waits alone. The picture shows its regret beside that of one policy
# for each language, which learns something else: what is best for each language by itself.
run = pmb.simulate(
    preference,
    lines,
    {
        "one policy with segments": pmb.Vet(),
        "one policy for each language": PerSegment(pmb.Vet()),
    },
    horizon=5000,
    trials=10,
    segments=callers,
)
ax = run.plot()
regrets = {row["policy"]: row["regret"] for row in run.summary().rows}
for name, regret in regrets.items():
    print(f"{name}: regret {regret:.2f} minutes")
# check: regrets["one policy with segments"] < 0.5 * regrets["one policy for each language"]

# %%
# In production the language is part of every question. Here is the loop of such a desk, for 3,000 callers.
desk = pmb.Vet(
    preference,
    names=["phone", "chat", "call back"],
    support=pmb.Interval(-60, 0),
    segments=list(callers),
)
rng = np.random.default_rng(0)
for language in rng.choice(list(callers), size=3000, p=list(callers.values())):
    line = desk.ask(segment=language)
    minutes = -float(lines[language].sample(line, rng=rng)[0])
    desk.tell(line, -minutes, segment=language)
for language, shares in zip(desk.segments, desk.mixture, strict=True):
    print(language, dict(zip(desk.names, shares.round(2).tolist(), strict=True)))
# check: desk.mixture.argmax(axis=1).tolist() == [1, 2]
