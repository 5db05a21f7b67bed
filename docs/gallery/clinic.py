"""# A trial with late outcomes

Patients come in groups of 20, and each group gets its doses on one day. How well a dose worked is known only when two
more groups have been treated. Outcomes are scores from 0 (worst) to 4 (best). The trial values the average score, and
counts the worst quarter of the outcomes extra.
"""

# %%
# The truth, which nobody knows during the trial: the high dose is best on average, but it harms one patient in four.
# The middle dose is a little worse on average, and hardly ever harms. By what the trial values it is the best one.
import matplotlib.pyplot as plt
import numpy as np

import pmbandits as pmb

rng = np.random.default_rng(5)
outcomes = {
    "low": [0.15, 0.25, 0.3, 0.2, 0.1],
    "middle": [0.08, 0.15, 0.27, 0.3, 0.2],
    "high": [0.25, 0.05, 0.05, 0.2, 0.45],
}
value = 0.5 * pmb.Mean() + 0.5 * pmb.LowerCVaR(0.25)
scores = np.arange(5.0)
for name, chances in outcomes.items():
    print(
        f"{name:7} average {pmb.Mean().value(scores, weights=chances):.2f}   "
        f"with the worst quarter counted extra {value.value(scores, weights=chances):.2f}"
    )
# check: max(outcomes, key=lambda name: pmb.Mean().value(scores, weights=outcomes[name])) == "high"
# check: max(outcomes, key=lambda name: value.value(scores, weights=outcomes[name])) == "middle"

# %%
# `ask(20)` gives doses to a whole group. Its outcomes are told two groups later. In between, the state of the policy
# is written to disk and read again, as it would be in a real trial.
policy = pmb.Vet(value, names=list(outcomes), support=pmb.Finite([0, 1, 2, 3, 4]))
waiting, shares = [], []
for _group in range(40):
    doses = policy.ask(20)
    waiting.append((doses, [float(rng.choice(5, p=outcomes[policy.names[d]])) for d in doses]))
    if len(waiting) > 2:
        policy.tell(*waiting.pop(0))
    policy.save("trial.pmb")
    policy = pmb.load("trial.pmb")
    shares.append(policy.pulls / policy.t)
print("patients so far:       ", dict(zip(policy.names, policy.pulls.tolist(), strict=True)))
print("outcomes still to come:", dict(zip(policy.names, policy.pending.tolist(), strict=True)))
# check: policy.pulls[1] > 500 and policy.pending.sum() == 40

# %%
# How sure is that? These bounds hold for all three doses together with probability 95 %, however often somebody looks.
# They overlap: the trial has moved to the middle dose, which is right, but 800 patients do not *prove* that it is the
# best. A policy acts on what is likely; the bounds tell what is certain.
bounds = [policy.utility_bounds(alone) for alone in np.eye(3)]
for name, (low, middle, high) in zip(policy.names, bounds, strict=True):
    print(f"{name:7} {middle:.2f}, between {low:.2f} and {high:.2f}")
# check: bounds[1][0] < bounds[0][2] and bounds[1][0] < bounds[2][2]
# check: bounds[1][1] == max(b[1] for b in bounds)

# %%
# In the first groups the low dose looked best, and got about half of the patients. As more outcomes came in, the
# middle dose took over; the other two are now tried less and less often.
figure, ax = plt.subplots()
for name, path in zip(policy.names, 100 * np.array(shares).T, strict=True):
    ax.plot(20 * np.arange(1, 41), path, label=name)
ax.set(xlabel="patients", ylabel="share of the patients so far (%)", ylim=(0, 100))
ax.legend(title="dose")
# check: 0.4 < shares[7][0] < 0.65 and shares[-1][1] > 0.65
