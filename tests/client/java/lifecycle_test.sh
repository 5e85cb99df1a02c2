#!/usr/bin/env bash
# The Java caller: generated, compiled with Debian's grpc-java, and run against the real service.
#
#   lifecycle_test.sh WORK        WORK keeps the compiled generated code
set -euo pipefail
work=${1:?usage: lifecycle_test.sh WORK}
root=$(cd "$(dirname "$0")/../../.." && pwd)
readonly JARS=/usr/share/java

classpath=
for jar in grpc-api grpc-context grpc-core grpc-netty grpc-protobuf grpc-protobuf-lite grpc-stub \
  protobuf guava gson geronimo-annotation-1.3-spec jsr305 perfmark-api perfmark-impl netty-all \
  netty-buffer netty-codec netty-codec-http netty-codec-http2 netty-common netty-handler \
  netty-handler-proxy netty-resolver netty-transport netty-transport-native-unix-common \
  opencensus-api opencensus-impl-core; do
  [ ! -e "$JARS/$jar.jar" ] || classpath=$classpath:$JARS/$jar.jar
done
[[ $classpath == *grpc-netty* && $classpath == *netty-* ]] || {
  echo "Debian's grpc-java is missing: deploy/install_deps.sh test"
  exit 1
}

# Compiled anew only where the protos have changed.
known=$(cat "$root"/protos/idempotency/v1/*.proto | sha256sum)
if [ "$known" != "$(cat "$work/known" 2>/dev/null)" ]; then
  rm -rf "$work"
  mkdir -p "$work/src" "$work/api"
  protoc -I"$root/protos" --java_out="$work/src" --grpc-java_out="$work/src" \
    --plugin=protoc-gen-grpc-java=/usr/bin/grpc_java_plugin "$root"/protos/idempotency/v1/*.proto
  find "$work/src" -name '*.java' -exec javac -nowarn -d "$work/api" -cp "$classpath" {} +
  echo "$known" >"$work/known"
fi
rm -rf "$work/example"
mkdir "$work/example"
javac -Xlint:all -Werror -Xlint:-classfile -Xlint:-path -d "$work/example" -cp "$work/api$classpath" \
  "$root"/client/java/example/*.java
exec "$root/tests/client/with_service.sh" \
  java -cp "$work/example:$work/api$classpath" LifeCycle TARGET \
  "$root/client/service_config.json"
