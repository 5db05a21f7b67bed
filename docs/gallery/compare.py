"""# Comparing policies properly

Forty trials of five policies on the same rewards, with standard errors, paired differences, and one picture.
"""

# %%
import pmbandits as pmb

bandit = pmb.Bandit.bernoulli([0.2, 0.7], names=["A", "B"])
T = 20_000
run = pmb.simulate(
    bandit,
    pmb.WangRightTail(),
    {
        "Track": pmb.Track(),
        "CIRT": pmb.CIRT(),
        "PM-UCB-M": pmb.PMUCB(horizon=T, epsilon=1 / 16),
        "PM-ETC-M": pmb.PMETC(horizon=T),
        "equal shares": pmb.Uniform(),
    },
    horizon=T,
    trials=40,
    seed=1,
)
run.summary()

# %%
# All policies of a trial are paid the same rewards, so compare them in pairs: much of the noise cancels.
for other in ("CIRT", "PM-UCB-M", "PM-ETC-M"):
    print(run.difference("Track", other))

# %%
# Lines are means, bands one standard error.
ax = run.plot()

# %%
# A run is a table with one row for each policy, trial and checkpoint; it knows what made it, and gives the same rows
# again.
frame = run.to_frame()
print(frame[["policy", "trial", "t", "regret"]].tail(3).to_string(index=False))
