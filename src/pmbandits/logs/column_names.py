"""What the name of a column says: what was chosen, the result, whose row it is, or that smaller is better."""

from __future__ import annotations

import re

ARM_WORDS = (
    "arm", "variant", "group", "option", "action", "treatment", "campaign", "bucket", "version", "policy", "choice",
    "channel", "carrier", "airline", "supplier", "vendor", "provider", "offer", "ad", "therapy", "drug", "variety",
    "strategy", "ticker", "stock", "fund", "method", "model",
    "variante", "gruppe", "behandlung", "kampagne", "kanal", "lieferant", "anbieter", "angebot", "sorte", "methode",
)  # fmt: skip
LIKELY_ARM_WORDS = frozenset(
    """site shop store branch region country city page team brand product type kind category class sex gender filiale
    standort werk land stadt seite marke produkt typ kategorie klasse geschlecht""".split()  # noqa: SIM905
)
REWARD_WORDS = (
    "reward", "revenue", "value", "amount", "outcome", "profit", "sales", "score", "conversion", "converted",
    "income", "return", "returns", "click", "clicks", "gain", "cost", "costs", "loss", "losses", "delay", "wait",
    "waiting", "latency", "duration", "yield", "survival", "y", "rating", "satisfaction", "defects",
    "umsatz", "gewinn", "ertrag", "erlös", "betrag", "wert", "ergebnis", "verkäufe", "kosten", "verlust", "wartezeit",
    "lieferzeit", "dauer", "punkte",
)  # fmt: skip
UNIT_WORDS = frozenset(
    """id ids user customer client subject patient person participant respondent member account household visitor
    session student pupil employee agent driver doctor who tailnum kunde kundennr kundennummer nutzer benutzer
    proband patientin person mitarbeiter fahrer schüler konto""".split()  # noqa: SIM905
)
_NOT_REWARD_WORDS = UNIT_WORDS | frozenset(
    """time date day hour minute week month year index row unit visit period round wave feature propensity probability
    weight position rank age zip code lat lon latitude longitude number no nr flight distance ticket order invoice
    datum tag stunde woche monat jahr zeit alter plz nummer besuch runde auftrag rechnung""".split()  # noqa: SIM905
)
PERIOD_WORDS = frozenset(
    """year quarter month week day hour date period calendar of the jahr quartal monat woche kw tag stunde
    datum""".split()  # noqa: SIM905
)
COUNTER_WORDS = frozenset("id index idx row rows number no nr num lfd unnamed obs observation".split())  # noqa: SIM905
EARLIER_WORDS = frozenset(
    """baseline before pre prior previous last initial start starting begin beginning old past target goal plan planned
    budget forecast expected predicted estimated vor vorher vorjahr anfang ziel soll""".split()  # noqa: SIM905
)
EVENT_WORDS = frozenset(("cens", "censor", "censored", "status", "event", "death", "dead", "died"))
SURVIVAL_WORDS = frozenset(("time", "days", "weeks", "months", "survival", "duration", "tenure", "futime"))
_LOSS_WORDS = frozenset(
    """cost costs expense expenses price prices loss losses delay delays wait waits waiting latency late lateness
    tardiness overdue turnaround downtime
    defect defects complaint complaints damage damages waste debt penalty churn failure failures error errors mistake
    mistakes duration refund refunds seizure seizures death deaths mortality accident accidents injury injuries relapse
    relapses outage outages bug bugs incident incidents cancellation cancellations returned overtime pain symptom
    symptoms severity burden stress anxiety depression fatigue disability toxicity infection infections readmission
    readmissions schmerz schmerzen symptome
    mängel ausschuss storno stornos tote todesfälle anfälle strafe strafen""".split()  # noqa: SIM905
)
_GERMAN_LOSS = re.compile(
    r"\w*(kosten|fehler|verluste?|verspätung(en)?|verzögerung(en)?|verzug|dauer|ausgaben|aufwand|preise?|schaden|schäden|"
    r"reklamation(en)?|beschwerden?|retouren?|stornierung(en)?|ausfälle|unfälle|"
    r"(liefer|warte|antwort|lade|bearbeitungs|durchlauf|ausfall|reaktions|stillstands|fahr|reparatur|verzugs)"
    r"(zeit(en)?|tage|stunden|minuten))"
)
_SHORT_TIMES = frozenset(
    """response wait waiting delivery lead load loading processing handling travel queue turnaround cycle repair build
    answer reaction down resolution shipping commute""".split()  # noqa: SIM905
)
_TASKS = _SHORT_TIMES | frozenset(
    """deliver delivered resolve resolved repaired fix fixed respond reply close closed ship shipped arrive arrival
    complete completed completion finish finished pay payment hire process lieferung reparatur""".split()  # noqa: SIM905
)
_TIME_WORDS = frozenset(
    """time times day days hour hours hrs h minute minutes mins min second seconds secs sec ms week weeks month months
    year years zeit tag tage tagen stunden minuten sekunden wochen monate monaten jahre jahren""".split()  # noqa: SIM905
)
_GAIN_WORDS = frozenset(
    """revenue profit profits sales income gain gains earnings conversion conversions converted click clicks yield
    umsatz gewinn ertrag erlös verkäufe einnahmen""".split()  # noqa: SIM905
)
_MEASURES = frozenset(
    """score scores scale index rating level count counts number rate total sum average avg mean per cent percent pct
    skala anzahl quote summe""".split()  # noqa: SIM905
)
_BESIDE_TIMES = frozenset(("in", "of", "working", "business", "calendar"))
_UNTIL, _SINCE = frozenset(("to", "until", "till", "bis")), frozenset(("between", "since", "without", "seit", "ohne"))
_SAYS_MORE_IS_BETTER = frozenset((*REWARD_WORDS, "per", "pro", "alive", "saved", "free", "uptime"))

