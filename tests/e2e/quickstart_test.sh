#!/usr/bin/env bash
# The quickstart tells its story to the end, and again on the same store, and leaves nothing
# running. Needs the release binaries, which it finds built.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for round in first second; do
  if ! deploy/quickstart.sh --no-install --listen=127.0.0.1:0 --data-dir="$work/store" \
    >"$work/$round" 2>&1; then
    cat "$work/$round"
    echo "quickstart_test: the $round run failed" >&2
    exit 1
  fi
  for words in ALREADY_HELD IN_PROGRESS COMPLETED FINGERPRINT_MISMATCH UNRESOLVED \
    LEASE_LAPSED RESOLVED "That is the main job"; do
    grep -q "$words" "$work/$round" || {
      echo "quickstart_test: the $round run does not show $words" >&2
      exit 1
    }
  done
done

# Whoever opens the store next finds it free: the service has ended.
deploy/quickstart.sh --help | grep -q -- --serve
if deploy/quickstart.sh --nonsense >"$work/refused" 2>&1; then
  echo "quickstart_test: an unknown flag was taken" >&2
  exit 1
fi
grep -q "do not know --nonsense" "$work/refused"
echo "quickstart_test: passed"
