"""Shell scripts that execute a plan with Kafka's own tools, batch by batch, or roll it back."""

from __future__ import annotations

__all__ = ["execution_scripts"]

_HEAD = """#!/bin/sh
# {what}
#   BOOTSTRAP=broker:9092 sh {name}
# KAFKA: the folder with kafka-reassign-partitions.sh, if it is not on the path; OPTIONS: more for
# each tool, such as --command-config client.properties.
set -eu
cd "$(dirname "$0")"
: "${{BOOTSTRAP:?name a broker, host:port}}"

tool() {{
    name=$1; shift
    "${{KAFKA:+$KAFKA/}}$name" --bootstrap-server "$BOOTSTRAP" ${{OPTIONS:-}} "$@"
}}

# Once nothing is in progress any more, --verify also lifts the throttle. To stop in the middle:
# kafka-reassign-partitions.sh --cancel with the batch that is under way, then rollback.sh.
batch() {{
    echo "$1"
    tool kafka-reassign-partitions.sh --reassignment-json-file "$1" --execute{throttle}
    while :; do
        said=$(tool kafka-reassign-partitions.sh --reassignment-json-file "$1" --verify)
        case $said in
            *" is still in progress."*) sleep "${{PAUSE:-5}}" ;;
            *) break ;;
        esac
    done
    echo "$said"
    # The tool's own sentences; what topics are called does not matter, as names have no spaces.
    if wrong=$(echo "$said" | grep -e "^Error" -e "^There is no active reassignment of " \\
        -e "^Partition [^ ]* .*live log dir" -e "^Partition [^ ]* .*is not being moved"); then
        echo "stopped at $1: $wrong" >&2
        exit 1
    fi
}}

"""
_ELECT = """
tool kafka-leader-election.sh --election-type preferred --path-to-json-file election.json
"""


def execution_scripts(throttle: int | None, *, elect: bool) -> dict[str, str]:
    """Return shell scripts that execute a reassignment plan, batch by batch, with Kafka's tools.

    The script ``execute.sh`` runs the batches, ``rollback.sh`` undoes them. The result is a dict
    from file name to text. The scripts read the batches from files in their folder.

    Args:
        throttle: bytes per second that each broker may copy; None for no limit.
        elect: whether the scripts end with a preferred leader election.

    >>> "--throttle 5" in execution_scripts(5, elect=False)["execute.sh"]
    True
    """
    option = ""
    if throttle is not None:
        option = f" \\\n        --throttle {throttle} --replica-alter-log-dirs-throttle {throttle}"
    there = _HEAD.format(
        what="Executes the batches one after another.", name="execute.sh", throttle=option
    )
    back = _HEAD.format(
        what="Takes the batches back, the last one first: so there is room.",
        name="rollback.sh", throttle=option,
    )  # fmt: skip
    return {
        "execute.sh": there
        + 'for one in batch-*.json; do if [ -e "$one" ]; then batch "$one"; fi; done\n'
        + (_ELECT if elect else ""),
        "rollback.sh": back
        + 'for one in $(ls -r rollback-*.json 2>/dev/null); do batch "$one"; done\n'
        + (_ELECT if elect else ""),
    }
