"""# Hits: only the top tenth counts

A lab can screen compounds from twelve families. Most tests give nothing; what counts is the average of the best
tenth, `CVaR(0.9)`. The best plan is a mixture of few families, and it is not the family with the best average.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import scipy.stats as st

import pmbandits as pmb

rng = np.random.default_rng(11)
families = pmb.Bandit(
    [
        st.beta(a, b)
        for a, b in zip(rng.uniform(0.15, 3.0, 12), rng.uniform(1.5, 6.0, 12), strict=True)
    ],
    names=[f"family {k}" for k in range(12)],
)
hits = pmb.CVaR(0.9)
best = pmb.oracle(hits, families)
print(best)
ax = pmb.plot_mixture(hits, families)

# %%
# Learned from scratch, beside the policy that looks for the best average (and finds it).
T = 5000
run = pmb.simulate(
    families, hits, [pmb.Track(), pmb.UCB1(), pmb.Uniform()], horizon=T, trials=3, seed=0
)
for row in run.summary().rows:
    print(
        f"{row['policy']:8} value of the plan {best.value - row['regret']:.3f} of {best.value:.3f}"
    )

# %%
# Where the tests went.
figure, ax = plt.subplots(figsize=(6.4, 3.0))
place = np.arange(12)
for k, row in enumerate(run.summary().rows[:2]):
    ax.bar(place + 0.4 * k - 0.2, 100 * np.array(row["pulls"]), 0.4, label=row["policy"])
ax.plot(place, 100 * best.weights, "k_", ms=14, mew=2, label="best mixture")
ax.set(xlabel="family", ylabel="share of the tests (%)", xticks=place)
ax.legend()
