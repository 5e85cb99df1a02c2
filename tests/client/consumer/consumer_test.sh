#!/usr/bin/env bash
# The client library as a stranger gets it: installed, moved elsewhere, found by CMake and by
# pkg-config, and configured where there is no RocksDB.
#
# IDEMPOTENCYD names the release binary; the build directory that it is in is what is installed.
set -euo pipefail
: "${IDEMPOTENCYD:?set it to the release binary; tests/run.sh does}"
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../../.." && pwd)
build=$(cd "$(dirname "$IDEMPOTENCYD")/.." && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "consumer_test: $*" >&2
  exit 1
}
quietly() {
  if ! "$@" >"$work/log" 2>&1; then
    cat "$work/log"
    fail "failed: $*"
  fi
}

quietly cmake --install "$build" --prefix "$work/installed"
mv "$work/installed" "$work/moved"
! grep -rqF "$source" "$work/moved/lib/cmake" "$work/moved/lib/pkgconfig" ||
  fail "what is installed names the folder that it was built from"

# By CMake.
cp -R "$here/project" "$work/project"
quietly cmake -G Ninja -S "$work/project" -B "$work/project/build" \
  -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0
quietly cmake --build "$work/project/build"
quietly "$work/project/build/consumer"
quietly "$work/project/build/mock_consumer"
sed -i 's/find_package(idempotency 0.1/find_package(idempotency 0.2/' "$work/project/CMakeLists.txt"
! cmake -S "$work/project" -B "$work/project/other" -DCMAKE_PREFIX_PATH="$work/moved" \
  >"$work/log" 2>&1 || fail "another minor version was accepted"

# By pkg-config.
export PKG_CONFIG_PATH=$work/moved/lib/pkgconfig
read -r -a flags <<<"$(pkg-config --cflags --libs idempotency)"
quietly c++ -std=c++20 -O0 -o "$work/by_pkg_config" "$here/project/consumer.cc" "${flags[@]}"
quietly "$work/by_pkg_config"

# Whoever calls Run sees neither gRPC nor Protocol Buffers.
echo '#include "idempotency/client.h"' >"$work/run.cc"
c++ -std=c++20 -I "$work/moved/include" -E "$work/run.cc" >"$work/run.ii"
! grep -qE 'grpcpp/|google/protobuf/|\.pb\.h' "$work/run.ii" ||
  fail "idempotency/client.h includes gRPC or Protocol Buffers"

# Without RocksDB the client can be built all the same.
quietly cmake -G Ninja -S "$source" -B "$work/client_only" -DIDEMPOTENCY_BUILD_SERVICE=OFF \
  -DBUILD_TESTING=OFF -DCMAKE_DISABLE_FIND_PACKAGE_RocksDB=ON
quietly ninja -C "$work/client_only" -n idempotency_client idempotency_testing
! grep -qi rocksdb "$work/client_only/build.ninja" || fail "the client's build names RocksDB"
echo "consumer_test: passed"
