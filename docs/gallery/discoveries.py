"""# Hits: only the best tenth counts

A laboratory can test substances from four families. Most tests give little. What counts in the end is the average of
the best tenth of all tests, and that is the preference `UpperCVaR(0.9)`. The best plan mixes two families, and neither
of the two is the best one alone.
"""

# %%
# One family rarely gives a hit, but then a full one. One is broad and mediocre, one works half-way in many tests, and
# one lies in between.
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
hits = pmb.UpperCVaR(0.9)
best = pmb.oracle(hits, families)
print(best)
ax = pmb.plot_mixture(hits, families)
# check: set(np.array(families.names)[best.weights > 0.01]) == {"rare", "broad"}
# check: families.names[best.best_arm] == "between"

# %%
# Why a mixture? With the rare family alone, only 4 of 100 tests are hits, so more than half of the best tenth are
# failures. A quarter of broad tests fills this gap with results that are at least useful.
#
# Now the same has to be learned, without knowing the families. `UCB1` looks for the best average, `Uniform` tests all
# families equally often.
policies = [pmb.Vet(), pmb.UCB1(), pmb.Uniform()]
run = pmb.simulate(hits, families, policies, 5000, trials=20, seed=0)
rows = {row["policy"]: row for row in run.summary().rows}
for name, row in rows.items():
    worth = best.value - row["regret"]
    print(f"{name:8} what was played is worth {worth:.3f} of {best.value:.3f}")
# check: abs(best.weights[1] - 0.25) < 0.05
# check: rows["Vet"]["regret"] < 0.2 * rows["Uniform"]["regret"] < rows["UCB1"]["regret"]

# %%
# The picture shows where the tests went. `UCB1` finds the family with the best average, which is the broad one, and
# spends most tests there. For the best tenth that is worse than testing all families equally. `Vet` comes close to
# the best worth. It still gives about one test in six to the family in between, which is nearly as useful, and hard
# to rule out.
figure, ax = plt.subplots(figsize=(6.4, 3.0))
place = np.arange(4)
for k, name in enumerate(["Vet", "UCB1"]):
    ax.bar(place + 0.4 * k - 0.2, 100 * np.array(rows[name]["pulls"]), 0.4, label=name)
ax.plot(place, 100 * best.weights, "k_", ms=30, mew=2, label="best mixture")
ax.set(ylabel="share of the tests (%)", xticks=place, xticklabels=families.names)
ax.legend()
# check: max(rows["UCB1"]["pulls"]) == rows["UCB1"]["pulls"][1] > 0.5
# check: rows["UCB1"]["regret"] > rows["Uniform"]["regret"]
# check: 0.1 < rows["Vet"]["pulls"][3] < 0.25 and rows["Vet"]["regret"] < 0.02 * best.value
