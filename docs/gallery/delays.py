"""# Suppliers with heavy delays

A procurement officer orders from one of two suppliers again and again. Their deliveries are late by some days, and now
and then by weeks: strikes, storms, closed borders. Who should get the orders? This is the first example of the paper.
Its answer depends on one number, β, which says how much rare delays count.
"""

# %%
# *Local* is late by six days on average, and hardly ever by more than two weeks. *Overseas* is late by less than five
# days on average, but its delays have a heavy tail. A reward is minus a delay.
import matplotlib.pyplot as plt
import numpy as np
import scipy.stats as st

import pmbandits as pmb

delays = {"local": st.gamma(9, scale=0.7), "overseas": st.lognorm(1.1, scale=2.6)}
for name, days in delays.items():
    print(
        f"{name:9} average {days.mean():.1f} days, one delivery in 100 is late by {days.ppf(0.99):.0f} days"
    )
# check: delays["overseas"].mean() < delays["local"].mean()
# check: delays["overseas"].ppf(0.99) > 2 * delays["local"].ppf(0.99)

# %%
# The inverted-S metric with β < 1 gives more weight to rare outcomes, and with β > 1 less. β = 1 is the average. The
# officer has a log of 2,000 deliveries of each supplier, and asks the oracle for each β.
rng = np.random.default_rng(1)
log = pmb.Bandit.from_samples(
    {name: -days.rvs(2_000, random_state=rng) for name, days in delays.items()}
)
choices = {}
for beta in (0.5, 1.0, 2.0):
    metric = pmb.InvertedS(beta)
    values = [pmb.utility(metric, log, arm) for arm in np.eye(2)]
    best = pmb.oracle(metric, log)
    choices[beta] = log.names[best.best_arm]
    print(
        f"β = {beta:g}: local {values[0]:6.2f}, overseas {values[1]:6.2f}; orders go to {choices[beta]}"
    )
# check: choices == {0.5: "local", 1.0: "overseas", 2.0: "overseas"}

# %%
# With β = ½ the officer takes the supplier with the shallow tail, though it is slower on average. If a contract pays
# for catastrophic delays, β = 2 suits better, and the supplier with the lower average gets the orders. The picture
# shows why: the metric bends the share of deliveries that are late by more than x days before it takes the average.
figure, axes = plt.subplots(1, 3, figsize=(9.0, 2.8), sharey=True)
x = np.linspace(0.0, 40.0, 400)
for ax, beta in zip(axes, choices, strict=True):
    for name, days in delays.items():
        late = 1.0 - pmb.InvertedS(beta)(
            days.cdf(x)
        )  # for a reward −delay the other end of h counts
        ax.plot(x, 100 * late, label=name)
    ax.set(title=f"β = {beta:g}", xlabel="days late", xlim=(0, 40))
axes[0].set_ylabel("weight of later deliveries (%)")
axes[0].legend(title="supplier")

# %%
# The officer does not know these distributions when the contract begins. Inverted S with β < 1 has no Hölder pair,
# because its curve is vertical at both ends; so CE-UCB-M, whose bonus is made of that pair, refuses it. PM-UCB-M needs
# none. Delays are cut off at 60 days here, since it needs to know where rewards can lie.
capped = pmb.Bandit.from_samples(
    {name: np.maximum(log.sample(name, 2_000, rng=2), -60.0) for name in log.names}
)
try:
    pmb.CEUCB(pmb.InvertedS(0.5), n_arms=2, support=pmb.Interval(-60, 0), horizon=1_000)
except ValueError as error:
    print("CE-UCB-M:", error)
run = pmb.simulate(
    pmb.InvertedS(0.5),
    pmb.Bandit(list(capped.distributions), capped.names, support=pmb.Interval(-60, 0)),
    {"Vet": pmb.Vet(), "UCB1, for the average": pmb.UCB1()},
    2_000,
    trials=10,
    seed=0,
)
shares = {
    policy: run.column("pulls", policy)[1][:, -1].mean(axis=0) / 2_000
    for policy in run.policies
}
for policy, share in shares.items():
    print(
        f"{policy:24} orders from local {100 * share[0]:.0f} %, from overseas {100 * share[1]:.0f} %"
    )
# check: shares["Vet"][0] > 0.8 and shares["UCB1, for the average"][1] > 0.5
