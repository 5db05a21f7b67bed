"""# What old logs are worth

A shop has 400 logged rewards of each of two campaigns. Should a new policy start from them? We play both ways many
times, and look at the regret.
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
# One run, with or without the log. Logged rewards are told as any others, but nobody asked for them: they inform the
# policy, and are not counted as pulls.
def play(log_size: int, trial: int, rounds: int = 500) -> list[float]:
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


checkpoints = [6, 10, 16, 26, 40, 64, 100, 160, 250, 500]
cold = np.array([play(0, trial) for trial in range(30)])
warm = np.array([play(400, trial) for trial in range(30)])
for t in (10, 40, 500):
    k = checkpoints.index(t)
    print(
        f"after {t:3} rounds: regret {cold[:, k].mean():.1e} without the log, {warm[:, k].mean():.1e} with it"
    )
# check: warm[:, 1].mean() < 0.1 * cold[:, 1].mean() and warm[:, -1].mean() < cold[:, -1].mean()

# %%
# The log is worth most at the start: after 10 rounds it saves more than nine tenths of the regret. Later both ways
# have learned nearly the same, and the difference gets small: without the log, 500 rounds bring the policy further
# than the log alone did.
# check: cold[:, -1].mean() < warm[:, 1].mean()
figure, ax = plt.subplots()
for name, regret in (("without the log", cold), ("400 logged rewards of each", warm)):
    ax.loglog(checkpoints, regret.mean(axis=0), "o-", ms=3, label=name)
ax.set(xlabel="rounds", ylabel="regret (mean of 30 runs)")
ax.legend()
