#!/usr/bin/env python3
"""Counts the instructions of the micro benchmarks and compares them with the baselines.

An operation that takes more instructions than its baseline, by more than the tolerance, fails.
Needs valgrind, and micro_count from the release preset:

  cmake --preset release && cmake --build --preset release --target micro_count
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
DEFAULT_BINARY = HERE.parents[2] / "build/release/bin/micro_count"
BASELINES = HERE / "baselines.json"
DEFAULT_TOLERANCE_PERCENT = 5
FUNCTIONS_SHOWN = 30

COUNTS = "instructions_per_operation"


class Unusable(Exception):
    """Nothing could be counted; says why, and what to do."""


# --- Counting -------------------------------------------------------------------------------


def run(*command: str, **environment: str) -> str:
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        what = "deploy/install_deps.sh test" if command[0] == "valgrind" else "build micro_count"
        raise Unusable(f"{error.filename} is missing: {what}") from error
    if done.returncode != 0:
        raise Unusable(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def toolchain(binary: str) -> dict:
    """What the counts depend on besides our code."""
    versions = dict(line.split(" ", 1) for line in run(binary, "--toolchain").splitlines())
    if versions.pop("build") != "release":
        raise Unusable(f"{binary} is not from the release preset, of which the baselines are")
    versions["libc"] = os.confstr("CS_GNU_LIBC_VERSION")
    versions["valgrind"] = run("valgrind", "--version").strip()
    return versions


def count(binary: str, directory: str, *names: str) -> dict:
    """Where callgrind has written what it saw, by scenario."""
    stores = Path(directory, "stores")
    stores.mkdir()
    run(
        "valgrind",
        "--tool=callgrind",
        "--collect-atstart=no",
        f"--callgrind-out-file={directory}/counts",
        binary,
        *names,
        TMPDIR=str(stores),
    )
    dumps = {}
    for path in Path(directory).glob("counts.*"):
        dumps[trigger_of(path.read_text("utf-8"))[0]] = path
    return dumps


def trigger_of(dump: str) -> tuple:
    """The scenario of a dump, and how many operations it counted."""
    match = re.search(r"^desc: Trigger: Client Request: (\S+) (\d+)$", dump, re.MULTILINE)
    if match is None:
        raise Unusable("a file of callgrind's does not say what it counted")
    return match[1], int(match[2])


def per_operation(dump: str) -> float:
    totals = re.search(r"^totals: (\d+)$", dump, re.MULTILINE)
    if totals is None or int(totals[1]) == 0:
        raise Unusable(f"callgrind has counted nothing of {trigger_of(dump)[0]}")
    return int(totals[1]) / trigger_of(dump)[1]


def functions_of(dump: str) -> dict:
    """Instructions an operation of each function itself, without those that it calls."""
    names, counts = {}, {}
    function, is_call = "", False
    for line in dump.splitlines():
        named = re.match(r"(c?fn)=(\(\d+\))(?: (.*))?$", line)
        if named:
            names.setdefault(named[2], named[3])
            if named[1] == "fn":
                function = named[2]
        elif line.startswith("calls="):
            is_call = True  # the next line is what the call cost
        elif re.match(r"[-+*\d]\S* \d+$", line):
            if not is_call:
                counts[function] = counts.get(function, 0) + int(line.split()[1])
            is_call = False
    operations = trigger_of(dump)[1]
    merged = {}
    for function, instructions in counts.items():
        name = names[function]
        merged[name] = merged.get(name, 0) + instructions / operations
    return merged


# --- Comparing --------------------------------------------------------------------------------


def compare(baselines: dict, counts: dict) -> tuple:
    """A table of all scenarios, and what is wrong."""
    tolerance = baselines["tolerance_percent"]
    before = baselines[COUNTS]
    table, wrong = [f"{'instructions an operation':32}{'baseline':>10}{'now':>10}"], []
    for name, now in counts.items():
        if name not in before:
            table.append(f"{name:32}{'-':>10}{now:10.0f}")
            wrong.append(f"{name} has no baseline: run with --update")
            continue
        change = 100 * (now / before[name] - 1)
        line = f"{name:32}{before[name]:10.0f}{now:10.0f}{change:+8.1f} %"
        if 100 * now > (100 + tolerance) * before[name]:
            line += "  SLOWER"
            wrong.append(f"{name} takes {change:.2f} % more instructions ({tolerance} % allowed)")
        elif 100 * now < (100 - tolerance) * before[name]:
            line += "  faster: keep it with --update"
        table.append(line)
    for name in before.keys() - counts.keys():
        wrong.append(f"{name} has a baseline and is not counted any more: run with --update")
    return table, wrong


def differences(before: dict, now: dict) -> list:
    """What the baselines were counted with and this was not."""
    return [
        f"{what}: {before.get(what)} then, {now.get(what)} now"
        for what in sorted(before.keys() | now.keys())
        if before.get(what) != now.get(what)
    ]


def in_order(binary: str, dumps: dict) -> dict:
    names = run(binary, "--list").split()
    return {name: per_operation(dumps[name].read_text("utf-8")) for name in names if name in dumps}


def guard(binary: str, baselines_path: Path, directory: str) -> int:
    baselines = json.loads(baselines_path.read_text("utf-8"))
    versions = toolchain(binary)
    differing = differences(baselines["toolchain"], versions)
    table, wrong = compare(baselines, in_order(binary, count(binary, directory)))
    print("\n".join(table))
    if differing:
        print("\nNOT THE TOOLCHAIN OF THE BASELINES; these may differ for no other reason:")
        print("\n".join(f"  {line}" for line in differing))
    if wrong:
        print("\n" + "\n".join(wrong))
        print(
            f"\nWhere the instructions are: {Path(__file__).name} --functions NAME, here and on the"
            "\ncommit before. Where more are meant: --update, and say why in the commit."
        )
    return 1 if wrong else 0


def update(binary: str, baselines_path: Path, directory: str) -> int:
    tolerance = DEFAULT_TOLERANCE_PERCENT
    if baselines_path.exists():
        tolerance = json.loads(baselines_path.read_text("utf-8"))["tolerance_percent"]
    counts = in_order(binary, count(binary, directory))
    baselines = {
        "toolchain": toolchain(binary),
        "tolerance_percent": tolerance,
        COUNTS: {name: round(instructions) for name, instructions in counts.items()},
    }
    baselines_path.write_text(json.dumps(baselines, indent=2) + "\n", "utf-8")
    print(f"{baselines_path}: {len(counts)} baselines")
    return 0


def show_functions(binary: str, name: str, directory: str) -> int:
    if name not in run(binary, "--list").split():
        raise Unusable(f"{name} is not counted; those that are: {binary} --list")
    dump = count(binary, directory, name)[name].read_text("utf-8")
    functions = sorted(functions_of(dump).items(), key=lambda item: -item[1])
    print(f"{name}: {per_operation(dump):.0f} instructions an operation, most of them in")
    for function, instructions in functions[:FUNCTIONS_SHOWN]:
        print(f"{instructions:10.1f}  {function}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--binary", default=str(DEFAULT_BINARY), help="micro_count (%(default)s)")
    parser.add_argument(
        "--baselines", type=Path, default=BASELINES, metavar="FILE", help="(%(default)s)"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--update", action="store_true", help="write the baselines anew")
    what.add_argument("--functions", metavar="NAME", help="where the instructions of NAME are")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        try:
            if arguments.functions:
                return show_functions(arguments.binary, arguments.functions, directory)
            action = update if arguments.update else guard
            return action(arguments.binary, arguments.baselines, directory)
        except Unusable as error:
            print(f"guard.py: {error}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
