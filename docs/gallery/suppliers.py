"""# Suppliers: the best average, a fair one, or variety?

Three kitchens deliver school meals, and pupils score each meal from 0 to 10. What is the best way to order? That
depends on what you value, so we ask the same log three questions.
"""

# %%
# The log: one list of scores for each kitchen. *Classic* is safe, *Spicy* splits the pupils, *Market* is good but
# uneven.
import matplotlib.pyplot as plt
import numpy as np

import pmbandits as pmb

rng = np.random.default_rng(3)
scores = {
    "Classic": np.clip(rng.normal(6.0, 0.8, 300), 0, 10).round(),
    "Spicy": rng.choice([2.0, 3.0, 9.0, 10.0], 300, p=[0.3, 0.2, 0.25, 0.25]),
    "Market": np.clip(rng.normal(6.4, 2.2, 300), 0, 10).round(),
}
log = pmb.Bandit.from_samples(scores)

# %%
# Three preferences. *Fair* takes away half the typical difference between two pupils' meals: that is Gini's welfare
# function. *Variety* adds it instead: pupils who get the same every day complain.
preferences = {
    "average": pmb.Mean(),
    "fair": pmb.Mean() - pmb.GiniDeviation(),
    "variety": pmb.Mean() + pmb.GiniDeviation(),
}
answers = {name: pmb.oracle(metric, log) for name, metric in preferences.items()}
for name, best in answers.items():
    print(f"{name:8} {best}")

# %%
# The same numbers as a picture: shares of the orders for each preference.
figure, ax = plt.subplots(figsize=(6.4, 2.6))
left = np.zeros(3)
for k, kitchen in enumerate(log.names):
    shares = 100 * np.array([best.weights[k] for best in answers.values()])
    ax.barh(list(answers), shares, left=left, label=kitchen)
    left += shares
ax.invert_yaxis()
ax.set(xlabel="share of the orders (%)", title="what to order depends on what you value")
ax.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.25))

# %%
# Is the difference real, or noise of 300 meals each? `advise` puts intervals around all of this.
print(pmb.advise(scores, preferences["variety"], support=pmb.Interval(0, 10)))
