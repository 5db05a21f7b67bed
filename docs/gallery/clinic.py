"""# A trial with late outcomes

Patients come in cohorts of 20. Which of three doses they respond to is known only after two more cohorts have begun.
Outcomes are scores from 0 (worst) to 4; the trial values the average, and counts the worst quarter of outcomes extra.
"""

# %%
# The truth, which nobody knows: the middle dose is best on average, the high one helps some and harms others.
import matplotlib.pyplot as plt
import numpy as np

import pmbandits as pmb

rng = np.random.default_rng(5)
outcomes = {
    "low": [0.15, 0.25, 0.3, 0.2, 0.1],
    "middle": [0.08, 0.15, 0.27, 0.3, 0.2],
    "high": [0.3, 0.1, 0.05, 0.15, 0.4],
}
value = 0.5 * pmb.Mean() + 0.5 * pmb.LowerCVaR(0.25)
policy = pmb.Vet(value, names=list(outcomes), support=pmb.Finite([0, 1, 2, 3, 4]))

# %%
# `ask(20)` gives a whole cohort its doses; its outcomes are told two cohorts later. In between, the state goes to
# disk, as it would in a real trial.
waiting, shares = [], []
for _cohort in range(40):
    doses = policy.ask(20)
    waiting.append((doses, [float(rng.choice(5, p=outcomes[policy.names[d]])) for d in doses]))
    if len(waiting) > 2:
        policy.tell(*waiting.pop(0))
    policy.save("trial.pmb")
    policy = pmb.load("trial.pmb")
    shares.append(policy.pulls / policy.t)
print(policy)
print("outcomes still to come:", dict(zip(policy.names, policy.pending.tolist(), strict=True)))

# %%
# How sure are we? Bounds for each dose alone, valid for all of them at once with probability 95 % (δ = 0.05).
for name, alone in zip(policy.names, np.eye(3), strict=True):
    low, middle, high = policy.utility_bounds(alone)
    print(f"{name:7} {middle:.2f}, between {low:.2f} and {high:.2f}")

# %%
figure, ax = plt.subplots()
for name, path in zip(policy.names, 100 * np.array(shares).T, strict=True):
    ax.plot(20 * np.arange(1, 41), path, label=name)
ax.set(xlabel="patients", ylabel="share so far (%)", ylim=(0, 100))
ax.legend(title="dose")
