#!/usr/bin/env bash
# From a bare Debian 12 to a running service and a story of what it does. See --help.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: deploy/quickstart.sh [--serve] [--no-install] [--listen=HOST:PORT] [--data-dir=DIR]

Installs what is missing with apt, builds the release binaries, starts idempotencyd with a
store of its own, and tells a story with idempotencyctl: a charge that is reserved, whose
reply is lost, that is retried, completed and replayed; a changed amount that is refused; an
owner that crashes, whose operation ends unresolved and is resolved by a person.

  --serve            leave the service running in the foreground afterwards; Ctrl-C ends it
  --no-install       leave the machine's packages alone
  --listen=H:P       where to listen, port 0 for any [127.0.0.1:7420]
  --data-dir=DIR     where the store is [./var/idempotencyd]

Running it again uses the same store and new keys.
TEXT
}

serve=no
install=yes
listen=127.0.0.1:7420
data_dir=var/idempotencyd
for argument in "$@"; do
  case "$argument" in
    -h | --help) usage && exit 0 ;;
    --serve) serve=yes ;;
    --no-install) install=no ;;
    --listen=*) listen=${argument#*=} ;;
    --data-dir=*) data_dir=${argument#*=} ;;
    *)
      usage >&2
      echo "quickstart: do not know $argument" >&2
      exit 2
      ;;
  esac
done

bin=build/release/bin
examples=deploy/quickstart
server_pid=
work=$(mktemp -d)

stop_server() {
  [ -z "$server_pid" ] && return
  kill -TERM "$server_pid" 2>/dev/null || true
  wait "$server_pid" 2>/dev/null || true
  server_pid=
}
trap 'stop_server; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

heading() { printf '\n\033[1m==> %s\033[0m\n' "$*"; }
say() { printf '    %s\n' "$@"; }

build() {
  if [ "$install" = yes ]; then
    heading "Installing what is missing (deploy/install_deps.sh)"
    deploy/install_deps.sh build
  fi
  heading "Building the release binaries (build/release/bin)"
  cmake --preset release >"$work/cmake.log" 2>&1 || { cat "$work/cmake.log"; exit 1; }
  cmake --build --preset release --target idempotencyd idempotencyctl
}

start_server() {
  heading "Starting idempotencyd on $listen, its store in $data_dir"
  mkdir -p "$(dirname "$data_dir")"
  "$bin/idempotencyd" --data_dir="$data_dir" --listen="$listen" --port_file="$work/port" \
    2>"$work/server.log" &
  server_pid=$!
  for _ in $(seq 300); do
    [ -s "$work/port" ] && break
    kill -0 "$server_pid" 2>/dev/null || break
    sleep 0.1
  done
  if [ ! -s "$work/port" ]; then
    echo "quickstart: the service did not start; it says:" >&2
    tail -n 5 "$work/server.log" >&2
    exit 1
  fi
  IDEMPOTENCY_SERVER="${listen%:*}:$(cat "$work/port")"
  export IDEMPOTENCY_SERVER
  say "It logs to standard error, one JSON object a line; here: $work/server.log"
}

# Shows a command, runs it, and insists on the exit code that the story needs: they are
# documented in client/ctl/README.md, so that scripts can branch on them.
ctl() {
  local want=$1 got=0
  shift
  printf '\n    \033[36m$ idempotencyctl'
  printf ' %q' "$@"
  printf '\033[0m\n'
  "$bin/idempotencyctl" "$@" >"$work/answer" 2>&1 || got=$?
  sed 's/^/    | /' "$work/answer"
  if [ "$got" -ne "$want" ]; then
    echo "quickstart: expected exit code $want, got $got; the service says:" >&2
    tail -n 5 "$work/server.log" >&2
    exit 1
  fi
}

