"""# Paid for movement: a straddle

A trader buys straddles: contracts that pay how far a price moves away from where it was expected, up or down. Each week
there is money for one contract, and the trader can choose the kind of news to trade before. In which proportions? Here
spread is not a risk but what pays, and no single kind of news is best.
"""

# %%
# Three kinds of weeks, and by how many per cent the price moves in each. Before earnings it tends to rise, before rate
# decisions to fall; in quiet weeks it goes either way.
import matplotlib.pyplot as plt
import numpy as np
import scipy.stats as st

import pmbandits as pmb

weeks = pmb.Bandit(
    [st.norm(1.5, 1.0), st.norm(0.0, 1.6), st.norm(-1.5, 1.0)],
    names=["earnings", "quiet", "rates"],
)

# %%
# A straddle whose strike is the median of all moves pays |move − median|. Its average is the mean–median deviation,
# h(u) = min(u, 1 − u), of the moves. So the preference is the pay itself, and can be checked by drawing moves.
pay = pmb.MeanMedianDeviation()
moves = weeks.sample("quiet", 200_000, rng=0)
drawn = np.abs(moves - np.median(moves)).mean()
print(f"quiet weeks: the metric says {pay.value(st.norm(0, 1.6)):.3f}, drawn {drawn:.3f}")
# check: abs(pay.value(st.norm(0, 1.6)) - drawn) < 0.01

# %%
# The best single kind is *quiet*, whose moves are the widest. But half earnings and half rates pay more: each alone
# moves in one direction, which the strike would follow; together they move away from a strike in the middle.
best = pmb.oracle(pay, weeks)
print(best)
print(
    f"for the average move one kind is best: {weeks.names[pmb.oracle(pmb.Mean(), weeks).best_arm]}"
)
# check: best.is_mixture and weeks.names[best.best_arm] == "quiet" and abs(best.weights[0] - 0.5) < 1e-6
# check: best.value > 1.2 * best.best_arm_value

# %%
# Learned from scratch, for 1,500 weeks (or as many contracts): the shares go to the best mixture. UCB1, which looks for
# the best average, ends with earnings alone, and so gives away nearly half of the pay.
run = pmb.simulate(
    pay, weeks, {"Track": pmb.Track(), "UCB1": pmb.UCB1()}, 1_500, trials=10, seed=0
)
for policy in run.policies:
    t, regret = run.regret(policy)
    print(
        f"{policy:6} loses {regret[:, -1].mean():.3f} per contract, of {best.value:.3f} at best"
    )
# check: run.regret("Track")[1][:, -1].mean() < 0.1 * run.regret("UCB1")[1][:, -1].mean()

# %%
# The picture shows the moves of the best mixture, and those of quiet weeks alone.
figure, ax = plt.subplots(figsize=(6.4, 3.0))
x = np.linspace(-5.0, 5.0, 300)
mixture = sum(
    w * d.frozen.pdf(x) for w, d in zip(best.weights, weeks.distributions, strict=True)
)
ax.plot(x, mixture, label="half earnings, half rates")
ax.plot(x, st.norm(0.0, 1.6).pdf(x), ls="--", label="quiet weeks")
ax.set(xlabel="move of the price (%)", ylabel="density")
ax.legend()
