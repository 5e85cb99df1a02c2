#!/usr/bin/env bash
# The client library as a stranger gets it: installed, moved elsewhere, found by CMake and by
# pkg-config, and to be built where there is no RocksDB.
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

# Only the gRPC wrapper and what takes messages show gRPC and Protocol Buffers.
for header in $(cd "$work/moved/include" && ls idempotency/*.h idempotency/testing/*.h); do
  case $header in */grpc.h | */fingerprint_proto.h) continue ;; esac
  echo "#include \"$header\"" >"$work/header.cc"
  c++ -std=c++20 -I "$work/moved/include" -M "$work/header.cc" >"$work/seen"
  ! grep -qE 'grpcpp/|google/protobuf/|\.pb\.h' "$work/seen" ||
    fail "$header includes gRPC or Protocol Buffers"
done

# What is known of the providers is there for every language; the service takes what goes with it.
for contract in "$source"/client/contracts/*.json; do
  cmp -s "$contract" "$work/moved/share/idempotency/contracts/${contract##*/}" ||
    fail "not installed: $contract"
done
for policy in "$source"/deploy/contracts/*.yaml; do
  quietly "$IDEMPOTENCYD" --config="$policy" --check_config
done

# Without RocksDB the client is built all the same: from the sources, include folders and
# definitions that were compiled into what is installed here. And what was compiled has read nothing
# of RocksDB or of the service.
client_only=$work/client_only
quietly cmake -G Ninja -S "$source" -B "$client_only" -DIDEMPOTENCY_BUILD_SERVICE=OFF \
  -DBUILD_TESTING=OFF -DCMAKE_BUILD_TYPE=Release -DCMAKE_DISABLE_FIND_PACKAGE_RocksDB=ON
client=(idempotency_client idempotency_testing idempotencyctl)
inputs() {
  ninja -C "$1" -t commands "${client[@]}" | sed -n "s|$1|BUILD|g; / -c /p" | awk '{
      line = ""
      for (i = 2; i <= NF; i++)
        if (($i ~ /^-[DI]/ && $i != "-DNDEBUG") || $(i - 1) ~ /^-(isystem|c)$/) line = line " " $i
      print line
    }' | sort
}
inputs "$build" >"$work/inputs"
inputs "$client_only" >"$work/inputs_client_only"
[ "$(wc -l <"$work/inputs")" -gt 50 ] || fail "the client is built from nothing"
diff "$work/inputs" "$work/inputs_client_only" ||
  fail "without RocksDB the client is built in another way (above)"
quietly ninja -C "$client_only" -n "${client[@]}"
ninja -C "$build" -t deps | awk '
  /^[^ ]/ { ours = /^(client|protos)\// }
  ours && /^ / && /(^|\/)(rocksdb|keystore|service)\// { print; found = 1 }
  ours { seen = 1 }
  END { exit found || !seen }' >"$work/foreign" ||
  { cat "$work/foreign"; fail "the client has read what belongs to the service (above)"; }
! grep -q -- -Werror "$client_only/build.ninja" || fail "a stranger's build ends with a warning"
echo "consumer_test: passed"
