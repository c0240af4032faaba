#!/usr/bin/env bash
# Builds jvm/partage-assignors/target/partage-assignors-VERSION.jar, and prints its path.
# A second call is instant. Exit 3 means that something is missing on this machine: the last
# line on stderr names it, and tests skip with it. Any other failure is a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../jvm/partage-assignors"

missing() { echo "$1" >&2; exit 3; }

fresh() {
    [ -f target/.stamp ] && [ -z "$(find pom.xml src -newer target/.stamp -print -quit)" ]
}

built() { echo "jvm/partage-assignors/$(ls target/partage-assignors-*.jar)"; }

if fresh; then built; exit 0; fi
mkdir -p target
# Two builds may start at once; the second waits for the first and finds its work done.
if command -v flock >/dev/null; then
    exec 9>target/.lock
    flock 9
    if fresh; then built; exit 0; fi
fi

../../tools/check-java.sh || exit 3
if command -v mvn >/dev/null; then maven=mvn
elif [ -n "${MVNW_REPOURL:-}" ]; then maven=../mvnw
else missing "no Maven: install it, or set MVNW_REPOURL to a Maven repository for jvm/mvnw"
fi

touch target/.started
rm -rf target/classes target/maven-status target/partage-assignors-*.jar
if ! "$maven" -q -B package >target/build.log 2>&1; then
    cat target/build.log >&2
    if grep -qE 'Could not (transfer|resolve)|Unknown host|Cannot access|Failed to fetch|failed to fetch|unable to resolve' target/build.log; then
        missing "no network: Maven could not fetch Kafka's jars"
    fi
    exit 1
fi
mv target/.started target/.stamp
built
