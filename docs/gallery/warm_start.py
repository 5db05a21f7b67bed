"""# What old logs are worth

A shop has 400 logged rewards of each of two campaigns. Should the new policy start from them? We play both ways, with
the same future, and look at the regret.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import scipy.stats as st

import pmbandits as pmb

arms = pmb.Bandit([st.beta(2, 6), st.beta(7, 2)], names=["mail", "poster"])
gini = pmb.GiniDeviation()
best = pmb.oracle(gini, arms)
print(best)


# %%
# The regret of the shares played, with and without the log. Logged rewards inform, but are not counted as pulls.
def play(log_size: int, trial: int, rounds: int = 1000) -> list[float]:
    rng = np.random.default_rng([trial, 7])
    policy = pmb.Vet(gini, names=arms.names, support=pmb.Interval(0, 1))
    for name in arms.names:
        if log_size:
            policy.tell(name, arms.sample(name, log_size, rng=rng))
    regret = []
    for t in range(1, rounds + 1):
        arm = policy.ask()
        policy.tell(arm, float(arms.sample(arm, rng=rng)[0]))
        if t in checkpoints:
            regret.append(best.value - pmb.utility(gini, arms, policy.pulls / t))
    return regret


checkpoints = sorted({int(x) for x in np.geomspace(5, 1000, 20)})
cold = np.array([play(0, trial) for trial in range(6)])
warm = np.array([play(400, trial) for trial in range(6)])
print(
    f"regret after {checkpoints[-1]} rounds: cold {cold[:, -1].mean():.1e}, warm {warm[:, -1].mean():.1e}"
)

# %%
figure, ax = plt.subplots()
for name, regret in (("cold start", cold), ("400 logged rewards of each", warm)):
    ax.loglog(checkpoints, regret.mean(axis=0), "o-", ms=3, label=name)
ax.set(xlabel="rounds", ylabel="regret (mean of 6 runs)")
ax.legend()
