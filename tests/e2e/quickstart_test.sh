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

# --serve: it is still there when the story is told, and ends with the script.
deploy/quickstart.sh --no-install --serve --listen=127.0.0.1:0 --data-dir="$work/store" \
  >"$work/serving" 2>&1 &
script=$!
for _ in $(seq 600); do
  if grep -q "Serving on" "$work/serving" || ! kill -0 "$script" 2>/dev/null; then break; fi
  sleep 0.1
done
server=$(sed -n 's/.*Serving on \([0-9.:]*\);.*/\1/p' "$work/serving")
build/release/bin/idempotencyctl --server="$server" health >/dev/null
kill -TERM "$script"
wait "$script" || true
if pgrep -f -- "--data_dir=$work/store" >/dev/null; then
  echo "quickstart_test: the service was left running" >&2
  exit 1
fi

deploy/quickstart.sh --help | grep -q -- --serve
if deploy/quickstart.sh --nonsense >"$work/refused" 2>&1; then
  echo "quickstart_test: an unknown flag was taken" >&2
  exit 1
fi
grep -q "do not know --nonsense" "$work/refused"
echo "quickstart_test: passed"
