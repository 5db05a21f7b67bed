"""# An A/B test that looks at the tail

Variant B of a checkout earns more on average, but now and then it goes badly wrong: returns, refunds, angry calls. An
ordinary A/B bandit leans to B. A preference that also looks at the worst tenth leaves it alone.
"""

# %%
# Profit per order in euros. B's average is higher by about one euro; its worst cases are far worse.
import matplotlib.pyplot as plt
import numpy as np

import pmbandits as pmb

rng = np.random.default_rng(0)


def order(variant: int) -> float:
    if variant == 0:
        return float(np.clip(rng.normal(20, 6), -60, 60))
    if rng.random() < 0.06:
        return float(np.clip(rng.normal(-35, 8), -60, 60))
    return float(np.clip(rng.normal(25, 6), -60, 60))


# %%
# Half the average, half the mean of the worst 10 %. Both policies meet the same kind of customers.
pref = 0.5 * pmb.Mean() + 0.5 * pmb.LowerCVaR(0.1)
support = pmb.Interval(-60, 60)
careful = pmb.Vet(pref, names=["A", "B"], support=support)
plain = pmb.UCB1(names=["A", "B"], n_arms=2, support=support)
shares = {"Vet, average and worst 10 %": [], "UCB1, average alone": []}
for _t in range(4000):
    for policy, path in zip((careful, plain), shares.values(), strict=True):
        arm = policy.ask()
        policy.tell(arm, order(arm))
        path.append(policy.pulls[1] / policy.t)

# %%
# What was learned about the variants, and where the traffic went.
for seen in careful.estimates:
    both = [metric.value(seen.x, weights=seen.p) for metric in (pref, pmb.Mean())]
    print(f"{seen.name}: {seen.n:5} orders, preference {both[0]:6.2f}, average {both[1]:6.2f}")
print(careful.explain())

# %%
# With rewards between −60 and 60, UCB1 needs very many orders to be sure of one euro; meanwhile it leans to B.
figure, ax = plt.subplots()
for name, path in shares.items():
    ax.plot(100 * np.array(path), label=name)
ax.set(xlabel="orders", ylabel="traffic to B so far (%)", ylim=(0, 100))
ax.legend()
