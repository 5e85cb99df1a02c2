#!/usr/bin/env bash
# Installs, builds and runs every test, each in exactly one preset. See --help.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: tests/run.sh [--no-install] [ctest argument ...]

Installs what is missing (deploy/install_deps.sh test), builds the release binaries and all
tests under the address and undefined-behaviour sanitizers, runs the tests, and ends with
ctest's summary. The end-to-end tests drive the release binaries. Running it again builds only
what has changed.

  --no-install   leave the machine's packages alone
  -R NAME, -L LABEL, --repeat until-fail:9 ...   go to ctest as they are

Environment: JOBS, how much to do at once (default: one job a core).
TEXT
}

jobs=${JOBS:-$(nproc)}
install=yes
case "${1:-}" in
  -h | --help)
    usage
    exit 0
    ;;
  --no-install)
    install=no
    shift
    ;;
esac

heading() { printf '\n==> [%4d s] %s\n' "$SECONDS" "$*"; }

# Quiet where it works; everything where it does not.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 || status=$?
  [ "$status" -eq 0 ] || cat "$log"
  rm -f "$log"
  return "$status"
}

if [ "$install" = yes ]; then
  heading "Packages: deploy/install_deps.sh test"
  deploy/install_deps.sh test
fi

heading "Building the binaries: preset release"
quietly cmake --preset release
cmake --build --preset release --parallel "$jobs" --target all micro_count

heading "Building the tests: preset asan"
quietly cmake --preset asan
cmake --build --preset asan --parallel "$jobs"

heading "Running the tests"
ctest --preset asan --parallel "$jobs" "$@"
