"""Phrases that people would use, and the metric that each of them means; ``None``: it must be refused, with the list.

Written before the code that reads them.
"""

from __future__ import annotations

STEADY = "mean - gini"
PHRASES: dict[str, str | None] = {
    # spread: for it
    "reward spread": "gini",
    "variety": "gini",
    "more variety is better": "gini",
    "I want diversity": "gini",
    "maximise the variance": "gini",
    "as much variation as possible": "gini",
    "high volatility": "gini",
    "I like big swings": "gini",
    # spread: against it
    "avoid spread": STEADY,
    "minimise variance": STEADY,
    "minimize the variance of the rewards": STEADY,
    "low variance": STEADY,
    "reduce volatility": STEADY,
    "less variation": STEADY,
    "no big swings": STEADY,
    "without much fluctuation": STEADY,
    "I do not like volatility": STEADY,
    "I don't want surprises": STEADY,
    "avoid surprises": STEADY,
    "stable rewards": STEADY,
    "steady income": STEADY,
    "consistent results": STEADY,
    "reliable and predictable": STEADY,
    "fairness": STEADY,
    "be fair to everyone": STEADY,
    "reduce inequality": STEADY,
    "small standard deviation": STEADY,
    # the worst
    "avoid the worst 5 %": "lower_cvar(0.05)",
    "the worst 10 %": "lower_cvar(0.1)",
    "protect me from the worst 20 percent": "lower_cvar(0.2)",
    "avoid rare large losses": "lower_cvar(0.1)",
    "avoid disasters": "lower_cvar(0.1)",
    "limit the downside": "lower_cvar(0.1)",
    "minimise risk": "lower_cvar(0.1)",
    "I am risk averse": "lower_cvar(0.1)",
    "play it safe": "lower_cvar(0.1)",
    "prevent catastrophic failures": "lower_cvar(0.1)",
    "make the bad days less bad": "lower_cvar(0.1)",
    "not the average but the worst case": "lower_cvar(0.1)",
    # the best
    "go for the best 10 %": "upper_cvar(0.9)",
    "the top 20 percent": "upper_cvar(0.8)",
    "maximise the upside": "upper_cvar(0.9)",
    "only the hits count": "upper_cvar(0.9)",
    "I like to take risks": "upper_cvar(0.9)",
    "the best of three tries": "dual_power(3)",
    "overweight rare large gains": "pht(0.5)",
    "I am looking for a jackpot": "pht(0.5)",
    # the average, and with something else
    "just the average": "mean",
    "the highest expected reward": "mean",
    "minimise the average cost": "mean",
    "lowest total cost": "mean",
    "good average and some variety": "quadratic(0.5)",
    "a good average with low variance": STEADY,
    "a good average without disasters": "0.7*mean + 0.3*lower_cvar(0.1)",
    # levels and people
    "a level reached in 90 % of the cases": "var(0.1)",
    "the median": "var(0.5)",
    "what people feel about rare events": "tversky_kahneman(0.61)",
    # what no metric of rewards can do, or what means nothing here: refused
    "unpredictability": None,
    "nobody should predict where we patrol": None,
    "be hard to guess": None,
    "not the average": None,
    "ignore the best 10 %": None,
    "avoid large gains": None,
    "more variety and less variety": None,
    "the colour blue": None,
    "zzz qqq": None,
}

# Tried after the code was written. It got eight of them wrong at first: unknown verbs ("tame", "punish"), "hardly
# any", and words that come after ("should be small").
TRIED_LATER: dict[str, str | None] = {
    "fewer surprises": STEADY,
    "hardly any variance": STEADY,
    "nothing too volatile": STEADY,
    "tame the volatility": STEADY,
    "punish variance": STEADY,
    "the variance should be small": STEADY,
    "swings as low as possible": STEADY,
    "as predictable as possible": STEADY,
    "variance hurts": None,
    "volatility is fine": None,
    "spread is bad": None,
    "I do not want fairness": None,
    "avoid the best 10 %": None,
    "I don't care about variance, just the mean": "mean",
    "maximise the worst case": "lower_cvar(0.1)",
    "don't take risks": "lower_cvar(0.1)",
    "rare disasters": "lower_cvar(0.1)",
    "minimise the worst 5 % of losses": "lower_cvar(0.05)",
    "high average but low risk": "0.7*mean + 0.3*lower_cvar(0.1)",
    "less stable": "gini",
}
