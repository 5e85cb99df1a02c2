#!/usr/bin/env bash
# The Go module: generated, compiled in module mode, and run against the real service.
#
#   lifecycle_test.sh WORK        WORK keeps Go's build cache
#
# Modules come from Debian's packages, through a vendor folder that is made of them here.
set -euo pipefail
work=${1:?usage: lifecycle_test.sh WORK}
root=$(cd "$(dirname "$0")/../../.." && pwd)
readonly GOCODE=/usr/share/gocode
export CGO_ENABLED=0 GOCACHE=$work/cache GOFLAGS=-mod=vendor GOPROXY=off GOTOOLCHAIN=local GOPATH=$work/gopath

command -v protoc-gen-go-grpc >/dev/null || {
  echo "protoc-gen-go-grpc is missing: deploy/install_deps.sh test"
  exit 1
}
module=$work/module
rm -rf "$module"
mkdir -p "$module"
cp -r "$root/client/go/." "$module"
protoc -I"$root/protos" --go_out="$module" --go_opt=module=idempotencyd.dev/go \
  --go-grpc_out="$module" --go-grpc_opt=module=idempotencyd.dev/go "$root"/protos/idempotency/v1/*.proto

# The packages that are needed, and the modules of go.mod that they are said to belong to.
make_vendor() {
  local gopath=$work/gopath package
  mkdir -p "$gopath/src/idempotencyd.dev"
  ln -sfn "$module" "$gopath/src/idempotencyd.dev/go"
  (cd "$gopath/src/idempotencyd.dev/go" &&
    GO111MODULE=off GOFLAGS='' GOPATH=$gopath:$GOCODE go list -deps ./...) |
    grep -E '^(google\.golang\.org|golang\.org|github\.com)/' >"$work/packages"
  while read -r package; do
    mkdir -p "$module/vendor/$package"
    find "$GOCODE/src/$package" -maxdepth 1 -type f \( -name '*.go' -o -name '*.s' -o -name '*.h' \) \
      ! -name '*_test.go' -exec cp -t "$module/vendor/$package" {} +
  done <"$work/packages"
  local name version
  sed -n 's/^\t\([^ ]*\) \(v[^ ]*\).*/\1 \2/p' "$module/go.mod" >"$work/modules"
  while read -r name version; do
    printf '# %s %s\n## explicit; go 1.19\n' "$name" "$version"
    grep -E "^$name(/|$)" "$work/packages" || true
  done <"$work/modules" >"$module/vendor/modules.txt"
}
make_vendor

# What Debian's grpc-go needs besides is no requirement of ours.
printf '\nrequire (\n' >>"$module/go.mod"
while read -r package; do
  case $package in
    google.golang.org/grpc* | google.golang.org/protobuf*) continue ;;
    golang.org/* | github.com/*) name=$(echo "$package" | cut -d/ -f1-3) ;;
    *) name=$(echo "$package" | cut -d/ -f1-2) ;;
  esac
  echo "$name"
done <"$work/packages" | sort -u >"$work/further"
while read -r name; do
  printf '\t%s v0.0.0-00010101000000-000000000000 // indirect\n' "$name" >>"$module/go.mod"
  printf '# %s v0.0.0-00010101000000-000000000000\n## explicit; go 1.19\n' "$name"
  grep -E "^$name(/|$)" "$work/packages"
done <"$work/further" >>"$module/vendor/modules.txt"
printf ')\n' >>"$module/go.mod"

(cd "$module" && go vet ./example/... && go build -o "$work/lifecycle" ./example/lifecycle)
exec "$root/tests/client/with_service.sh" "$work/lifecycle" -target=TARGET \
  "-service_config=$root/client/service_config.json"
