"""# Suppliers: the best average, a fair one, or variety?

Three kitchens deliver school meals, and pupils score each meal from 0 to 10. How should the school order? That depends
on what it values, so we ask the same data three questions.
"""

# %%
# The data are 300 scores of each kitchen. *Classic* is safe, *Spicy* divides the pupils, *Market* is good but uneven.
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
# We compare three preferences. *Fair* subtracts half of the typical difference between the meals of two pupils; this
# is known as Gini's welfare function. *Variety* adds the same amount, because pupils who get the same every day
# complain.
preferences = {
    "average": pmb.Mean(),
    "fair": pmb.Mean() - pmb.GiniDeviation(),
    "variety": pmb.Mean() + pmb.GiniDeviation(),
}
answers = {name: pmb.oracle(metric, log) for name, metric in preferences.items()}
for name, best in answers.items():
    print(f"{name:8} {best}")
# check: [best.is_mixture for best in answers.values()] == [False, False, True]

# %%
# For the average and for fairness one kitchen is best, and not the same one. For variety two kitchens together are.
figure, ax = plt.subplots(figsize=(6.4, 2.6))
left = np.zeros(3)
for k, kitchen in enumerate(log.names):
    shares = 100 * np.array([best.weights[k] for best in answers.values()])
    ax.barh(list(answers), shares, left=left, label=kitchen)
    left += shares
ax.invert_yaxis()
ax.set(xlabel="share of the orders (%)", title="what to order depends on what you value")
ax.legend(title="kitchen", ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.25))
# check: answers["average"].best_arm != answers["fair"].best_arm

# %%
# Is this real, or an accident of 300 meals each? `advise` answers that. Here it says that the mixture could be an
# accident: *Spicy* alone is nearly as good for variety, and 300 scores of each kitchen do not tell the two apart.
advice = pmb.advise(scores, preferences["variety"], support=pmb.Interval(0, 10))
print(advice)
# check: advice.verdict == "could be noise" and advice.best_arm == "Spicy"
