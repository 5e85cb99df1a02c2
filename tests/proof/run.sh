#!/usr/bin/env bash
# Runs the proof harnesses at the size of continuous integration. See --help.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<'TEXT'
usage: tests/proof/run.sh [--no-build] [--list] [--more] [harness ...]

Runs all that are expected to pass, or those that are named: also some that still find something,
go by the pace of the machine, or take too long (see README.md).

Builds the harnesses (target idempotency_proof of the preset release, so that they run on what is
shipped; the fuzz targets in the preset asan) and runs them, all or those named, one after the
other. Each prints its seed first and "N passed, N failed" last, and fails below its floor; the
last line here adds them up.

  --no-build   run what is built already
  --list       name the harnesses
  --more       name those that run only where they are named

Environment:
  PROOF_SECONDS   how long each harness goes on, those that can; unset: until its floor
  PROOF_SEED      where each harness begins, those that draw (1)
  JOBS            how much to build at once (default: one job a core)

Campaigns: PROOF_SECONDS=3600 PROOF_SEED=$RANDOM tests/proof/run.sh --no-build simulation
TEXT
}

readonly BIN=build/release/bin
seed=${PROOF_SEED:-1}

# One a line: its name, and how it is run.
harnesses() {
  cat <<TEXT
simulation  $BIN/idempotency_simulate histories --seed=$seed --floor=1000000 --coverage
mutants     $BIN/idempotency_simulate mutants --seed=$seed --floor=100000
clocks      $BIN/idempotency_clocks --seed=$seed --floor=1000
kills       $BIN/idempotency_kills --seed=$seed --floor=300 --jobs=3
kills_control       $BIN/idempotency_kills --control
power_cuts  $BIN/idempotency_power_cuts --seed=$seed --floor=5000
power_cuts_control  $BIN/idempotency_power_cuts --control
etcd_kills  $BIN/idempotency_etcd_kills --seed=$seed --floor=20 --slow
postgres_failovers  $BIN/idempotency_postgres_failovers --seed=$seed --floor=2
paused_etcd         $BIN/idempotency_paused_replica --engine=etcd --seed=$seed --floor=12
paused_postgres     $BIN/idempotency_paused_replica --engine=postgres --seed=$seed --floor=12
shutdowns   $BIN/idempotency_shutdowns --seed=$seed --floor=5
io_faults   $BIN/idempotency_io_faults --seed=$seed --all
io_faults_control   $BIN/idempotency_io_faults --control
disk_full   $BIN/idempotency_disk_full
corruptions $BIN/idempotency_corruptions --seed=$seed --floor=2000
corruptions_control $BIN/idempotency_corruptions --control
requests    $BIN/idempotency_bad_requests --seed=$seed --floor=5000
fuzz        tests/fuzz/run.sh --seed=$seed
network     $BIN/idempotency_network --seed=$seed --floor=100000
network_control     $BIN/idempotency_network --seed=$seed --control
network_etcd        $BIN/idempotency_network --engine=etcd --seed=$seed --floor=10000
network_postgres    $BIN/idempotency_network --engine=postgres --seed=$seed --floor=10000
large_answers       $BIN/idempotency_large_answers --floor=300
hostile     $BIN/idempotency_hostile --seed=$seed
hostile_control     $BIN/idempotency_hostile --control
overload    $BIN/idempotency_overload --seed=$seed --floor=3
soak        $BIN/idempotency_soak --seed=$seed --floor=20
model       tests/proof/spin/check.sh
TEXT
}

# The same, of those that run only where they are named.
by_name() {
  cat <<TEXT
etcd_kills_in_time  $BIN/idempotency_etcd_kills --seed=$seed --floor=20
postgres_failovers_control $BIN/idempotency_postgres_failovers --seed=$seed --control
large_answers_control $BIN/idempotency_large_answers --floor=50 --control
overload_control    $BIN/idempotency_overload --control
soak_control        $BIN/idempotency_soak --control --seconds=30
TEXT
}

build=yes
wanted=()
for argument in "$@"; do
  case "$argument" in
    -h | --help)
      usage
      exit 0
      ;;
    --no-build) build=no ;;
    --more)
      by_name | awk '{ print $1 }'
      exit 0
      ;;
    --list)
      harnesses | awk '{ print $1 }'
      exit 0
      ;;
    *)
      { harnesses && by_name; } | grep "^$argument " >/dev/null || {
        usage >&2
        exit 2
      }
      wanted+=("$argument")
      ;;
  esac
done

heading() { printf '\n==> [%4d s] %s\n' "$SECONDS" "$*"; }

is_wanted() { [ ${#wanted[@]} -eq 0 ] || [[ " ${wanted[*]} " == *" $1 "* ]]; }

if [ "$build" = yes ]; then
  if is_wanted fuzz; then
    heading "Building: target idempotency_fuzz, preset asan"
    cmake --preset asan >/dev/null
    cmake --build --preset asan --target idempotency_fuzz --parallel "${JOBS:-$(nproc)}"
  fi
  heading "Building: target idempotency_proof, preset release"
  cmake --preset release >/dev/null
  cmake --build --preset release --target idempotency_proof --parallel "${JOBS:-$(nproc)}"
fi

passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Runs one harness and adds up its last line. One without that line is a failure, and so is one
# that fails though nothing in it did.
run() {
  local name=$1 status=0 good bad
  shift
  heading "$name: $*"
  "$@" 2>&1 | tee "$log" || status=$?
  if [[ $(tail -n 1 "$log") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    good=${BASH_REMATCH[1]} bad=${BASH_REMATCH[2]}
  else
    good=0 bad=1
  fi
  # 77: this machine cannot do it, and the harness has said so.
  if [ "$status" -ne 0 ] && [ "$status" -ne 77 ] && [ "$bad" -eq 0 ]; then bad=1; fi
  passed=$((passed + good))
  failed=$((failed + bad))
}

all() {
  harnesses
  [ ${#wanted[@]} -eq 0 ] || by_name
}

while read -r name command; do
  is_wanted "$name" || continue
  # A harness is a program and its words.
  read -ra words <<<"$command"
  run "$name" "${words[@]}" </dev/null
done < <(all)

heading "All of it"
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
