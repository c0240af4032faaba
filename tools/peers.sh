#!/usr/bin/env bash
# Puts the other clients, whose assignors are oracles, into an environment of their own:
# .tools/peers, so that their versions bind nobody. A second call is instant.
# Exit 3 means that they cannot be installed here: the last line on stderr says what is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

wanted="kafka-python==3.0.12 aiokafka==0.14.0 confluent-kafka==2.16.1"
home=.tools/peers
missing() { echo "$1" >&2; exit 3; }
ready() { [ "$(cat "$home/.ready" 2>/dev/null)" = "$wanted" ]; }

ready && exit 0
mkdir -p .tools
# Two test runs may ask at once; the second waits for the first and finds its work done.
if command -v flock >/dev/null; then
    exec 9>.tools/peers.lock
    flock 9
    ready && exit 0
fi
python=.venv/bin/python
[ -x "$python" ] || python=python3
rm -rf "$home"
"$python" -m venv --without-pip "$home" >&2 || missing "Python's venv is missing: no environment for kafka-python, aiokafka, confluent-kafka"
# uv does not read pip's configuration, so pip is second. $wanted is a list of words.
# shellcheck disable=SC2086
.venv/bin/uv pip install --quiet --python "$home/bin/python" $wanted >&2 \
    || "$python" -m pip --python "$home/bin/python" install --quiet --disable-pip-version-check $wanted >&2 \
    || missing "cannot install $wanted (no network, or no wheels for this Python)"
echo "$wanted" >"$home/.ready"
