#!/usr/bin/env bash
# Makes the TypeScript client of the tree in a folder of its own: nothing is written into the tree.
#
#   prepare.sh WORK      WORK/client/typescript is then built, with its tests and examples
#
# Only where something has changed since the last time; npm's packages only where the lock file has.
set -euo pipefail
work=${1:?usage: prepare.sh WORK}
root=$(cd "$(dirname "$0")/../../.." && pwd)
package=$work/client/typescript

mkdir -p "$package"
exec 9>"$work/lock"
flock 9

sources=(client/contracts client/service_config.json protos)
for entry in "$root"/client/typescript/*; do
  name=$(basename "$entry")
  case $name in
    node_modules | dist | dist-test | *.tgz) ;;
    *) sources+=("client/typescript/$name") ;;
  esac
done
state() {
  node --version
  cd "$root"
  find "${sources[@]}" -path client/typescript/src/gen -prune -o -type f -print0 | sort -z | xargs -0 sha256sum
}
state >"$work/now"
if cmp --quiet "$work/now" "$work/built"; then exit 0; fi

rm -rf "$work/built" "$work/protos" "$work/client/contracts" "$work/client/service_config.json"
find "$package" -mindepth 1 -maxdepth 1 ! -name node_modules -exec rm -rf {} +
(cd "$root" && cp -r --parents "${sources[@]}" "$work")
rm -rf "$package/src/gen"

cd "$package"
installed=node_modules/.installed
if ! cmp --quiet package-lock.json "$installed"; then
  npm ci --ignore-scripts --no-audit --no-fund
  cp package-lock.json "$installed"
fi
npm run --silent build
node_modules/.bin/tsc -p tsconfig.test.json
mv "$work/now" "$work/built"
