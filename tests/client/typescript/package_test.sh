#!/usr/bin/env bash
# Packs the TypeScript client, installs the package into an empty folder, and uses it there: with tsc
# under the strictest settings, and against the real service.
#
#   package_test.sh WORK      after prepare.sh WORK
set -euo pipefail
work=${1:?usage: package_test.sh WORK}
here=$(cd "$(dirname "$0")" && pwd)

clean=$(mktemp -d)
trap 'rm -rf "$clean"' EXIT

# What prepare.sh has built is what is packed.
(cd "$work/client/typescript" && npm pack --silent --ignore-scripts --pack-destination "$clean")
cd "$clean"
package=$(echo ./*.tgz)
tar -tzf "$package" | sort >contents
for needed in dist/index.js dist/index.d.ts dist/proto.d.ts dist/gen/contracts.js README.md LICENSE; do
  grep -qxF "package/$needed" contents || { echo "the package lacks $needed"; exit 1; }
done
if grep -Ev '^package/(dist/.*\.(js|d\.ts)|package\.json|README\.md|LICENSE)$' contents; then
  echo "the package has what does not belong into it: see above"
  exit 1
fi

cp "$here/consumer/"* .
types=$(node -p "require('$work/client/typescript/package.json').devDependencies['@types/node']")
npm install --prefer-offline --ignore-scripts --no-audit --no-fund "$package" "@types/node@$types"
"$work/client/typescript/node_modules/.bin/tsc" -p tsconfig.json

"$here/../with_service.sh" node consumer.js TARGET
