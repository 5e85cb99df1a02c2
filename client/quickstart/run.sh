#!/usr/bin/env bash
# Starts idempotencyd and the bank, tells the story, and runs the recipes.
#
#   run.sh BUILD_DIR PATH_OF_IDEMPOTENCYD
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
usage="usage: run.sh BUILD_DIR PATH_OF_IDEMPOTENCYD"
case "${1:-}" in
  -h | --help)
    echo "$usage"
    echo
    echo "Starts idempotencyd and the bank, tells the story of quickstart.cc, and runs the recipes."
    exit 0
    ;;
esac
if [ $# -ne 2 ]; then
  echo "$usage" >&2
  exit 2
fi
build=$1
idempotencyd=$2

work=$(mktemp -d)
children=()
end() {
  touch "$work/over"
  for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
  wait
  rm -rf "$work"
}
trap end EXIT

# Prints the port in a file as soon as it is there.
port_in() {
  for _ in $(seq 600); do
    if [ -s "$1" ]; then
      cat "$1"
      return
    fi
    sleep 0.05
  done
  echo "run.sh: nothing listens: $1 has not appeared" >&2
  return 1
}

"$idempotencyd" --config="$here/idempotencyd.yaml" --data_dir="$work/store" --ballast_mb=0 \
  --listen=127.0.0.1:0 --port_file="$work/service.port" 2>"$work/service.log" &
children+=($!)

# A bank that dies is started again, where it was.
bank() {
  local port=0 child status
  while [ ! -e "$work/over" ]; do
    "$build/bank" --listen="127.0.0.1:$port" --port_file="$work/bank.port" \
      --journal="$work/bank.journal" &
    child=$!
    # shellcheck disable=SC2064 # the child of now
    trap "kill $child 2>/dev/null; exit 0" TERM
    status=0
    wait "$child" || status=$?
    [ "$status" -eq 3 ] || return 0
    port=$(cat "$work/bank.port")
    echo "  (the bank has died, and is started again)"
  done
}
bank &
children+=($!)

service=127.0.0.1:$(port_in "$work/service.port")
bank_address=127.0.0.1:$(port_in "$work/bank.port")

"$build/quickstart" --target="$service" --bank="$bank_address"
for recipe in webhook_receiver outbox_worker active_run workflow_step reconcile; do
  echo
  echo "Recipe $recipe:"
  "$build/$recipe" --target="$service"
done
