#!/usr/bin/env bash
# Checks the protocol's model exhaustively, and that each broken variant of it fails. See --help.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tests/proof/spin/check.sh [--keep DIR]

Checks protocol.pml with spin over every order of events, and then each broken variant, which
must break an assertion. Needs the packages of deploy/install_deps.sh test. Takes under a minute.

  --keep DIR   leave the generated checkers there, to follow a broken run (pan -r)

Draws nothing: its seed is always 0.
TEXT
}

readonly VARIANTS=(
  ACKNOWLEDGED_BEFORE_SYNC LAPSE_FREES UNKNOWN_IS_GRANTED HELD_IS_ACQUIRED TOKEN_REUSED
  IGNORES_ENDED_IDS STALE_TOKEN LAST_ANSWER_WINS DISPATCH_AFTER_LAPSE RESOLVED_BEFORE_SETTLED
)
# Fewer states than this, and the model has lost most of what it is to check.
readonly STATES_FLOOR=1000000

here=$(cd "$(dirname "$0")" && pwd)
case "${1:-}" in
  -h | --help)
    usage
    exit 0
    ;;
  --keep) work=$(mkdir -p "$2" && cd "$2" && pwd) ;;
  "")
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    ;;
  *)
    usage >&2
    exit 2
    ;;
esac

passed=0
failed=0
report() {
  if [ "$1" = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  printf '%-26s %s\n' "$2" "$3"
}

# Checks one variant; its words are left in $said.
check() {
  local variant=$1 folder="$work/$1"
  mkdir -p "$folder"
  cd "$folder"
  spin "-D$variant" -a "$here/protocol.pml" >/dev/null
  # What spin has made is not ours to mend: no warnings. Optimising takes longer than it saves.
  cc -O0 -w -DSAFETY -DCOLLAPSE -DMEMLIM=2000 -o pan pan.c
  said=$(./pan -m100000 -w23 2>&1 || true)
}

echo "seed 0"
command -v spin >/dev/null || {
  echo "spin is missing: run deploy/install_deps.sh test"
  echo "0 passed, 1 failed"
  exit 1
}

check AS_IT_IS
states=$(sed -n 's/^ *\([0-9][0-9]*\) states, stored.*/\1/p' <<<"$said")
if ! grep -q 'errors: 0' <<<"$said"; then
  report no AS_IT_IS "$(grep -m 1 -E 'violated|invalid|error' <<<"$said")"
elif grep -q 'max search depth too small\|out of memory' <<<"$said"; then
  report no AS_IT_IS "not all of it was searched"
elif [ "${states:-0}" -lt "$STATES_FLOOR" ]; then
  report no AS_IT_IS "only ${states:-0} states: fewer than $STATES_FLOOR"
else
  report ok AS_IT_IS "no error in $states states"
fi
for variant in "${VARIANTS[@]}"; do
  check "$variant"
  if broken=$(grep -m 1 'assertion violated' <<<"$said"); then
    report ok "$variant" "fails, as it must: ${broken#pan:1: }"
  else
    report no "$variant" "breaks nothing"
  fi
done
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
