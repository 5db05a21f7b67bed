"""# Comparing policies properly

Five policies play the same forty trials. This page shows how to read the result: intervals for the mean, differences
between two policies on the same rewards, and one picture.
"""

# %%
# A summary has one row for each policy. Regret is what the shares that were played so far fall short of the best
# mixture. Most trials have little of it and a few have much, so the mean alone says too little. The table also has an
# interval for it, the median, and the regret that one trial in twenty exceeds.
import pmbandits as pmb

bandit = pmb.Bandit.bernoulli([0.2, 0.7], names=["A", "B"])
T = 20_000
run = pmb.simulate(
    pmb.WangRightTail(),
    bandit,
    {
        "Vet": pmb.Vet(),
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
# check: all(d.verdict == "more regret" for d in run.summary().differences if d.policy == "equal shares")
# check: run.summary().differences[0].other == "PM-ETC-M" and len(set(run.regret("PM-ETC-M")[1][:, -1])) == 1

# %%
# PM-ETC-M looks best, but this is luck: a point of its grid happens to lie near the best mixture, and it played the
# same mixture in all forty trials. Whether two policies really differ is decided by the second part of the table. All
# policies of a trial are paid the same rewards, so we look at the difference in each trial, and much of the noise
# cancels. If you know beforehand which two policies you want to compare, ask for these:
for other in ("CIRT", "PM-UCB-M", "PM-ETC-M"):
    print(run.difference("Vet", other))

# %%
# The lines are means, and the bands around them are the intervals.
ax = run.plot()

# %%
# The same table for a paper or a web page, and all trials as a data frame:
print(run.summary().markdown()[:400], "…")
frame = run.to_pandas()
print(frame[["policy", "trial", "t", "regret"]].tail(3).to_string(index=False))
