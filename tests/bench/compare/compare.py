#!/usr/bin/env python3
"""Measures idempotencyd and what users would pick instead, in turn; see tests/bench/README.md."""

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path

import chart
import common
import servers
import summary
from measurements import (
    CLOSED_LOOP_THREADS,
    LUA_SCRIPT,
    MEASUREMENTS,
    OPEN_LOOP_THREADS,
    SYSTEMS,
    Measurement,
)

PROBE_BYTES = 512
PROBE_SYNCS = 2000


def parse(arguments: list) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/compare.sh", add_help=False)
    parser.add_argument("--quick", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5, help="alternations (5)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement (4)")
    parser.add_argument("--warmup", type=float, default=1.0, help="seconds before each (1)")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help=f"some of {','.join(SYSTEMS)}")
    parser.add_argument("--only", default="", help="measurements whose name holds one of these words,"
                        " comma-separated; p99 at half load needs reserve_256")
    parser.add_argument("--chart", type=Path, help="draw the throughputs into this SVG file")
    common.add_common_flags(parser)
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.seconds, options.warmup = 2, 1.0, 0.3
    options.systems = options.systems.split(",")
    unknown = [name for name in options.systems if name not in SYSTEMS]
    if unknown:
        parser.error(f"--systems: there is no {unknown[0]}; take some of {','.join(SYSTEMS)}")
    if options.rounds < 1 or options.seconds <= 0 or options.warmup < 0:
        parser.error("--rounds and --seconds must be above zero, --warmup not below")
    missing = servers.missing_programs(options.systems)
    if missing:
        parser.error(f"there is no {missing[0]}; try deploy/install_deps.sh bench")
    if not common.is_disk(options.dir):
        parser.error(f"--dir: {options.dir} is no disk")
    return options


