#!/usr/bin/env bash
# Puts a Kafka broker's jars into jvm/broker/target/VERSION/lib (4.3.1 unless another version is given).
# A second call is instant. Exit 3 means that something is missing on this machine: the last
# line on stderr names it, and tests skip with it. Any other failure is a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../jvm/broker"
version="${1:-4.3.1}"

missing() { echo "$1" >&2; exit 3; }

fresh() { [ -f "target/$version/.stamp" ] && [ ! pom.xml -nt "target/$version/.stamp" ]; }

fresh && exit 0
mkdir -p "target/$version"
# Two test runs may ask at once; the second waits for the first and finds its work done.
if command -v flock >/dev/null; then
    exec 9>"target/$version/.lock"
    flock 9
    fresh && exit 0
fi

../../tools/check-java.sh || exit 3
if command -v mvn >/dev/null; then maven=mvn
elif [ -n "${MVNW_REPOURL:-}" ]; then maven=../mvnw
else missing "no Maven: install it, or set MVNW_REPOURL to a Maven repository for jvm/mvnw"
fi

rm -rf "target/$version/lib"
if ! "$maven" -q -B "-Dkafka.version=$version" process-resources >"target/$version/build.log" 2>&1; then
    cat "target/$version/build.log" >&2
    if grep -qE 'Could not (transfer|resolve)|Unknown host|Cannot access|Failed to fetch|failed to fetch|unable to resolve' "target/$version/build.log"; then
        missing "no network: Maven could not fetch the jars of Kafka $version"
    fi
    exit 1
fi
touch "target/$version/.stamp"
