#!/usr/bin/env python3
"""Measures what ten million keys change for idempotencyd; see tests/bench/README.md."""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import common
import servers

FILL_SEED, SMALL_SEED = 11, 12
MEBIBYTE = 1024 * 1024
# Defaults of the server's flags, in MiB; a family has three memtables at most.
BLOCK_CACHE_MB, MEMTABLE_MB, MEMTABLES = 256, 64, 2 * 3

REPLAY = ("--mix=replay", "--no-prefill", "--in-flight=256", "--threads=2")

CONFIG = """
unlisted_namespaces: ALLOW
namespaces:
  - name: short
    retention: {seconds}s
    expired_memory: 0s
"""


def parse(arguments: list) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/scale.sh", add_help=False)
    parser.add_argument("--keys", type=int, default=10_000_000, help="live keys (10000000)")
    parser.add_argument("--small", type=int, default=100_000, help="of the small store (100000)")
    parser.add_argument("--expiring", type=int, default=1_000_000,
                        help="keys that expire, and leases that lapse (1000000)")
    parser.add_argument("--rounds", type=int, default=5, help="alternations of small and large (5)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement (4)")
    parser.add_argument("--window", type=float, default=20.0,
                        help="seconds of each look at latency (20)")
    parser.add_argument("--skip", default="", help="some of memory,rate,restart,disk,expiry,lapse")
    common.add_common_flags(parser)
    options = parser.parse_args(arguments)
    if min(options.keys, options.small, options.expiring, options.rounds) < 1:
        parser.error("--keys, --small, --expiring and --rounds must be above zero")
    if not common.is_disk(options.dir):
        parser.error(f"--dir: {options.dir} is no disk")
    options.skip = options.skip.split(",")
    return options