_UNITS = frozenset(
    """€ $ £ ¥ ₹ % EUR USD GBP CHF ct k€ T€ ms s sec secs seconds min mins minutes h hrs hours days weeks months years
    mm cm m km g kg t l MB GB kWh °C points Minuten Stunden Tage Wochen Monate Jahre Punkte""".split()  # noqa: SIM905
)
_UNITS_OF_TIME = frozenset(
    """ms s sec secs seconds min mins minutes h hrs hours days weeks months years sekunden minuten stunden tage wochen
    monate jahre""".split()  # noqa: SIM905
)
_TIMED_WORDS = frozenset(
    """time times delay delays latency late lateness duration overdue downtime overtime uptime survival tenure age wait
    waiting""".split()  # noqa: SIM905
)
_GERMAN_TIME = re.compile(r"\w*(zeit(en)?|dauer|verspätung(en)?|verzögerung(en)?|verzug)")
_UNITS_AS_WORDS = {
    "eur": "€", "euro": "€", "euros": "€", "usd": "$", "gbp": "£", "chf": "CHF", "cents": "cents", "pct": "%",
    "percent": "%", "prozent": "%", "kg": "kg", "km": "km", "cm": "cm", "mm": "mm", "kwh": "kWh", "mb": "MB",
}  # fmt: skip


def words_of_name(name: str) -> list[str]:
    """The words of which a name consists, in small letters.

    >>> words_of_name("arrDelay_min"), words_of_name("Erlös (€)")
    (['arr', 'delay', 'min'], ['erlös'])
    """
    return re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-zäöüß])(?=[A-ZÄÖÜ])", " ", name).lower())


