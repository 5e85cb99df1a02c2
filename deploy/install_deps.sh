#!/usr/bin/env bash
# Installs, from Debian 12's own packages, what building and testing needs. See --help.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: deploy/install_deps.sh [build|test]

Installs with apt what is missing, and only that; prints nothing where nothing is.

  build   what building idempotencyd and idempotencyctl needs (the default)
  test    build, and what tests/run.sh needs besides

Works as root, or as a user with sudo. For Debian 12 (bookworm).
TEXT
}

readonly BUILD_PACKAGES=(
  g++ cmake ninja-build ccache pkg-config
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  librocksdb-dev libabsl-dev libyaml-cpp-dev libspdlog-dev libcli11-dev libssl-dev zlib1g-dev
)
readonly TEST_PACKAGES=(
  clang-14 libclang-rt-14-dev lld-14 llvm-14 clang-format-14
  libgtest-dev libgmock-dev python3 shellcheck
)

say() { printf 'install_deps: %s\n' "$*" >&2; }
die() {
  say "$@"
  exit 1
}

# apt-get as root, patient with a busy lock and a lossy network.
apt_get() {
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "needs root or sudo; ask for: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -qq \
    -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" >>"$log" 2>&1
}

install_missing() {
  local try
  for try in 1 2 3; do
    # A third party's broken list must not stop us: what counts is whether the install works.
    apt_get update || say "apt-get update had trouble; trying to install all the same"
    if apt_get install --no-install-recommends "${missing[@]}"; then
      return 0
    fi
    [ "$try" -eq 3 ] || say "apt failed; trying again (try $((try + 1)) of 3)"
  done
  return 1
}

main() {
  local wanted=("${BUILD_PACKAGES[@]}")
  case "${1:-build}" in
    build) ;;
    test) wanted+=("${TEST_PACKAGES[@]}") ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      usage >&2
      exit 2
      ;;
  esac
  [ $# -le 1 ] || {
    usage >&2
    exit 2
  }

  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    die "no apt here: install the equivalents of these Debian 12 packages yourself: ${wanted[*]}"
  fi

  local package known
  # Fails where one is not known at all, and tells of the others all the same.
  known=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null) || true
  missing=()
  for package in "${wanted[@]}"; do
    [[ $'\n'"$known"$'\n' == *$'\n'"$package installed"$'\n'* ]] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0

  say "installing with apt: ${missing[*]}"
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  if ! install_missing; then
    tail -n 30 "$log" >&2
    die "apt could not install them; its last words are above. Check that this machine is" \
      "Debian 12 and reaches a package mirror, then run this again."
  fi
  say "done after ${SECONDS} s"
}

main "$@"
