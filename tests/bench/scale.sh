#!/usr/bin/env bash
# idempotencyd with ten million keys. See --help.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=/dev/null  # it is checked by itself
source tests/bench/measure.bash

usage() {
  cat <<'TEXT'
usage: tests/bench/scale.sh [--keys=N] [--json=FILE] [...]

Brings ten million completed keys into idempotencyd, through Pipeline, and measures what they
change: Reserve's rate against a store of 100 thousand, memory, disk a key, how long starting
takes after a clean stop and after kill -9, and Reserve's latency while a million keys expire
and while a million leases lapse. Takes half an hour and 5 GB of disk; --keys=200000
--expiring=50000, a few minutes.

  --no-build     take the binaries as they are in build/release/bin

TEXT
  python3 tests/bench/compare/scale.py --help-options
}

measure scale.py as_is 'idempotencyd idempotency_load idempotency_compact' "$@"