def unit_in_name(column: str) -> str:
    """The unit in a column's name, in brackets or as its last word; empty if there is none.

    A unit of time counts only beside a word that is measured in time: "temp_min" is no number of minutes.

    >>> unit_in_name("wait (min)"), unit_in_name("Erlös [€]"), unit_in_name("sales (net)"), unit_in_name("reward")
    ('min', '€', '', '')
    >>> [unit_in_name(name) for name in ("dep_delay_min", "revenue_eur", "latency_ms", "temp_min", "revenue_12_months")]
    ['min', '€', 'ms', '', '']
    """
    found = re.search(r"[(\[]([^()\[\]]+)[)\]]$", column.strip())
    if found:
        unit = found[1].strip()
        return unit if unit in _UNITS else ""
    *rest, last = words_of_name(column) or [""]
    if last in _UNITS_OF_TIME:
        timed = _TASKS | _TIMED_WORDS
        return last if not rest or any(w in timed or _GERMAN_TIME.fullmatch(w) for w in rest) else ""
    return _UNITS_AS_WORDS.get(last, "") if rest else ""


def sounds_like_loss(column: str) -> bool:
    """Whether the name of a column says that smaller numbers are better.

    >>> [sounds_like_loss(name) for name in ("arr_delay", "Shipping Cost", "response_time", "Lieferzeit", "errors")]
    [True, True, True, True, True]
    >>> [sounds_like_loss(name) for name in ("pain_score_week8", "Error rate (%)", "total cost")]
    [True, True, True]
    >>> [sounds_like_loss(name) for name in ("weight_loss_goal_met", "survival time", "revenue", "response rate")]
    [False, False, False, False]
    """
    words = words_of_name(column)
    if _TIME_WORDS & set(words) and (_UNTIL | _SINCE) & set(words):  # "days to deliver", but not "time to relapse"
        return bool(_UNTIL & set(words)) and bool(_TASKS & set(words))
    what = list(words)  # of "delivery time (days)" the delivery
    while what and what[-1] in _TIME_WORDS | _BESIDE_TIMES:
        what.pop()
    if what and len(what) < len(words) and what[-1] in _SHORT_TIMES:
        return True
    while what and what[-1] in _MEASURES | EARLIER_WORDS:  # of "pain score" the pain
        what.pop()
    ends = {*words[-1:], *what[-1:], *(words[:1] if len(words) <= 2 else ())}
    if "of" in words[1:]:  # of "cost of sales" the cost
        ends.add(words[words.index("of", 1) - 1])
    return any(word in _LOSS_WORDS or _GERMAN_LOSS.fullmatch(word) for word in ends)


def sounds_like_gain(column: str) -> bool:
    """Whether the name of a column says that larger numbers are better.

    >>> [sounds_like_gain(name) for name in ("Umsatz (€)", "profit", "amount", "cost of sales")]
    [True, True, False, False]
    """
    return bool(_GAIN_WORDS & set(words_of_name(column))) and not sounds_like_loss(column)


def is_time_without_direction(column: str) -> bool:
    """Whether the name of a column says a time, but not whether a long or a short one is better.

    >>> [is_time_without_direction(name) for name in ("days", "Process (h)", "delivery days", "sales per day")]
    [True, True, False, False]
    """
    words = words_of_name(column)
    first = words[:1] if words[:1] not in (["min"], ["second"], ["h"]) else []  # "min temperature", "second half"
    return (
        bool(_TIME_WORDS & {*first, *words[-1:]})
        and not sounds_like_loss(column)
        and not _SAYS_MORE_IS_BETTER & set(words)
    )


def may_name_propensity(column: str) -> bool:
    """Whether a column may hold the chance with which something was chosen.

    >>> may_name_propensity("propensity_score"), may_name_propensity("p"), may_name_propensity("price")
    (True, True, False)
    """
    return bool({"propensity", "pscore", "prob", "probability", "p"} & set(words_of_name(column)))


def may_name_reward(column: str) -> bool:
    """Whether nothing in the name of a column speaks against rewards."""
    words = set(words_of_name(column))
    return sounds_like_loss(column) or bool(words & set(REWARD_WORDS) - UNIT_WORDS) or not _NOT_REWARD_WORDS & words
