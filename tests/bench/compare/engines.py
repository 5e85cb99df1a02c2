#!/usr/bin/env python3
"""Measures idempotencyd on each engine, in turn, and fail-overs; see tests/bench/README.md."""

import argparse
import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from statistics import median

import common
import servers
import stores
import summary
from measurements import CLOSED_LOOP_THREADS

# As in compare.sh.
LOADS = {
    "reserve_64": ("Reserve, 64 in flight", ("--in-flight=64",)),
    "reserve_256": ("Reserve, 256 in flight", ("--in-flight=256",)),
    "lifecycle_256": ("Reserve + Complete, 256 in flight", ("--mix=lifecycle", "--in-flight=256")),
}
FAIL_OVERS = {
    "etcd_3": "etcd's leader is killed",
    "postgres_sync": "PostgreSQL's primary is killed, and the standby promoted",
}
BASE = "rocksdb"
CALLS_BEFORE = 20
PATIENCE_SECONDS = 120


def parse(arguments: list) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/engines.sh", add_help=False)
    parser.add_argument("--rounds", type=int, default=3, help="alternations (3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement (4)")
    parser.add_argument("--warmup", type=float, default=1.0, help="seconds before each (1)")
    parser.add_argument("--failovers", type=int, default=3, help="of each store that can (3)")
    parser.add_argument("--systems", default=",".join(stores.SYSTEMS),
                        help=f"some of {','.join(stores.SYSTEMS)}")
    common.add_common_flags(parser)
    options = parser.parse_args(arguments)
    options.systems = options.systems.split(",")
    unknown = [name for name in options.systems if name not in stores.SYSTEMS]
    if unknown:
        parser.error(f"--systems: there is no {unknown[0]}; "
                     f"take some of {','.join(stores.SYSTEMS)}")  # fmt: skip
    if options.rounds < 1 or options.seconds <= 0 or options.warmup < 0 or options.failovers < 0:
        parser.error("--rounds and --seconds must be above zero, --warmup and --failovers not below")
    missing = servers.missing_programs(
        [stores.PROGRAMS[name] for name in options.systems if name in stores.PROGRAMS]
    )
    if missing:
        parser.error(f"there is no {missing[0]}; try deploy/install_deps.sh bench")
    if not common.is_disk(options.dir):
        parser.error(f"--dir: {options.dir} is no disk")
    return options


class Probe:
    """Calls one after the other, and when each was asked and acknowledged."""

    def __init__(self, program: Path, target: str):
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [program, f"--target={target}", "--name=probe"], stdout=subprocess.PIPE, text=True
        )

    def next(self) -> tuple:
        line = self.process.stdout.readline()
        if not line:
            raise common.Failed("the probe of fail-overs has ended")
        asked, answered = line.split()
        return int(asked), int(answered)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Engines:
    def __init__(self, options: argparse.Namespace, directory: Path):
        self.options = options
        self.directory = directory
        self.versions = {}
        self.settings = {name: stores.SYSTEMS[name].setting for name in options.systems}

    def started(self, name: str) -> stores.System:
        system = stores.SYSTEMS[name](self.directory / name, self.options.server)
        try:
            system.start()
        except BaseException:
            self.ended(system)
            raise
        self.versions.setdefault(name, system.version())
        return system

    @staticmethod
    def ended(system: stores.System):
        system.stop()
        shutil.rmtree(system.directory, ignore_errors=True)

    def rounds(self) -> list:
        rounds = []
        for number in range(self.options.rounds):
            # Forwards and backwards in turn.
            names = self.options.systems[:: 1 if number % 2 == 0 else -1]
            with common.holding(self.options.lock):
                started = time.monotonic()
                rounds.append({name: self.measure_all(name) for name in names})
            common.say(f"round {number + 1} of {self.options.rounds}: "
                       f"{time.monotonic() - started:.0f} s")  # fmt: skip
        return rounds

    def measure_all(self, name: str) -> dict:
        system = self.started(name)
        try:
            return {load: self.measure(name, system, load) for load in LOADS}
        finally:
            self.ended(system)

    def measure(self, name: str, system: stores.System, load: str) -> dict:
        options = self.options
        command = [
            options.bin / "idempotency_load", f"--target={system.ours.target}",
            f"--server-pid={system.ours.pid}", f"--label={name}_{load}",
            f"--threads={CLOSED_LOOP_THREADS}", *LOADS[load][1],
        ]  # fmt: skip
        if options.operations:
            command.append(f"--operations={options.operations}")
        else:
            command += [f"--seconds={options.seconds}", f"--warmup={options.warmup}"]
        result = common.run_load(command, self.directory / "run.json",
                                 options.seconds + options.warmup, system.ours)  # fmt: skip
        common.say(f"  {name}, {load}: {result['operations_per_second']:,.0f} a second")
        return result

    def fail_overs(self) -> dict:
        """By store: seconds from the loss until a call that was made after it is acknowledged."""
        found = {}
        for name in FAIL_OVERS:
            if name not in self.options.systems:
                continue
            with common.holding(self.options.lock):
                took = [self.fail_over(name) for _ in range(self.options.failovers)]
            if took:
                found[name] = summary.spread(took)
        return found

    def fail_over(self, name: str) -> float:
        system = self.started(name)
        probe = Probe(self.options.bin / "idempotency_failover_probe", system.ours.target)
        # Nothing waits so long unless something is wrong; then the probe's end is the end.
        patience = threading.Timer(PATIENCE_SECONDS, probe.process.kill)
        patience.start()
        try:
            for _ in range(CALLS_BEFORE):
                probe.next()
            lost = system.fail_over()
            # One that was asked before may have been done before.
            asked, answered = probe.next()
            while asked < lost:
                asked, answered = probe.next()
        finally:
            patience.cancel()
            probe.end()
            self.ended(system)
        common.say(f"  {name} fails over: {(answered - lost) / 1e9:.2f} s")
        return (answered - lost) / 1e9


