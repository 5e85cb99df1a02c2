# shellcheck shell=bash
# Sourced by the scripts here: what they have in common. Each has a usage() of its own.
#
#   measure PROGRAM install|as_is 'TARGET ...' "$@"
#
# Installs what benches need (where the script does that), builds the targets quietly, and becomes
# tests/bench/compare/PROGRAM with the flags that are left.
measure() {
  local program=$1 install=$2 targets=$3 build=yes argument log
  local arguments=()
  shift 3
  for argument in "$@"; do
    case "$argument" in
      -h | --help)
        usage
        exit 0
        ;;
      --no-build) build=no ;;
      *)
        if [ "$install" = install ] && [ "$argument" = --no-install ]; then
          install=as_is
        else
          arguments+=("$argument")
        fi
        ;;
    esac
  done
  if [ "$install" = install ]; then deploy/install_deps.sh bench; fi
  if [ "$build" = yes ]; then
    log=$(mktemp)
    # shellcheck disable=SC2086  # several targets
    if ! { cmake --preset release && cmake --build --preset release --target $targets; } \
      >"$log" 2>&1; then
      cat "$log" >&2
      rm -f "$log"
      exit 1
    fi
    rm -f "$log"
  fi
  exec python3 "tests/bench/compare/$program" ${arguments[@]+"${arguments[@]}"}
}
