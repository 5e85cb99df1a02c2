#!/usr/bin/env bash
# Runs a command against an idempotencyd of its own ($IDEMPOTENCYD) and ends that.
#
#   with_service.sh COMMAND [argument ...]      TARGET in an argument is replaced by the address
set -euo pipefail
directory=$(mktemp -d)
"$IDEMPOTENCYD" --listen=127.0.0.1:0 --data_dir="$directory/data" --engine=memory \
  --port_file="$directory/port" --ballast_mb=0 2>"$directory/log" &
server=$!
finish() {
  kill "$server" 2>/dev/null || true
  rm -rf "$directory"
}
trap finish EXIT
exec {never}<> <(:) # nothing ever comes from it: a pause that ends by its timeout
until [ -s "$directory/port" ]; do
  kill -0 "$server" 2>/dev/null || {
    cat "$directory/log"
    exit 1
  }
  read -rt 0.02 -u "$never" || true
done
"${@//TARGET/127.0.0.1:$(cat "$directory/port")}"
kill "$server"
wait "$server"
