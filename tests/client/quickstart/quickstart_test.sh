#!/usr/bin/env bash
# The client library as a stranger gets it: installed to a prefix of its own, found there by the
# quickstart, which is built outside of the tree and run with its recipes against the release
# binary.
#
# IDEMPOTENCYD names the binary; the build directory that it is in is what is installed.
set -euo pipefail
: "${IDEMPOTENCYD:?set it to the release binary; tests/run.sh does}"
cd "$(dirname "$0")/../../.."
build=$(cd "$(dirname "$IDEMPOTENCYD")/.." && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

quietly() {
  if ! "$@" >"$work/log" 2>&1; then
    cat "$work/log"
    echo "quickstart_test: failed: $*" >&2
    exit 1
  fi
}

quietly cmake --install "$build" --prefix "$work/prefix"
cp -R client/quickstart "$work/quickstart"
quietly cmake -G Ninja -S "$work/quickstart" -B "$work/quickstart/build" \
  -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0
quietly cmake --build "$work/quickstart/build"
quietly "$work/quickstart/run.sh" "$work/quickstart/build" "$IDEMPOTENCYD"

for words in "charged 5 times" "and charged 1 time" "asked again: the same answer" \
  "Whatever goes wrong: one charge." "what happened is replayed, what did not is done now"; do
  grep -q "$words" "$work/log" || {
    cat "$work/log"
    echo "quickstart_test: the story does not say: $words" >&2
    exit 1
  }
done
echo "quickstart_test: passed"
