#!/usr/bin/env bash
# Moving a store of millions of records to another engine, measured. See --help.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=/dev/null  # it is checked by itself
source tests/bench/measure.bash

usage() {
  cat <<'TEXT'
usage: tests/bench/moving.sh [--keys=N] [--targets=NAMES] [--json=FILE] [...]

Brings two million completed keys into idempotencyd on RocksDB, and moves them as an operator
does: idempotencyctl export, import into a PostgreSQL and into an etcd, retire. Says how many records
a second each takes, and what memory servers, tool and stores take at most. The digests of what was
exported and of what each store holds then are compared. Takes 10 GB of disk and, for etcd alone, more
than ten minutes; --targets=postgres, five; --keys=100000, a minute.

  --no-build     take the binaries as they are in build/release/bin

TEXT
  python3 tests/bench/compare/moving.py --help-options
}

measure moving.py as_is 'idempotencyd idempotencyctl idempotency_load' "$@"
