#!/usr/bin/env bash
# Installs, from Debian 12's own packages and npm's, what building and testing needs. See --help.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: deploy/install_deps.sh [build|test|bench|image]

Installs with apt what is missing, and only that; prints nothing where nothing is.

  build   what building idempotencyd and idempotencyctl needs (the default)
  test    build, and what tests/run.sh needs besides, npm's packages in folders of tests among it;
          tests start a Prometheus, an etcd and a PostgreSQL of their own (where systemd runs, Debian
          starts those as well: systemctl disable --now prometheus etcd postgresql). One thing Debian
          has too old: without kubectl 1.22 or newer the test of the Kubernetes manifests is skipped
  bench   build, and what tests/bench compares with and measures by: Redis, PostgreSQL, etcd.
          Debian starts those as services; tests/bench runs its own and does not need them
  image   what deploy/image/check.sh builds and runs images with, besides test

Works as root, or as a user with sudo. For Debian 12 (bookworm).
TEXT
}

readonly BUILD_PACKAGES=(
  g++ cmake ninja-build ccache pkg-config
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  librocksdb-dev libabsl-dev libyaml-cpp-dev libspdlog-dev libcli11-dev libssl-dev zlib1g-dev
  nlohmann-json3-dev prometheus-cpp-dev libcivetweb-dev libpq-dev
)
readonly TEST_PACKAGES=(
  clang-14 libclang-rt-14-dev lld-14 llvm-14 clang-format-14
  libgtest-dev libgmock-dev python3 shellcheck spin valgrind e2fsprogs mount
  python3-grpcio python3-protobuf python3-venv python3-pip python3-setuptools python3-wheel mypy
  prometheus etcd-server postgresql-15
  golang-go golang-google-grpc-dev golang-github-golang-protobuf-1-5-dev protoc-gen-go
  protoc-gen-go-grpc
  openjdk-17-jdk-headless protobuf-compiler-grpc-java-plugin libgrpc-java libprotobuf-java
  libnetty-java libgoogle-gson-java libgeronimo-annotation-1.3-spec-java libguava-java
  libperfmark-java
)
# What these lock, each in its own node_modules.
readonly TEST_NODE_FOLDERS=(tests/deploy/schemas)
readonly IMAGE_PACKAGES=(buildah podman runc debootstrap)
readonly BENCH_PACKAGES=(
  redis-server postgresql-15 libpq-dev etcd-server libbenchmark-dev valgrind python3
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

install_debian_packages() {
  local wanted=("$@")
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

# As root or not: it writes into this tree alone.
install_node_packages() {
  local folder lock installed
  for folder in "${TEST_NODE_FOLDERS[@]}"; do
    folder=$(dirname "$0")/../$folder
    lock=$folder/package-lock.json installed=$folder/node_modules/.installed
    [ -f "$lock" ] || continue
    [ ! -f "$installed" ] || [ "$(<"$lock")" != "$(<"$installed")" ] || continue
    say "installing with npm: what $lock names"
    (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund >&2) ||
      die "npm could not install it; run this again where it reaches its registry"
    cat "$lock" >"$installed"
  done
}

main() {
  local wanted=("${BUILD_PACKAGES[@]}")
  case "${1:-build}" in
    build) ;;
    test)
      wanted+=("${TEST_PACKAGES[@]}")
      # Who has Node from elsewhere keeps it.
      command -v npm >/dev/null || wanted+=(nodejs npm)
      ;;
    bench) wanted+=("${BENCH_PACKAGES[@]}") ;;
    image) wanted+=("${IMAGE_PACKAGES[@]}") ;;
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

  install_debian_packages "${wanted[@]}"
  [ "${1:-build}" != test ] || install_node_packages
}

main "$@"
