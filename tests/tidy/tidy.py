#!/usr/bin/env python3
"""Checks that the tree keeps the house rules; prints what does not, one finding a line.

usage: tidy.py [ROOT] [--check NAME]...
"""

import argparse
import sys
from pathlib import Path

import checks
from tree import Tree


def main() -> int:
    known = {check.__name__: check for check in checks.ALL}
    parser = argparse.ArgumentParser(
        description="Checks the house rules: "
        + " ".join(f"{name}: {check.__doc__}" for name, check in known.items())
    )
    parser.add_argument("root", nargs="?", default=Path(__file__).parents[2], type=Path)
    parser.add_argument("--check", action="append", choices=sorted(known), help="just this one")
    arguments = parser.parse_args()
    chosen = [known[name] for name in arguments.check or known]

    tree = Tree(arguments.root.resolve())
    count = 0
    for check in chosen:
        for finding in check(tree):
            print(f"{finding.path}:{finding.line}: {finding.message} [{check.__name__}]")
            count += 1
    print(f"{len(tree.files)} files, {len(chosen)} checks, {count} findings")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
