"""# Arrivals spread over the night

A guard can walk three routes, and each brings him to the gate at other hours. In which proportions should he walk
them, so that his arrivals are spread as far as possible over the night? No single route is best for that. (To be
spread is not the same as to be hard to guess. The end of this page shows the difference.)
"""

# %%
# Each route has a distribution of the hours after dusk at which the guard arrives. The preference is a measure of
# spread in hours, Tsallis' cumulative past entropy, which gives more weight to the early hours.
import matplotlib.pyplot as plt
import numpy as np
import scipy.stats as st

import pmbandits as pmb

routes = pmb.Bandit(
    [
        st.triang(0.5, loc=1.0, scale=2.0),
        st.triang(0.5, loc=3.0, scale=4.0),
        st.triang(0.5, loc=8.0, scale=2.0),
    ],
    names=["short", "river", "long"],
)
spread = pmb.TsallisPastEntropy(1.5)
best = pmb.oracle(spread, routes)
print(best)
ax = pmb.plot_mixture(spread, routes)
# check: best.is_mixture and best.weights[1] < 1e-6

# %%
# The guard does not know these distributions, so a policy learns while he walks, for 1,500 nights. The policy is
# judged by the shares that it has walked: with these shares the true spread is a little below the best possible one.
policy = pmb.Vet(spread, names=routes.names, support=pmb.Interval(0, 12))
rng = np.random.default_rng(0)
hours = []
for _night in range(1500):
    route = policy.ask()
    hours.append(float(routes.sample(route, rng=rng)[0]))
    policy.tell(route, hours[-1])
walked = policy.pulls / policy.t
print("shares walked:", dict(zip(policy.names, walked.round(3).tolist(), strict=True)))
true_spread = pmb.utility(spread, routes, walked)
print(f"spread with these shares  {true_spread:.3f} hours")
print(f"best possible             {best.value:.3f} hours")
print(
    f"best single route         {best.best_arm_value:.3f} hours ({routes.names[best.best_arm]})"
)
# check: 0.97 * best.value < true_spread < best.value

# %%
# The picture shows the hours of arrival in these nights, and those of the best single route.
figure, ax = plt.subplots(figsize=(6.4, 3.0))
alone = routes.sample(best.best_arm, 1500, rng=1)
bins = np.linspace(0, 12, 49)
ax.hist(alone, bins, alpha=0.6, label=f"{routes.names[best.best_arm]} alone")
ax.hist(hours, bins, alpha=0.6, label="the learned mixture")
ax.set(xlabel="hour of arrival", ylabel="nights")
ax.legend(ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))

# %%
# What this is not: a measure of spread likes both ends of the night, so it leaves out the route in the middle.
# Somebody who wants to guess the route is then right more often than with equal shares. If the guard must not be
# foreseen, he should walk all routes equally often, whatever their hours are, and accept that the spread is smaller.
equal = pmb.utility(spread, routes, np.full(3, 1 / 3))
print(
    f"best mixture: a watcher who always guesses {routes.names[int(best.weights.argmax())]!r} is right"
)
print(
    f"              in {100 * best.weights.max():.0f} % of the nights; spread {best.value:.3f} hours"
)
print(f"equal shares: {100 / routes.n_arms:.0f} % of the nights; spread {equal:.3f} hours")
# check: best.weights.max() > 1 / 3 and equal < best.value
