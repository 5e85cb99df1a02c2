#!/usr/bin/env bash
# idempotencyd on each of its engines, measured. See --help.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=/dev/null  # it is checked by itself
source tests/bench/measure.bash

usage() {
  cat <<'TEXT'
usage: tests/bench/engines.sh [--json=FILE] [...]

Installs what is missing (deploy/install_deps.sh bench), builds the release binaries and the
bench, and then measures in turn, on this machine: idempotencyd on RocksDB, on one etcd and on
three, on a PostgreSQL and on one with a synchronous standby. Prints throughput, ratios to RocksDB
with their spread, and how long it takes until calls are acknowledged again after etcd's leader
or PostgreSQL's primary is lost. Takes seven minutes.

  --no-install   leave the machine's packages alone
  --no-build     take the binaries as they are in build/release/bin

TEXT
  python3 tests/bench/compare/engines.py --help-options
}

measure engines.py install 'idempotencyd idempotency_load idempotency_failover_probe' "$@"