# --- What comes of it -------------------------------------------------------------------------


def rates(rounds: list) -> dict:
    """By engine and load: operations a second."""
    return {
        name: {load: summary.spread([one[name][load]["operations_per_second"] for one in rounds])
               for load in LOADS}
        for name in sorted(rounds[0], key=list(stores.SYSTEMS).index)
    }  # fmt: skip


def ratios(rounds: list) -> dict:
    """By engine and load: its rate divided by RocksDB's of the same round."""
    if BASE not in rounds[0]:
        return {}
    return {
        name: {load: summary.spread([one[name][load]["operations_per_second"]
                                     / one[BASE][load]["operations_per_second"]
                                     for one in rounds])
               for load in LOADS}
        for name in sorted(rounds[0], key=list(stores.SYSTEMS).index) if name != BASE
    }  # fmt: skip


def table(rounds: list, fail_overs: dict) -> str:
    to_base = ratios(rounds)
    lines = [f"{'median of ' + str(len(rounds)) + ' rounds':<36} {'engine':<14} {'a second':>9} "
             f"{'min':>9} {'max':>9} {'p50 us':>8} {'p99 us':>8}  to RocksDB"]  # fmt: skip
    measured = rates(rounds)
    for load, (words, _) in LOADS.items():
        for name, found in measured.items():
            rate = found[load]
            p50, p99 = (median(one[name][load]["operation_latency_us"][which] for one in rounds)
                        for which in ("p50", "p99"))  # fmt: skip
            ratio = ""
            if name in to_base:
                r = to_base[name][load]
                ratio = f"{r['median']:.2f} ({r['min']:.2f} to {r['max']:.2f})"
            lines.append(
                f"{words:<36} {name:<14} {rate['median']:>9,.0f} {rate['min']:>9,.0f} "
                f"{rate['max']:>9,.0f} {p50:>8,.0f} {p99:>8,.0f}  {ratio}"
            )
    if fail_overs:
        lines += ["", f"{'until calls are acknowledged again':<58} {'median s':>9} {'min':>6} {'max':>6}"]
    for name, took in fail_overs.items():
        lines.append(f"{FAIL_OVERS[name]:<58} {took['median']:>9.2f} {took['min']:>6.2f} "
                     f"{took['max']:>6.2f}")  # fmt: skip
    return "\n".join(line.rstrip() for line in lines)


def write_results(engines: Engines, rounds: list, fail_overs: dict):
    options = engines.options
    everything = {
        "ratios_to_rocksdb": ratios(rounds),
        "operations_per_second": rates(rounds),
        "failover_seconds": fail_overs,
        "machine": common.machine(),
        "versions": engines.versions,
        "settings": engines.settings,
        "seconds": options.seconds,
        "warmup_seconds": options.warmup,
        "rounds": rounds,
    }
    options.json.write_text(json.dumps(everything, indent=1) + "\n", "utf-8")


def main() -> int:
    options = parse(sys.argv[1:])
    with common.work_directory(options.dir) as directory:
        common.take_programs(options, directory)
        engines = Engines(options, directory)
        try:
            rounds = engines.rounds()
            fail_overs = engines.fail_overs()
        except (common.Failed, servers.NotStarted) as error:
            common.say(f"engines: {error}")
            return 1
    print(table(rounds, fail_overs))
    if options.json:
        write_results(engines, rounds, fail_overs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