class Scale:
    def __init__(self, options: argparse.Namespace, directory: Path):
        self.options = options
        self.directory = directory
        self.large = servers.Ours(directory / "large", options.server)
        self.others = []
        self.result = {"keys": options.keys, "small_keys": options.small,
                       "expiring_keys": options.expiring}  # fmt: skip

    def run(self) -> dict:
        steps = [("fill", self.fill), ("restart", self.restart), ("disk", self.disk),
                 ("memory", self.memory), ("restart", self.restart_after_kill),
                 ("rate", self.rate), ("restart", self.restart_with_open),
                 ("expiry", self.expiry), ("lapse", self.lapse)]  # fmt: skip
        try:
            for name, step in steps:
                if name in self.options.skip:
                    continue
                with common.holding(self.options.lock):
                    step()
        finally:
            for server in (self.large, *self.others):
                server.kill_if_alive()
        return self.result

    # --- Parts ----------------------------------------------------------------------------------

    def load(self, server, *arguments: str, seconds: float = 0.0, again: bool = True) -> dict:
        """By time, where `seconds` says so; else the arguments say how many operations. Where it
        was disturbed, it is done `again`."""
        length = [f"--seconds={seconds:.3f}", "--warmup=1"] if seconds > 0 else []
        if self.options.operations and seconds > 0:
            length = [f"--operations={self.options.operations}"]
        command = [self.options.bin / "idempotency_load", f"--target={server.target}",
                   f"--server-pid={server.pid}", *arguments, *length]  # fmt: skip
        patience = seconds if seconds > 0 else 3600

        def run() -> dict:
            return common.run_load(command, self.directory / "run.json", patience, server)

        again = again and seconds > 0 and not self.options.operations
        return common.run_undisturbed(run) if again else run()

    def bring_in(self, server, mix: str, keys: int, seed: int, *arguments: str) -> dict:
        return self.load(
            server, "--api=pipeline", f"--mix={mix}", f"--operations={keys}", f"--seed={seed}",
            "--commands=256", "--in-flight=16", "--connections=4", *arguments,
        )  # fmt: skip

    def start_timed(self) -> float:
        """Seconds until the service answers."""
        begun = time.monotonic()
        self.large.start()
        self.load(self.large, "--operations=1", "--in-flight=1", "--connections=1")
        return time.monotonic() - begun

    def note(self, name: str, value, words: str):
        self.result[name] = value
        common.say(f"  {words}")

    # --- Steps ----------------------------------------------------------------------------------

    def fill(self):
        self.large.start()
        run = self.bring_in(self.large, "lifecycle", self.options.keys, FILL_SEED)
        rate = run["operations_per_second"]
        self.note("fill_keys_per_second", rate,
                  f"brought in {self.options.keys:,} completed keys: {rate:,.0f} a second")
        self.note("rss_after_fill_mib", run["server_resident_bytes"] / MEBIBYTE,
                  f"memory then: {run['server_resident_bytes'] / MEBIBYTE:,.0f} MiB, at most "
                  f"{run['server_peak_bytes'] / MEBIBYTE:,.0f} MiB")
        self.result["rss_peak_mib"] = run["server_peak_bytes"] / MEBIBYTE

    def restart(self):
        begun = time.monotonic()
        code = self.large.stop()
        self.note("clean_stop_seconds", time.monotonic() - begun,
                  f"clean stop: {time.monotonic() - begun:.2f} s, exit code {code}")
        took = self.start_timed()
        self.note("start_after_clean_stop_seconds", took, f"start after that: {took:.2f} s")

    def disk(self):
        """Of a copy, so that the rates are those of a store that grew by itself."""
        self.large.stop()
        copy = self.directory / "copy"
        # What RocksDB never changes again is linked.
        shutil.copytree(self.large.directory / "store", copy, copy_function=_link_tables)
        self.large.start()
        as_it_is = sum(file.stat().st_size for file in copy.rglob("*.sst"))
        run = subprocess.run(
            [self.options.bin / "idempotency_compact", f"--data-dir={copy}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if run.returncode != 0:
            raise common.Failed(f"idempotency_compact: {run.stdout}{run.stderr}")
        compacted = json.loads(run.stdout)["table_bytes"]
        shutil.rmtree(copy)
        self.result["sst_bytes_per_key_before_compaction"] = as_it_is / self.options.keys
        self.note("sst_bytes_per_key", compacted / self.options.keys,
                  f"SST files: {compacted / self.options.keys:.0f} bytes a completed key after "
                  f"compaction, {as_it_is / self.options.keys:.0f} before")

    def memory(self):
        """With all caches full of what was read, and nothing open, which takes memory besides."""
        run = self.load(self.large, *REPLAY, f"--keys={self.options.keys}", f"--seed={FILL_SEED}",
                        seconds=self.options.window)  # fmt: skip
        peak = max(self.result["rss_peak_mib"], run["server_peak_bytes"] / MEBIBYTE)
        self.note("rss_peak_mib", peak, f"memory after reading all over: at most {peak:,.0f} MiB")

    def rate(self):
        kinds = {
            "unary": ("--in-flight=256", "--threads=2"),
            "pipeline": ("--api=pipeline", "--commands=32", "--in-flight=16", "--threads=2"),
        }
        found = {name: {"small": [], "large": []} for name in (*kinds, "replay")}
        left_open = 0
        for number in range(self.options.rounds):
            small = servers.Ours(self.directory / f"small{number}", self.options.server)
            self.others.append(small)
            self.large.freeze()
            small.start()
            self.bring_in(small, "lifecycle", self.options.small, SMALL_SEED)
            small.freeze()
            pair = [("small", small, self.options.small, SMALL_SEED),
                    ("large", self.large, self.options.keys, FILL_SEED)]  # fmt: skip
            for size, server, keys, seed in pair[:: -1 if number % 2 else 1]:
                server.thaw()
                for name, arguments in kinds.items():
                    run = self.load(server, *arguments, seconds=self.options.seconds)
                    found[name][size].append(run["operations_per_second"])
                    left_open += run["operations"] if server is self.large else 0
                run = self.load(server, *REPLAY, f"--keys={keys}", f"--seed={seed}",
                                seconds=self.options.seconds)  # fmt: skip
                found["replay"][size].append(run["operations_per_second"])
                server.freeze()
            small.stop()
            shutil.rmtree(small.directory)
        self.large.thaw()
        for name, rates in found.items():
            ratios = [large / small for small, large in zip(rates["small"], rates["large"])]
            self.note(f"{name}_rate_large_vs_small", median(ratios),
                      f"{name}: {median(rates['large']):,.0f} a second, {median(ratios):.2f} of the "
                      f"small store's (from {min(ratios):.2f} to {max(ratios):.2f})")
        self.result["rates"] = found
        usage = self.load(self.large, "--in-flight=64", seconds=1)
        self.result["left_open"] = left_open
        self.note("rss_mib_with_open", usage["server_resident_bytes"] / MEBIBYTE,
                  f"memory with {left_open:,} operations that were left open: "
                  f"{usage['server_resident_bytes'] / MEBIBYTE:,.0f} MiB")

    def restart_after_kill(self, name: str = "start_after_kill_seconds", words: str = ""):
        with subprocess.Popen(
            [self.options.bin / "idempotency_load", f"--target={self.large.target}",
             "--api=pipeline", "--mix=lifecycle", "--in-flight=16", "--seconds=3600"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as load:  # fmt: skip
            time.sleep(min(self.options.seconds, self.options.keys / 10_000))
            self.large.kill()
            load.wait()
        took = self.start_timed()
        self.note(name, took, f"start after kill -9 under load{words}: {took:.2f} s")

    def restart_with_open(self):
        """The same, with what `rate` has left open, all of which is looked at."""
        self.restart_after_kill("start_with_open_seconds", ", with those left open")

    def expiry(self):
        self.look_at_latency("expiry", "lifecycle", "keys expire", lambda seconds: (
            CONFIG.format(seconds=seconds), ["--namespace=short"]))

    def lapse(self):
        self.look_at_latency("lapse", "reserve", "leases lapse", lambda seconds: (
            CONFIG.format(seconds=1), [f"--lease-seconds={seconds}"]))

    def look_at_latency(self, name: str, mix: str, words: str, arrange):
        """Reserve's p99 in an open loop at a steady rate: before anything ends, and while it does."""
        self.large.stop()
        options = self.options
        window = options.window
        # How long bringing them in takes, from above, so that nothing ends before the first look.
        per_second = self.result.get("fill_keys_per_second", 20_000)
        seconds = math.ceil(2 * options.expiring / per_second + 2 * window + 5)
        config, flags = arrange(seconds)
        path = self.directory / f"{name}.yaml"
        path.write_text(config, "utf-8")
        server = servers.Ours(self.directory / name, options.server, (f"--config={path}",))
        server.log_level = "info"
        self.others.append(server)
        server.start()
        capacity = self.load(server, "--in-flight=64", "--threads=2", seconds=options.seconds)
        steady = ("--in-flight=2000", "--threads=1", f"--rate={max(1, capacity['operations_per_second'] / 2):.0f}")
        begun = time.monotonic()
        self.bring_in(server, mix, options.expiring, FILL_SEED, *flags)
        took = time.monotonic() - begun
        before = self.load(server, *steady, seconds=window, again=False)
        early = begun + seconds - time.monotonic()
        if early < 0:
            raise common.Failed(f"{name}: bringing the keys in took too long; try a smaller --window")
        if not options.operations:
            time.sleep(early)
        during = self.load(server, *steady, seconds=max(window, took), again=False)
        server.stop()
        shutil.rmtree(server.directory)
        p99 = [run["operation_latency_us"]["p99"] for run in (before, during)]
        ratio = p99[1] / p99[0]
        self.result[f"{name}_p99_us"] = {"before": p99[0], "during": p99[1]}
        self.result[f"{name}_others_cpu_share"] = [
            run["others_cpu_share"] for run in (before, during)
        ]
        self.note(f"{name}_p99_ratio", ratio,
                  f"while {options.expiring:,} {words}, p99 of Reserve is {p99[1]:,.0f} us, "
                  f"{ratio:.2f} of the {p99[0]:,.0f} us before")


def _link_tables(source: str, target: str):
    if source.endswith(".sst"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def verdicts(result: dict) -> list:
    """(name, value, bound, whether it is a least value)"""
    memory = BLOCK_CACHE_MB + MEMTABLES * MEMTABLE_MB
    bounds = [
        ("unary_rate_large_vs_small", 0.8, True),
        ("rss_peak_mib", memory, False),
        ("sst_bytes_per_key", 200, False),
        ("expiry_p99_ratio", 2, False),
        ("lapse_p99_ratio", 2, False),
        ("start_after_clean_stop_seconds", 5, False),
        ("start_after_kill_seconds", 15, False),
    ]
    return [(name, result[name], bound, least) for name, bound, least in bounds if name in result]


def main() -> int:
    options = parse(sys.argv[1:])
    with common.work_directory(options.dir) as directory:
        common.take_programs(options, directory)
        try:
            result = Scale(options, directory).run()
        except (common.Failed, servers.NotStarted) as error:
            common.say(f"scale: {error}")
            return 1
    result["targets"] = {}
    for name, value, bound, least in verdicts(result):
        met = value >= bound if least else value <= bound
        result["targets"][name] = {"value": value, "at_least" if least else "at_most": bound, "met": met}
        print(f"{name:<34} {value:>10.2f}  {'at least' if least else 'at most'} {bound:g}: "
              f"{'met' if met else 'NOT met'}")
    result["machine"] = common.machine()
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