# The fencing token of the operation's lease, as the last answer in JSON has it.
json_field() { sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p" "$2" | head -n 1; }

reserve_quietly() {
  "$bin/idempotencyctl" --output=json --quiet reserve payments "$@" >"$work/reserve.json"
  json_field fencingToken "$work/reserve.json"
}

tell_charge() {
  local key attempt token
  key="order-1042-$(date +%s)"
  attempt="quickstart-$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')"
  heading "1. A charge is reserved, and the reply is lost"
  say "The caller has made and saved its key, $key, before the first try. The request is" \
    "$examples/charge.json; the service keeps only its digest. The reply to this Reserve never" \
    "arrives: nobody reads it."
  "$bin/idempotencyctl" reserve payments acct_1 "$key" --request-file="$examples/charge.json" \
    --attempt-id="$attempt" --worker=checkout-1 >/dev/null 2>&1

  heading "2. It is sent again, with the same attempt id"
  say "Not a collision with itself: the lease is its own (exit code 10). Only the fencing token" \
    "tells later messages of this attempt from those of another."
  ctl 10 reserve payments acct_1 "$key" --request-file="$examples/charge.json" \
    --attempt-id="$attempt" --worker=checkout-1
  token=$("$bin/idempotencyctl" --output=json --quiet reserve payments acct_1 "$key" \
    --request-file="$examples/charge.json" --attempt-id="$attempt" >"$work/reserve.json" ||
    true; json_field fencingToken "$work/reserve.json")

  heading "3. A second worker tries the same charge at the same time"
  say "It does not win (exit code 11). It may wait on the server instead of asking again: --wait."
  ctl 11 reserve payments acct_1 "$key" --request-file="$examples/charge.json" --worker=checkout-2

  heading "4. The provider has answered: complete, with the answer to replay"
  ctl 0 complete payments acct_1 "$key" --token="$token" --verdict=succeeded \
    --http-status=200 --content-type=application/json --body-file="$examples/charge_answer.json" \
    --provider-request-id=req_51

  heading "5. A duplicate gets the same answer, byte for byte"
  ctl 12 reserve payments acct_1 "$key" --request-file="$examples/charge.json" \
    --body-out="$work/replayed.json"
  cmp "$examples/charge_answer.json" "$work/replayed.json"
  say "" "The replayed body is $examples/charge_answer.json: $(cat "$work/replayed.json")"

  heading "6. The same key with another amount is refused"
  say "It is told nothing of the other request (exit code 14)."
  ctl 14 reserve payments acct_1 "$key" --request-file="$examples/charge_changed_amount.json"
}

tell_crash() {
  local key token
  key="order-1043-$(date +%s)"
  heading "7. An owner crashes in the middle of a charge"
  say "It holds a lease of one second and is never heard of again. The service waits with the" \
    "next caller until the lease has ended, and does not hand out a second try: the charge may" \
    "have happened. A timeout is an unknown outcome, not a failure (exit code 13)."
  token=$(reserve_quietly acct_1 "$key" --request-file="$examples/charge.json" --lease=1s \
    --worker=checkout-3)
  ctl 13 reserve payments acct_1 "$key" --request-file="$examples/charge.json" --wait=10s
  heading "8. The person on call sees what is open"
  ctl 0 list payments --state=unresolved
  heading "9. The provider's records show the charge: the operation is settled as completed"
  ctl 0 resolve completed payments acct_1 "$key" --verdict=succeeded --actor=alice \
    --reason="the provider lists ch_7Xq2 for this order" --http-status=200 \
    --content-type=application/json --body-file="$examples/charge_answer.json"
  ctl 12 reserve payments acct_1 "$key" --request-file="$examples/charge.json"
  heading "10. Its history says who knew what, and when"
  ctl 0 inspect payments acct_1 "$key"
  say "" "Had the crashed owner come back now with its token $token, it would be told that it is" \
    "too late, and its report kept as evidence."
}

build
start_server
tell_charge
tell_crash

heading "That is the main job"
say "idempotencyctl --help has the rest; the API is protos/idempotency/v1, its guide protos/README.md."
if [ "$serve" = yes ]; then
  say "" "Serving on $IDEMPOTENCY_SERVER; Ctrl-C ends it. Try, from another shell:" \
    "  $bin/idempotencyctl --server=$IDEMPOTENCY_SERVER list payments"
  wait "$server_pid"
fi
