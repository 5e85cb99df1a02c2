#!/usr/bin/env bash
# idempotencyd against what users would pick instead, measured. See --help.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=/dev/null  # it is checked by itself
source tests/bench/measure.bash

usage() {
  cat <<'TEXT'
usage: tests/bench/compare.sh [--quick] [--json=FILE] [--chart=FILE.svg] [...]

Installs what is missing (deploy/install_deps.sh bench), builds the release binaries and the
bench, and then measures in turn, on this machine, each at its durable setting: an echo service
that does nothing, idempotencyd, Redis, PostgreSQL and etcd. Prints throughput, ratios with their
spread, and whether our targets are met. Takes a quarter of an hour; --quick, two minutes.

  --quick        two short rounds: to see that it works, not to quote
  --no-install   leave the machine's packages alone
  --no-build     take the binaries as they are in build/release/bin

TEXT
  python3 tests/bench/compare/compare.py --help-options
}

measure compare.py install 'idempotencyd idempotency_load idempotency_echo idempotency_load_others' "$@"
