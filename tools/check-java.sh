#!/usr/bin/env bash
# One sentence and exit 1 unless Java 17 or later is there; JAVA_HOME goes before the PATH, as in Spark.
set -euo pipefail
if [ -n "${JAVA_HOME:-}" ]; then
    java="$JAVA_HOME/bin/java"
    where="JAVA_HOME ($JAVA_HOME)"
else
    java=java
    where="your PATH"
fi
advice="install Java 17 (for example: apt-get install openjdk-17-jdk-headless, or brew install openjdk@17)"
if ! command -v "$java" >/dev/null 2>&1 || ! said=$("$java" -version 2>&1); then
    echo "No Java found in $where: $advice." >&2
    exit 1
fi
# 'openjdk version "17.0.15"', and before Java 9 'java version "1.8.0_402"'.
version=$(sed -n 's/.* version "\([^"]*\)".*/\1/p' <<<"$said" | head -n 1)
major=${version#1.}
major=${major%%[!0-9]*}
if [ "${major:-0}" -lt 17 ]; then
    echo "Java ${version:-of unknown version} in $where is too old: $advice." >&2
    exit 1
fi
