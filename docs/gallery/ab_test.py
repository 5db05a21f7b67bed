"""# An A/B test that looks at bad days, too

A shop tests two versions of its checkout page. Version B earns a little more per order on average. But now and then an
order goes badly wrong with B: the customer sends everything back, or calls the hotline. An ordinary A/B bandit looks
at the average only, and slowly moves the traffic to B. Here we also count the worst tenth of the orders, and the
traffic stays with A.
"""

# %%
# These functions play the role of the real world. A large sample shows what nobody knows during the test: the average
# profit of B is higher by a bit more than one euro, and its worst tenth is far worse.
import matplotlib.pyplot as plt
import numpy as np

import pmbandits as pmb

rng = np.random.default_rng(0)


def order(variant: int) -> float:
    """The profit of one order, in euros."""
    if variant == 0:
        return float(np.clip(rng.normal(20, 6), -60, 60))
    if rng.random() < 0.06:
        return float(np.clip(rng.normal(-35, 8), -60, 60))
    return float(np.clip(rng.normal(25, 6), -60, 60))


average, worst_tenth = pmb.Mean(), pmb.LowerCVaR(0.1)
truth = {name: [order(k) for _ in range(50_000)] for k, name in enumerate("AB")}
for name, profits in truth.items():
    print(
        f"{name}: average {average.value(profits):6.2f}   worst tenth {worst_tenth.value(profits):7.2f}"
    )
# check: 1 < average.value(truth["B"]) - average.value(truth["A"]) < 2
# check: worst_tenth.value(truth["B"]) < worst_tenth.value(truth["A"]) - 20

# %%
# The preference gives half of its weight to the average, and half to the average of the worst 10 %. `Vet` learns with
# this preference. `UCB1`, a standard bandit, learns with the average alone.
pref = 0.5 * average + 0.5 * worst_tenth
support = pmb.Interval(-60, 60)
careful = pmb.Vet(pref, names=["A", "B"], support=support)
plain = pmb.UCB1(names=["A", "B"], n_arms=2, support=support)
shares = {"Vet: average and worst 10 %": [], "UCB1: average alone": []}
for _t in range(4000):
    for policy, path in zip((careful, plain), shares.values(), strict=True):
        arm = policy.ask()
        policy.tell(arm, order(arm))
        path.append(policy.pulls[1] / policy.t)

# %%
# This is what `Vet` has seen. It has tried B only as often as was needed to see that it is worse by the preference.
# From so few orders, the numbers of B are rough: compare them with the large sample above.
for seen in careful.estimates:
    values = [metric.value(seen.x, weights=seen.p) for metric in (pref, average)]
    print(
        f"{seen.name}: {seen.n:5} orders   preference {values[0]:6.2f}   average {values[1]:6.2f}"
    )
# check: pref.value(careful.estimates[0].x, weights=careful.estimates[0].p) > 12
# check: pref.value(careful.estimates[1].x, weights=careful.estimates[1].p) < 10
# check: careful.estimates[1].n < 400

# %%
# `explain()` says the same in words.
print(careful.explain())

# %%
# The picture shows where the traffic went. With profits anywhere between −60 and 60 euros, one euro is hard to see:
# after 4,000 orders UCB1 still sends a good part of the traffic to A. But it leans to B, and `Vet` does not.
figure, ax = plt.subplots()
for name, path in shares.items():
    ax.plot(100 * np.array(path), label=name)
ax.set(xlabel="orders", ylabel="traffic to B so far (%)", ylim=(0, 100))
ax.legend(title="policy")
# check: shares["UCB1: average alone"][-1] > 0.5 and shares["UCB1: average alone"][-1] < 0.9
# check: shares["Vet: average and worst 10 %"][-1] < 0.1
