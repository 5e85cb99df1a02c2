#!/usr/bin/env bash
# Whether protos/ follows its rules (protos/buf.yaml), and means what the last release meant; and
# whether a break of each would be noticed.
#
#   contract_test.sh BUF
set -euo pipefail
buf=${1:?usage: contract_test.sh BUF}
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# Of the folder that this runs in.
check() {
  case $1 in
    lint) "$buf" lint ;;
    format) "$buf" format --diff --exit-code ;;
    breaking) "$buf" breaking --against release.binpb ;;
  esac
}

holds() {
  (cd "$root/protos" && check "$1") && return
  echo "FAILED: $1 (see above; protos/README.md says how the contract may change)"
  failures=$((failures + 1))
}

# notices CHECK WHAT FILE SED: a copy that is changed so does not pass.
notices() {
  rm -rf "$scratch/protos"
  cp -r "$root/protos" "$scratch/protos"
  local file=$scratch/protos/idempotency/v1/$3
  sed -i "$4" "$file"
  if cmp --quiet "$file" "$root/protos/idempotency/v1/$3"; then
    echo "FAILED: nothing to change for: $2"
    failures=$((failures + 1))
  elif (cd "$scratch/protos" && check "$1") >"$scratch/said" 2>&1; then
    echo "FAILED: $1 does not notice: $2"
    failures=$((failures + 1))
  fi
}

holds lint
holds format
holds breaking

service=idempotency_service.proto
notices lint "a field in capitals" $service 's/string attempt_id = 3;/string attemptId = 3;/'
notices lint "a message without a comment" $service '/^\/\/ The holder of a lease goes on/d'
notices format "an indentation" $service 's/^  string attempt_id = 3;/   string attempt_id = 3;/'
notices breaking "another number" $service 's/string attempt_id = 3;/string attempt_id = 33;/'
notices breaking "another name" $service 's/string attempt_id = 3;/string try_id = 3;/'
notices breaking "another type" $service 's/uint64 fencing_token = 2;/uint32 fencing_token = 2;/'
notices breaking "a value that is gone" $service '/NEXT_STEP_STOP = 9;/d'
notices breaking "a method that is gone" admin_service.proto '/rpc ListNamespaces/d'
notices breaking "another Go package" operation.proto 's/go_package = "idempotencyd.dev/go_package = "example.org/'
exit "$failures"
