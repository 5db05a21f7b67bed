"""# Funds by their bad months

Every month you put your savings into one of five funds, and you judge by the average of the worst tenth of the
months. That is `LowerCVaR(0.1)`: a convex preference, so one fund is best and the question is how fast it is found.
"""

# %%
# Monthly returns in percent, as histories of 120 months each, from which the simulation draws. (Mind what this is
# *not*: a portfolio that holds several funds in the same month averages their returns. Here each month goes into one
# fund, and a mixture means some months here, some there.)
import numpy as np
import scipy.stats as st

import pmbandits as pmb

rng = np.random.default_rng(4)
months = {
    "bonds": rng.normal(0.3, 0.9, 120),
    "mixed": rng.normal(0.5, 1.9, 120),
    "world": rng.normal(0.8, 3.8, 120),
    "tech": st.t(3, loc=1.1, scale=4.0).rvs(120, random_state=rng),
    "gold": rng.normal(0.3, 4.2, 120),
}
funds = pmb.Bandit(
    [np.clip(x, -30, 30) for x in months.values()],
    names=list(months),
    support=pmb.Interval(-30, 30),
)
safety = pmb.LowerCVaR(0.1)
for name, weights in zip(funds.names, np.eye(5), strict=True):
    print(
        f"{name:6} average {pmb.utility(pmb.Mean(), funds, weights):5.2f}   "
        f"worst tenth {pmb.utility(safety, funds, weights):7.2f}"
    )

# %%
# Five ways to look for it, on the same draws. Thompson-type policies are the ones to take for a convex preference;
# `Track` explores more, as it must where a mixture could be best.
T = 1000
run = pmb.simulate(
    funds,
    safety,
    [pmb.BCVTS(), pmb.RhoNPTS(), pmb.CVaRUCB(horizon=T), pmb.Track(), pmb.Uniform()],
    horizon=T,
    trials=4,
    seed=0,
)
for row in run.summary().rows:
    print(
        f"{row['policy']:8} regret {row['regret']:.3f} ± {row['standard_error']:.3f}   "
        f"months in bonds {100 * row['pulls'][0]:.0f} %"
    )

# %%
ax = run.plot()
