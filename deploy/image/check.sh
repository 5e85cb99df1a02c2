#!/usr/bin/env bash
# Builds the image without a registry and runs it as the manifests would. See --help.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<'TEXT'
usage: deploy/image/check.sh [--binaries=DIR] [--directory=DIR] [--keep]

Makes a Debian base with debootstrap, builds deploy/image/Dockerfile on it with buildah, and runs the
image with podman under what the overlay `single` says: its arguments, user, memory limit, read-only
root, no capabilities, volumes. tests/deploy/image_test.py says what is looked at. Needs root, and
what `deploy/install_deps.sh image` installs. Building takes minutes, the first time most of all: the
base and the compiler's cache stay in DIR (default: /var/tmp/idempotencyd-image), outside of which
nothing is stored. --keep leaves the image there, too.

--binaries=DIR takes those (build/release/bin) instead of compiling them: everything else is as it
will be.
TEXT
}

directory=/var/tmp/idempotencyd-image
keep=no
binaries=
for argument in "$@"; do
  case "$argument" in
    -h | --help)
      usage
      exit 0
      ;;
    --directory=*) directory=${argument#*=} ;;
    --keep) keep=yes ;;
    --binaries=*) binaries=$(realpath "${argument#*=}") ;;
    *)
      usage >&2
      exit 2
      ;;
  esac
done

say() { printf '\n==> [%4d s] %s\n' "$SECONDS" "$*"; }
die() {
  printf 'check.sh: %s\n' "$*" >&2
  exit 1
}

[ "$(id -u)" -eq 0 ] || die "needs root, for debootstrap and for containers"
for tool in buildah podman runc debootstrap kubectl node; do
  command -v "$tool" >/dev/null || die "$tool is missing: run deploy/install_deps.sh image, then deploy/install_deps.sh test"
done

mkdir -p "$directory/root" "$directory/run" "$directory/tmp"
# Storage of our own: what the machine has of images and containers is neither used nor touched.
cat >"$directory/storage.conf" <<TOML
[storage]
driver = "overlay"
graphroot = "$directory/root"
runroot = "$directory/run"
TOML
export CONTAINERS_STORAGE_CONF=$directory/storage.conf STORAGE_DRIVER=overlay TMPDIR=$directory/tmp
export BUILDAH_ISOLATION=chroot
readonly base=localhost/debian:bookworm image=localhost/idempotencyd:check

make_base() {
  if [ ! -e "$directory/base.tar" ]; then
    say "The base: debootstrap"
    rm -rf "$directory/base"
    debootstrap --variant=minbase bookworm "$directory/base" >"$directory/log" ||
      die "debootstrap failed: $directory/log"
    echo 'deb http://deb.debian.org/debian-security bookworm-security main' \
      >>"$directory/base/etc/apt/sources.list"
    # What Debian's slim images leave out, too.
    rm -rf "$directory/base"/usr/share/{doc,info,locale,man}/* "$directory/base"/var/cache/apt/archives/*.deb
    tar -C "$directory/base" -cf "$directory/base.tar" .
    rm -rf "$directory/base"
  fi
  local container
  container=$(buildah from scratch)
  buildah add --quiet "$container" "$directory/base.tar" / >/dev/null
  buildah commit --quiet --rm "$container" "$base" >/dev/null
}

# What is built from, and by which file.
context=.
recipe=deploy/image/Dockerfile
ignore=(--ignorefile deploy/image/Dockerfile.dockerignore)
take_binaries() {
  context=$directory/context recipe=$directory/Dockerfile ignore=()
  rm -rf "$context"
  mkdir -p "$context/deploy" "$context/bin"
  cp deploy/install_deps.sh "$context/deploy"
  cp "$binaries/idempotencyd" "$binaries/idempotencyctl" "$context/bin"
  # In the place of what compiles and ends with strip.
  sed '/^RUN --mount=type=cache/,/ strip /c COPY bin build/release/bin' deploy/image/Dockerfile >"$recipe"
  grep -q '^COPY bin' "$recipe" || die "nothing in deploy/image/Dockerfile looks like the compilation"
}

build() {
  say "The image: buildah"
  buildah bud --quiet --network=host --build-arg "BASE=$base" --tag "$image" \
    "${ignore[@]}" --file "$recipe" "$context" \
    >"$directory/log" 2>&1 || {
    tail -n 40 "$directory/log" >&2
    die "the build failed; all it said is in $directory/log"
  }
  printf 'size: %d MiB\n' "$(($(podman image inspect --format '{{.Size}}' "$image") >> 20))"
}

buildah inspect --type image "$base" >/dev/null 2>&1 || make_base
[ -z "$binaries" ] || take_binaries
build
say "Running it: tests/deploy/image_test.py"
status=0
IMAGE=$image IMAGE_DIRECTORY=$directory python3 tests/deploy/image_test.py || status=$?
[ "$keep" = yes ] || buildah rmi "$image" >/dev/null || true
say "Done"
exit "$status"
