#!/usr/bin/env bash
# Make the project-local environment .venv from Python >= 3.10 with pip; a second call is instant.
#   tools/setup.sh demo | run | test | soak | unit | coverage | docs | release
# PARTAGE_VENV names another folder for the environment (.ci/run builds the docs in one).
# What is installed, and in which version, stands in uv.lock; from which index is the
# person's own setting (PIP_INDEX_URL, UV_DEFAULT_INDEX, ...), the public one by default.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

uv_version=0.13.8
venv=${PARTAGE_VENV:-.venv}
what=$1
case "$what" in
    demo) wanted=(--extra fast --extra report --extra capture) ;;
    run)  wanted=(--extra spark --extra report --extra capture) ;;
    test) wanted=(--extra spark --extra report --extra capture --extra watch --extra delta --extra iceberg --group dev) ;;
    soak) wanted=(--extra spark --extra report --extra capture --extra watch --extra delta --extra iceberg --group dev --group soak) ;;
    unit) wanted=(--extra fast --extra report --extra capture --extra watch --group dev) ;;
    coverage) wanted=(--extra fast --extra report --extra capture --extra watch --group dev --group coverage) ;;
    docs) wanted=(--extra report --group docs) ;;
    release) wanted=(--group release) ;;
    *) echo "usage: tools/setup.sh demo|run|test|soak|unit|coverage|docs|release" >&2; exit 2 ;;
esac

stamp=$venv/.ready-$what
if [ -f "$stamp" ] && [ "$stamp" -nt uv.lock ] && [ "$stamp" -nt pyproject.toml ] \
        && [ "$stamp" -nt tools/setup.sh ]; then
    exit 0
fi

find_python() {
    local one
    for one in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.10 python; do
        if "$one" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$one"
            return
        fi
    done
    echo "No Python 3.10 or later on the PATH: install one (for example: apt-get install python3 python3-venv), or name it with PYTHON=..." >&2
    return 1
}

if [ ! -x "$venv/bin/python" ]; then
    python=$(find_python)
    echo "making $venv with $("$python" --version)"
    if ! "$python" -m venv "$venv"; then
        rm -rf "$venv"
        echo "Python's venv or pip is missing: install them (for example: apt-get install python3-venv python3-pip)." >&2
        exit 1
    fi
fi
if ! "$venv/bin/uv" --version 2>/dev/null | grep -q "^uv $uv_version"; then
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$uv_version"
fi

VIRTUAL_ENV=$(cd "$venv" && pwd)
export VIRTUAL_ENV
list=$venv/requirements-$what.txt
"$venv/bin/uv" export --frozen --quiet --no-header --no-annotate --no-emit-project \
    --format requirements-txt "${wanted[@]}" --output-file "$list" >/dev/null
large=; grep -q '^pyspark==' "$list" && large=" (Spark alone is about 450 MB)"
echo "installing $(grep -c '^[a-zA-Z]' "$list") packages as locked$large"
# uv does not read pip's configuration; where the index is set there, pip does the same, slower.
"$venv/bin/uv" pip install --quiet --require-hashes --requirements "$list" \
    || "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --require-hashes --no-deps --requirement "$list"
"$venv/bin/uv" pip install --quiet --no-deps --editable . \
    || "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --editable .
touch "$stamp"
