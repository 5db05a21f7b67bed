"""# Arrivals spread over the night

A guard can walk three routes, and reaches the gate at a different hour on each. Which shares of the routes spread the
hours of arrival furthest over the night? A spread that counts the early hours more is the preference; no single route
is best for it. That is not the same as being hard to guess: see the end.
"""

# %%
# Hours after dusk at which the guard passes. The spread is Tsallis' cumulative past entropy, in hours.
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

# %%
# The guard does not know these distributions (traffic, weather), so a policy learns while walking: 1,500 nights.
policy = pmb.Vet(spread, names=routes.names, support=pmb.Interval(0, 12))
rng = np.random.default_rng(0)
hours = []
for _night in range(1500):
    route = policy.ask()
    hours.append(float(routes.sample(route, rng=rng)[0]))
    policy.tell(route, hours[-1])
print(
    "shares walked:",
    dict(zip(policy.names, (policy.pulls / policy.t).round(3).tolist(), strict=True)),
)
print(
    f"spread: {spread.value(hours):.3f} hours; best possible {best.value:.3f}; "
    f"best single route {best.best_arm_value:.3f}"
)

# %%
# What the nights look like: the hours of arrival, mixed against the best single route.
figure, ax = plt.subplots(figsize=(6.4, 3.0))
alone = routes.sample(best.best_arm, 1500, rng=1)
bins = np.linspace(0, 12, 49)
ax.hist(alone, bins, alpha=0.6, label=f"{routes.names[best.best_arm]} alone")
ax.hist(hours, bins, alpha=0.6, label="the learned mixture")
ax.set(xlabel="hour of arrival", ylabel="nights")
ax.legend(ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))

# %%
# Mind what this is not. A spread likes both ends of the night, so it leaves the route in the middle out, and a watcher
# who guesses the route has an easy task. Who must not be foreseen walks all routes equally often, whatever their hours.
equal = pmb.utility(spread, routes, np.full(3, 1 / 3))
print(f"a watcher guesses the route right in {100 * best.weights.max():.0f} % of the nights;")
print(f"with equal shares in {100 / routes.n_arms:.0f} %, at a spread of {equal:.3f} hours")
