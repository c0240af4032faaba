#!/usr/bin/env bash
# Puts Kafka's own jars into jvm/target/lib and our parity programs into jvm/target/classes.
# A second call is instant. Exit 3 means that something is missing on this machine: the last
# line on stderr names it, and tests skip with it. Any other failure is a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../jvm"

missing() { echo "$1" >&2; exit 3; }

fresh() {
    [ -f target/.stamp ] && [ -d target/lib ] \
        && [ -z "$(find pom.xml src partage-assignors/src -newer target/.stamp -print -quit 2>/dev/null)" ]
}

fresh && exit 0
mkdir -p target
# Two test runs may ask at once; the second waits for the first and finds its work done.
# (flock is Linux's; elsewhere two builds at once are merely wasteful.)
if command -v flock >/dev/null; then
    exec 9>target/.lock
    flock 9
    fresh && exit 0
fi

../tools/check-java.sh || exit 3
if [ -n "${JAVA_HOME:-}" ]; then javac="$JAVA_HOME/bin/javac"; else javac=javac; fi
command -v "$javac" >/dev/null || missing "no javac: install a JDK 17, not only a JRE"
if command -v mvn >/dev/null; then maven=mvn
elif [ -n "${MVNW_REPOURL:-}" ]; then maven=./mvnw
else missing "no Maven: install it, or set MVNW_REPOURL to a Maven repository for jvm/mvnw"
fi

# One second earlier than the build, so that a file edited meanwhile is newer.
touch target/.started
# The old classes go: a program that was renamed must not live on.
rm -rf target/classes target/maven-status
if ! "$maven" -q -B process-classes >target/build.log 2>&1; then
    cat target/build.log >&2
    if grep -qE 'Could not (transfer|resolve)|Unknown host|Cannot access|Failed to fetch|failed to fetch|unable to resolve' target/build.log; then
        missing "no network: Maven could not fetch Kafka's jars"
    fi
    exit 1
fi
mv target/.started target/.stamp
