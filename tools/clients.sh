#!/usr/bin/env bash
# Puts Kafka clients of Python, one version each, into environments of their own, in which our
# plug-ins run against real brokers: .tools/clients/NAME, as locked in tools/clients/NAME.txt.
# nbconvert-7, polars-1 and opentelemetry-sdk-1 have libraries that a few soak tests need beside ours.
#   tools/clients.sh kafka-python-3.0.12 ...    a second call is instant
#   tools/clients.sh lock                       locks all anew from tools/clients/NAME.in
# Exit 3 means that one cannot be installed here: the last line on stderr says what is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

uv=.venv/bin/uv
missing() { echo "$1" >&2; exit 3; }

if [ "${1:-}" = lock ]; then
    for wanted in tools/clients/*.in; do
        "$uv" pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header \
            --no-annotate --no-emit-index-url "$wanted" --output-file "${wanted%.in}.txt"
    done
    exit 0
fi

python=.venv/bin/python
[ -x "$python" ] || python=python3
mkdir -p .tools/clients
# Two test runs may ask at once; the second waits for the first and finds its work done.
if command -v flock >/dev/null; then
    exec 9>.tools/clients/.lock
    flock 9
fi
for name in "$@"; do
    list=tools/clients/$name.txt
    home=.tools/clients/$name
    [ -f "$list" ] || { echo "no such client: $name (known: $(cd tools/clients && echo *.in))" >&2; exit 2; }
    if cmp -s "$list" "$home/.ready"; then continue; fi
    if [ "$name" = kafka-python-2.0.2 ] && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))'; then
        missing "kafka-python 2.0.2 runs on Python 3.11 and earlier only"
    fi
    rm -rf "$home"
    "$python" -m venv --without-pip "$home" >&2 || missing "Python's venv is missing: no environment for $name"
    # uv shares its files between environments; it does not read pip's configuration, so pip is second.
    "$uv" pip install --quiet --python "$home/bin/python" --require-hashes --requirements "$list" >&2 \
        || "$python" -m pip --python "$home/bin/python" install --quiet --disable-pip-version-check \
            --require-hashes --no-deps --requirement "$list" >&2 \
        || missing "cannot install $name (no network, or no wheels for this Python)"
    # Ours from the source, as it stands.
    site=$("$home/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    echo "$PWD/src" >"$site/partage-here.pth"
    cp "$list" "$home/.ready"
done