def probe_fdatasync(directory: Path, syncs: int) -> dict:
    """How long one fdatasync of a short append takes, in microseconds."""
    took = []
    block = b"x" * PROBE_BYTES
    path = directory / "probe"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        for _ in range(syncs):
            os.write(descriptor, block)
            start = time.perf_counter_ns()
            os.fdatasync(descriptor)
            took.append((time.perf_counter_ns() - start) / 1000)
    finally:
        os.close(descriptor)
        path.unlink()
    took.sort()
    return {"p50": took[len(took) // 2], "p99": took[len(took) * 99 // 100], "max": took[-1]}


class Comparison:
    def __init__(self, options: argparse.Namespace, directory: Path):
        self.options = options
        self.directory = directory
        words = [word for word in options.only.split(",") if word]
        self.measurements = [
            measurement
            for measurement in MEASUREMENTS
            if measurement.system in options.systems
            and (not words or any(word in measurement.name for word in words))
        ]
        self.running = {}
        self.versions = {}
        self.settings = {}

    def run(self) -> list:
        rounds = []
        for number in range(self.options.rounds):
            with common.holding(self.options.lock):
                started = time.monotonic()
                rounds.append(self.round(number))
                took = time.monotonic() - started
            common.say(f"round {number + 1} of {self.options.rounds}: {took:.0f} s")
        return rounds

    def round(self, number: int) -> dict:
        directory = self.directory / f"round{number}"
        directory.mkdir(mode=0o755)
        try:
            self.start(directory)
            syncs = min(PROBE_SYNCS, self.options.operations or PROBE_SYNCS)
            result = {"fdatasync_us": probe_fdatasync(directory, syncs), "measured": {}}
            for measurement in self.in_order(number):
                measured = self.measure(measurement, result["measured"])
                if measured:
                    result["measured"][measurement.name] = measured
            return result
        finally:
            self.stop()
            shutil.rmtree(directory, ignore_errors=True)

    def in_order(self, number: int) -> list:
        """Forwards and backwards in turn, so that nobody always comes first."""
        free = [measurement for measurement in self.measurements if not measurement.share_of]
        bound = [measurement for measurement in self.measurements if measurement.share_of]
        turn = -1 if number % 2 else 1
        return free[::turn] + bound[::turn]

    def start(self, directory: Path):
        binaries = {"echo": self.options.bin / "idempotency_echo", "ours": self.options.server}
        for name in dict.fromkeys(measurement.system for measurement in self.measurements):
            server = servers.make(name, directory, binaries)
            self.running[name] = server
            server.start()
            self.versions.setdefault(name, server.version())
            self.settings.setdefault(name, server.setting)
            server.freeze()

    def stop(self):
        for server in self.running.values():
            server.stop()
        self.running.clear()

    def measure(self, measurement: Measurement, measured: dict) -> dict:
        """None where the measurement that its rate depends on was left out."""
        server = self.running[measurement.system]
        rate = 0.0
        if measurement.share_of:
            if measurement.share_of not in measured:
                return None
            rate = measurement.share * measured[measurement.share_of]["operations_per_second"]
        server.thaw()
        try:
            result = common.run_undisturbed(lambda: common.run_load(
                self.command(measurement, server, rate),
                self.directory / "run.json",
                self.options.seconds + self.options.warmup,
                server,
            ), tries=1 if self.options.operations else common.TRIES)  # fmt: skip
        finally:
            server.freeze()
        common.say(f"  {measurement.name}: {result['operations_per_second']:,.0f} a second")
        return result

    def command(self, measurement: Measurement, server, rate: float) -> list:
        is_ours = measurement.system in ("echo", "ours")
        program = "idempotency_load" if is_ours else "idempotency_load_others"
        command = [
            self.options.bin / program,
            f"--target={server.target}",
            f"--server-pid={server.pid}",
            f"--label={measurement.name}",
        ]
        arguments = list(measurement.arguments)
        if self.options.operations:
            command.append(f"--operations={self.options.operations}")
            arguments = [argument for argument in arguments if not argument.startswith("--keys=")]
            if "--mix=replay" in arguments:
                arguments.append(f"--keys={self.options.operations}")
        else:
            command += [f"--seconds={self.options.seconds}", f"--warmup={self.options.warmup}"]
        if is_ours or measurement.system == "etcd":
            threads = OPEN_LOOP_THREADS if rate > 0 else CLOSED_LOOP_THREADS
            command.append(f"--threads={threads}")
        if "--system=redis_lua" in arguments:
            command.append(f"--script={common.SOURCE / LUA_SCRIPT}")
        if rate > 0:
            command.append(f"--rate={rate:.0f}")
        return command + arguments


def write_results(options: argparse.Namespace, comparison: Comparison, rounds: list):
    ratios = summary.ratios(rounds)
    rates = summary.throughput(rounds)
    if options.json:
        everything = {
            "ratios": {name: ratio["median"] for name, ratio in ratios.items()},
            "ratio_spreads": ratios,
            "operations_per_second": rates,
            "machine": common.machine(),
            "versions": comparison.versions,
            "settings": comparison.settings,
            "seconds": options.seconds,
            "warmup_seconds": options.warmup,
            "rounds": rounds,
        }
        options.json.write_text(json.dumps(everything, indent=1) + "\n", "utf-8")
    if options.chart:
        words = {measurement.name: measurement.words for measurement in MEASUREMENTS}
        caption = (
            f"tests/bench/compare.sh: {len(rounds)} rounds of {options.seconds:g} s each, client and "
            f"server on the same {os.cpu_count()} cores; every answer after it is on disk."
        )
        options.chart.write_text(chart.draw(rates, words, caption), "utf-8")


def main() -> int:
    options = parse(sys.argv[1:])
    with common.work_directory(options.dir) as directory:
        common.take_programs(options, directory)
        comparison = Comparison(options, directory)
        try:
            rounds = comparison.run()
        except (common.Failed, servers.NotStarted) as error:
            common.say(f"compare: {error}")
            return 1
    print(summary.table(rounds))
    if warning := summary.disturbed(rounds):
        print(warning)
    write_results(options, comparison, rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
