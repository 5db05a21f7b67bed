"""# Funds by their bad months

Every month you put your savings into one of five funds, and you judge by the average of the worst tenth of the months.
That is the preference `LowerCVaR(0.1)`. For this kind of preference one fund alone is always best, so the question is
only how fast it is found.
"""

# %%
# Monthly returns in percent: 120 months of each fund, from which the simulation draws. (This is *not* a portfolio. A
# portfolio holds several funds in the same month, and their returns average out. Here each month goes into one fund,
# and a mixture means some months in this fund and some months in that one.)
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
# check: pmb.oracle(safety, funds).weights[0] == 1.0 and safety.shape == "convex"

# %%
# Five ways to look for it, on the same draws. `RhoNPTS` is a published policy that looks for one arm, and `CVaRUCB` is
# another one.
T = 1000
run = pmb.simulate(
    safety,
    funds,
    [pmb.Vet(), pmb.Track(), pmb.RhoNPTS(), pmb.CVaRUCB(horizon=T), pmb.Uniform()],
    horizon=T,
    trials=20,
    seed=0,
)
for row in run.summary().rows:
    print(
        f"{row['policy']:8} regret {row['regret']:.3f}, between {row['low']:.3f} and {row['high']:.3f}   "
        f"months in bonds {100 * row['pulls'][0]:.0f} %"
    )

# %%
# What can be said with 20 trials? `run.difference` compares two policies on the same draws, and says when it cannot
# tell.
for other in ("Track", "RhoNPTS", "CVaRUCB", "Uniform"):
    print(run.difference("Vet", other))
# check: all(run.difference("Vet", other).verdict == "less regret" for other in run.policies[1:])

# %%
# `Vet` has the least regret here, and `RhoNPTS` comes next. `Track` must pull every fund again and again, which costs
# it something where one fund is best. `CVaRUCB` expects the worst that returns between −30 and 30 allow, and needs far
# more than 1,000 months to find the bonds. This is one problem; [all policies on 45 problems](../family.md) shows
# more.
# check: [row["policy"] for row in sorted(run.summary().rows, key=lambda r: r["regret"])][:2] == ["Vet", "RhoNPTS"]
# check: run.summary().rows[3]["pulls"][0] < 0.7
ax = run.plot()
