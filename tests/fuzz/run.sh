#!/usr/bin/env bash
# Runs the fuzz targets: each replays its corpus, then goes on from there. See --help.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<'TEXT'
usage: tests/fuzz/run.sh [--seed=N] [--small] [--bin=DIR] [target ...]

Replays the corpus of every target, or of those named, and goes on with mutations of it: the same
seed, the same inputs. Prints the seed first and "N passed, N failed" last, counted in inputs;
fewer than a target's floor are a failure, and so is an input that breaks a rule, crashes, runs
over 10 s or takes over 1 GB. Such an input is left in build/fuzz/TARGET.

  --seed=N    where mutations begin, above zero (1)
  --small     the corpus and some thousand inputs each
  --bin=DIR   where the targets are (build/asan/bin; target idempotency_fuzz of the preset asan)

Environment:
  PROOF_SECONDS   how long all targets together go on; unset: until their floor
  JOBS            how many targets at once (default: one a core; --small: one)
TEXT
}

# Name, inputs at least, inputs at least where it is small. Together over a million.
readonly TARGETS="
config    20000  300
duration  350000 10000
frames    220000 2000
json      220000 2000
key       220000 3000
pipeline  5000   100
record    220000 3000
requests  5000   100
"
# No target finishes its floor slower than this on a machine that is busy with other things.
readonly SECONDS_MAX=600

seed=1 # for libFuzzer zero is any
small=no
bin=build/asan/bin
# Of one target, run by a run of all.
only=""
share=0
wanted=()
for argument in "$@"; do
  case "$argument" in
    -h | --help)
      usage
      exit 0
      ;;
    --seed=*) seed=${argument#*=} ;;
    --small) small=yes ;;
    --bin=*) bin=${argument#*=} ;;
    --only=*) only=${argument#*=} ;;
    --share=*) share=${argument#*=} ;;
    *)
      grep -q "^$argument " <<<"$TARGETS" || {
        usage >&2
        exit 2
      }
      wanted+=("$argument")
      ;;
  esac
done

# Runs one target, for so many inputs or, above zero, for so many seconds. Ends with a line for
# the run of all: result NAME INPUTS STATUS.
run_target() {
  local name=$1 floor=$2 seconds=$3 runs=$2 dictionary=$1 inputs status=0
  local folder=tests/fuzz artifacts=build/fuzz/$1 work options
  work=$(mktemp -d)
  mkdir -p "$artifacts" "$work/corpus"
  options=(-seed="$seed" -timeout=10 -rss_limit_mb=1024 -max_len=4096 -print_final_stats=0
    -artifact_prefix="$artifacts/")
  [ "$name" != pipeline ] || dictionary=requests
  [ ! -e "$folder/dictionaries/$dictionary.dict" ] ||
    options+=("-dict=$folder/dictionaries/$dictionary.dict")
  local corpora=("$work/corpus" "$folder/corpus/$name")
  [ "$name" != config ] || corpora+=(deploy/contracts)
  if [ "$seconds" -gt 0 ]; then runs=-1; else seconds=$SECONDS_MAX; fi
  {
    "$bin/idempotency_fuzz_$name" -runs=0 "${options[@]}" "${corpora[@]}" &&
      "$bin/idempotency_fuzz_$name" -runs="$runs" -max_total_time="$seconds" "${options[@]}" \
        "${corpora[@]}"
  } >"$work/log" 2>&1 || status=$?
  inputs=$(sed -nE 's/^Done ([0-9]+) runs in .*/\1/p' "$work/log" | tail -n 1)
  if [ "$status" -ne 0 ]; then
    tail -n 60 "$work/log"
  elif [ "${inputs:-0}" -lt "$floor" ]; then
    printf '%s: %s inputs, and not %s\n' "$name" "${inputs:-0}" "$floor"
    status=1
  fi
  rm -rf "$work"
  printf 'result %s %s %s\n' "$name" "${inputs:-0}" "$status"
}

if [ -n "$only" ]; then
  read -r name floor few < <(grep "^$only " <<<"$TARGETS")
  [ "$small" = no ] || floor=$few
  run_target "$name" "$floor" "$share"
  exit 0
fi

[ "$seed" -gt 0 ] || {
  usage >&2
  exit 2
}
jobs=${JOBS:-$(nproc)}
count=${#wanted[@]}
[ "$count" -gt 0 ] || count=$(grep -c . <<<"$TARGETS")
if [ "$small" = yes ]; then
  jobs=1
elif [ -n "${PROOF_SECONDS:-}" ]; then
  share=$((PROOF_SECONDS * jobs / count + 1))
fi

printf 'seed %s\n' "$seed"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
while read -r name _; do
  [ -n "$name" ] || continue
  if [ ${#wanted[@]} -gt 0 ] && [[ " ${wanted[*]} " != *" $name "* ]]; then continue; fi
  printf '%s\n' "$name"
done <<<"$TARGETS" | {
  options=(--seed="$seed" --bin="$bin" --share="$share")
  [ "$small" = no ] || options+=(--small)
  xargs -P "$jobs" -I NAME tests/fuzz/run.sh "${options[@]}" --only=NAME
} >"$log" || true

grep -v '^result ' "$log" || true
sed -nE 's/^result ([^ ]+) ([^ ]+) 0$/\1: \2 inputs/p' "$log"
awk '
  $1 == "result" { targets++; passed += $3; if ($4 != 0) failed++ }
  END { if (targets == 0) failed = 1; printf "%d passed, %d failed\n", passed, failed; exit failed > 0 }
' "$log"
