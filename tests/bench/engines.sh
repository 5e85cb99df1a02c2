#!/usr/bin/env bash
# idempotencyd on each of its engines, measured. See --help.
set -euo pipefail
cd "$(dirname "$0")/../.."

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

install=yes
build=yes
arguments=()
for argument in "$@"; do
  case "$argument" in
    -h | --help)
      usage
      exit 0
      ;;
    --no-install) install=no ;;
    --no-build) build=no ;;
    *) arguments+=("$argument") ;;
  esac
done

if [ "$install" = yes ]; then deploy/install_deps.sh bench; fi
if [ "$build" = yes ]; then
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  if ! { cmake --preset release && cmake --build --preset release --target \
    idempotencyd idempotency_load idempotency_failover_probe; } >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
  fi
  rm -f "$log"
  trap - EXIT
fi
exec python3 tests/bench/compare/engines.py ${arguments[@]+"${arguments[@]}"}
