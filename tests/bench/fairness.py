#!/usr/bin/env python3
"""What a tenant that sends 100 times as much as each of the others does to them.

All tenants first send at the same rate, then one of them at --times as much; the rounds alternate.
Printed is how much longer the others' p50 and p99 are then: medians of the rounds' ratios, with the
lowest and the highest. Open loop: what waits to be sent counts as waiting.

Client and server share the processors here. The one that sends more has the lowest priority of the
scheduler's, so that what making its load costs is not taken from the others, who would be on another
machine; what serving it costs is. --rate=30 is what they can carry at 100 times (3,000 a second) with
time left over; --rate=100 is all that they can do, and then everybody waits for a processor.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "compare"))
import common  # noqa: E402  pylint: disable=wrong-import-position
import servers  # noqa: E402  pylint: disable=wrong-import-position


def flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    common.add_common_flags(parser)
    parser.add_argument("--tenants", type=int, default=10, help="scopes of one namespace (10)")
    parser.add_argument("--rate", type=float, default=30, help="of each, a second (30)")
    parser.add_argument("--times", type=float, default=100, help="how much more one sends (100)")
    parser.add_argument("--api", default="unary", choices=["unary", "batch", "pipeline"],
                        help="of the one that sends more; the others make unary calls")
    parser.add_argument("--in-flight", type=int, default=1000,
                        help="calls or messages that the one may have under way (1000)")
    parser.add_argument("--same-priority", action="store_true",
                        help="the one does not yield the processors to the others and the server")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--server-flag", action="append", default=[],
                        help="a flag for the server, such as --server-flag=--log_ahead_mb=0")
    parser.add_argument("--at-most", type=float, default=0,
                        help="exit with 1 where the others' p99 is longer by more than this")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    return options


class Bench:
    def __init__(self, options: argparse.Namespace, directory: Path):
        self.options = options
        self.directory = directory
        self.server = servers.Ours(directory / "ours", options.server, tuple(options.server_flag))

    def load(self, name: str, namespace: str, scopes: int, rate: float, api: str,
             in_flight: int, yields: bool) -> tuple:
        output = self.directory / f"{name}.json"
        output.unlink(missing_ok=True)
        words = [
            self.options.bin / "idempotency_load", f"--target={self.server.target}",
            f"--namespace={namespace}", f"--scopes={scopes}", f"--api={api}", f"--rate={rate}",
            f"--in-flight={in_flight}", "--connections=4", f"--seconds={self.options.seconds}",
            "--warmup=1", f"--json={output}",
        ]  # fmt: skip
        if yields:
            words = ["chrt", "--idle", "0", *words]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        return process, output

    def run(self, times: float) -> dict:
        """The latencies of the others, while one sends `times` as much as each of them."""
        options = self.options
        others = options.tenants - 1
        loads = {
            "others": self.load("others", "bench-others", others, others * options.rate, "unary",
                                10_000, yields=False),
            "one": self.load("one", "bench-one", 1, times * options.rate,
                             options.api if times > 1 else "unary", options.in_flight,
                             yields=not options.same_priority),
        }  # fmt: skip
        results = {}
        for name, (process, output) in loads.items():
            _, errors = process.communicate(timeout=options.seconds + common.GRACE_SECONDS)
            if process.returncode != 0 and not output.exists():
                raise common.Failed(f"{name}: {errors.decode()}\n{self.server.last_words()}")
            results[name] = json.loads(output.read_text("utf-8"))
        return results


def ratios(rounds: list, quantile: str) -> list:
    return [
        after["others"]["operation_latency_us"][quantile] / before["others"]["operation_latency_us"][quantile]
        for before, after in rounds
    ]


def main() -> int:
    options = flags()
    rounds = []
    with common.holding(options.lock), common.work_directory(options.dir) as directory:
        common.take_programs(options, directory)
        bench = Bench(options, directory)
        bench.server.start()
        try:
            for number in range(options.rounds):
                rounds.append((bench.run(1), bench.run(options.times)))
                before, after = rounds[-1]
                common.say(
                    f"round {number + 1}: others' p99 {before['others']['operation_latency_us']['p99']:.0f} us, "
                    f"then {after['others']['operation_latency_us']['p99']:.0f} us, with the one at "
                    f"{after['one']['operations_per_second']:.0f} a second"
                )
        finally:
            bench.server.stop()
    medians = {}
    for quantile in ("p50", "p99"):
        of = ratios(rounds, quantile)
        medians[quantile] = statistics.median(of)
        print(f"others' {quantile}: {medians[quantile]:.2f} times as long "
              f"({min(of):.2f} to {max(of):.2f})")  # fmt: skip
    if options.json:
        report = {"machine": common.machine(), "medians": medians, "rounds": rounds,
                  "settings": {name: str(value) for name, value in vars(options).items()}}  # fmt: skip
        options.json.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    return 1 if options.at_most and medians["p99"] > options.at_most else 0


if __name__ == "__main__":
    sys.exit(main())
