"""# Hits: only the top tenth counts

A lab can screen compounds from four families. Most tests give little; what counts is the average of the best tenth,
`CVaR(0.9)`. The best plan is a mixture of two families, and neither is best alone.
"""

# %%
# One family hits rarely but fully, one is broad and mediocre, one often half-works, one is in between.
import matplotlib.pyplot as plt
import numpy as np

import pmbandits as pmb

test = np.arange(100)
families = pmb.Bandit.from_samples(
    {
        "rare": np.where(test < 4, 1.0, 0.0),
        "broad": np.linspace(0.1, 0.62, 100),
        "often": np.where(test < 60, 0.45, 0.0),
        "between": np.where(test < 15, 0.6, 0.0),
    }
)
hits = pmb.CVaR(0.9)
best = pmb.oracle(hits, families)
print(best)
ax = pmb.plot_mixture(hits, families)

# %%
# The rare family alone wastes most of the top tenth on failures; a quarter of broad tests fills it up.
#
# Learned from scratch, beside a policy that looks for the best average (and so prefers the broad family).
policies = [pmb.Vet(), pmb.UCB1(), pmb.Uniform()]
run = pmb.simulate(families, hits, policies, 5000, trials=10, seed=0)
for row in run.summary().rows:
    worth = best.value - row["regret"]
    print(f"{row['policy']:8} the plan played is worth {worth:.3f} of {best.value:.3f}")

# %%
# Where the tests went.
figure, ax = plt.subplots(figsize=(6.4, 3.0))
place = np.arange(4)
for k, row in enumerate(run.summary().rows[:2]):
    ax.bar(place + 0.4 * k - 0.2, 100 * np.array(row["pulls"]), 0.4, label=row["policy"])
ax.plot(place, 100 * best.weights, "k_", ms=30, mew=2, label="best mixture")
ax.set(ylabel="share of the tests (%)", xticks=place, xticklabels=families.names)
ax.legend()
