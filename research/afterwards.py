"""What was chosen on the results of other seeds: readers must know it to weigh a verdict.

Arms, constants and sizes were settled with seed 0. A first page was made with seed 20261116. Then the questions were
put anew: what the paper claims was parted from what we ask, and judged by the paper's own rules first. These questions,
all sizes and the new ``SEED`` were committed before anything was played with it; nothing that is judged was changed
after.
"""

SEED = 20261117

_FIRST = "Settled on the results of other seeds, and then left alone: "
_ANEW = "Put anew after the page of another seed had been read: "

CHOICES_AFTER_RESULTS: dict[str, tuple[str, ...]] = {
    "fig2": (_ANEW + "that PM-UCB-M tracks the best arm under the mean, in place of a claim that could not fail.",),
    "fig3": (
        _FIRST + "the pairs of arms were raised from 12 to 48 with 30 trials each, because claims could not be decided "
        "with fewer.",
        _ANEW + "whether regret falls is judged on the paper's horizons first, and on the wider range as our question.",
    ),
    "fig4": (
        _FIRST
        + "the constants of the schedules; and several multiples of them, with a few trials each, because at one "
        "constant the Gini claims did not hold.",
        _ANEW + "the claims are judged at the constants as they are first, and over the multiples as our questions; "
        "PM-ETC-M explores as in the paper's experiments, without the library's cap.",
    ),
    "fig5": (_FIRST + "the range of ε over which exponents of three arms are fitted.",),
    "fig6": (
        _FIRST + "the median over 15 pairs of arms in place of a mean over 7.",
        _ANEW + "the paper's constants are judged first, at every power of ten, and tight sets as our question.",
    ),
    "fig7": (
        _FIRST + "the arms, from a scan that included simulation.",
        _ANEW + "the paper's stopping rule is judged first, and ours beside it.",
    ),
    "fig8": (
        _FIRST + "a regret counts as reached from when it stays below; arithmetic in place of geometric means; savings "
        "compared at the first and last threshold. The arms are those of figure 7.",
        _ANEW
        + "computing time is judged in place of counted evaluations, and the paper's stopping rule first. That the "
        "count favours CIRT and the clock does not was known.",
    ),
    "solitary": (
        _FIRST + "a change of up to 5 % counts as flat (2 % before; the changes at full size are below 1 %).",
        _ANEW + "the best single arm, whose regret cannot change, is no longer judged.",
    ),
    "risk": (
        _FIRST + "ρ-NPTS got a second anchor, ours, for metrics that do not increase; the formulas follow secondary "
        "descriptions.",
        _ANEW
        + "rates in T for the paper's own CVaR and for distortion risk measures, with the exploration of PM-ETC-M "
        "swept (it was a tenth of the rounds, and lost to W-UCB for that). Their arms, horizons and constants were "
        "chosen by cost and by a look at a few runs of seed 0. Two claims that could not fail are gone.",
    ),
}
