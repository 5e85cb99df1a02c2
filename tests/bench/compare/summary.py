"""From what was measured in each round to medians, ratios and a table."""

from statistics import median

from common import DISTURBED_SHARE
from measurements import MEASUREMENTS, P99_ECHO_FACTOR, P99_RATIOS, P99_TARGETS, RATIOS


def spread(values: list) -> dict:
    return {"median": median(values), "min": min(values), "max": max(values), "rounds": values}


def throughput(rounds: list) -> dict:
    """By measurement: operations a second."""
    found = {}
    for measurement in MEASUREMENTS:
        values = [
            one["measured"][measurement.name]["operations_per_second"]
            for one in rounds
            if measurement.name in one["measured"]
        ]
        if values:
            found[measurement.name] = spread(values)
    return found


def _ratio(one_round: dict, ratio) -> float:
    rate = {name: run["operations_per_second"] for name, run in one_round["measured"].items()}
    best = max((rate[name] for name in ratio.to if name in rate), default=0)
    if ratio.of not in rate or best <= 0:
        return None
    return rate[ratio.of] / best


def _p99_ratio(one_round: dict, ours: str, echo: str) -> float:
    measured = one_round["measured"]
    if ours not in measured or echo not in measured:
        return None
    ours_p99, echo_p99 = (measured[name]["operation_latency_us"]["p99"] for name in (ours, echo))
    allowed = P99_ECHO_FACTOR * echo_p99 + one_round["fdatasync_us"]["p50"]
    return ours_p99 / allowed if allowed > 0 else None


def ratios(rounds: list) -> dict:
    """By name: the spread over the rounds, and what it has to be."""
    found = {}
    for ratio in RATIOS:
        values = [value for one in rounds if (value := _ratio(one, ratio)) is not None]
        if values:
            found[ratio.name] = spread(values)
            if ratio.target > 0:
                found[ratio.name]["at_least"] = ratio.target
                found[ratio.name]["met"] = found[ratio.name]["median"] >= ratio.target
    for name, pair in P99_RATIOS.items():
        values = [value for one in rounds if (value := _p99_ratio(one, *pair)) is not None]
        if values:
            found[name] = spread(values)
            if name in P99_TARGETS:
                found[name]["at_most"] = P99_TARGETS[name]
                found[name]["met"] = found[name]["median"] <= P99_TARGETS[name]
    return found


def disturbed(rounds: list) -> str:
    """One sentence on what other processes took from the measurements; empty: nothing."""
    runs = [run for one in rounds for run in one["measured"].values()]
    shares = [run["others_cpu_share"] for run in runs if run["others_cpu_share"] > DISTURBED_SHARE]
    if not shares:
        return ""
    return (
        f"NOT QUIET: in {len(shares)} of {len(runs)} measurements other processes used over "
        f"{DISTURBED_SHARE:.0%} of the machine, up to {max(shares):.0%}."
    )


def _median_of(rounds: list, name: str, *path: str) -> float:
    values = []
    for one in rounds:
        value = one["measured"].get(name)
        for step in path:
            value = value[step] if value else None
        if value is not None:
            values.append(value)
    return median(values) if values else 0.0


def table(rounds: list) -> str:
    lines = [
        f"{'median of ' + str(len(rounds)) + ' rounds':<62} {'a second':>9} "
        f"{'min':>9} {'max':>9} {'p50 us':>8} {'p99 us':>8} {'server CPU us':>13}"
    ]
    words = {measurement.name: measurement.words for measurement in MEASUREMENTS}
    for name, rate in throughput(rounds).items():
        p50, p99 = (
            _median_of(rounds, name, "operation_latency_us", which) for which in ("p50", "p99")
        )
        cpu = _median_of(rounds, name, "server_cpu_us_per_operation")
        lines.append(
            f"{words[name]:<62} {rate['median']:>9,.0f} {rate['min']:>9,.0f} {rate['max']:>9,.0f} "
            f"{p50:>8,.0f} {p99:>8,.0f} {cpu:>13.1f}"
        )
    lines += ["", f"{'ratio':<42} {'median':>7} {'min':>7} {'max':>7}  target"]
    for name, ratio in ratios(rounds).items():
        target = ""
        if "met" in ratio:
            sign = "at least" if "at_least" in ratio else "at most"
            bound = ratio.get("at_least", ratio.get("at_most"))
            target = f"{sign} {bound:.2f}: {'met' if ratio['met'] else 'NOT met'}"
        lines.append(
            f"{name:<42} {ratio['median']:>7.2f} {ratio['min']:>7.2f} {ratio['max']:>7.2f}  {target}"
        )
    probes = [one["fdatasync_us"] for one in rounds]
    p50, p99 = (median(probe[which] for probe in probes) for which in ("p50", "p99"))
    lines += ["", f"fdatasync of 512 appended bytes: p50 {p50:,.0f} us, p99 {p99:,.0f} us"]
    return "\n".join(line.rstrip() for line in lines)
