"""Arguments of the wrong type: every public function names the argument."""

from __future__ import annotations

from inspect import Parameter, signature

import numpy as np
import pytest

import partage as pg
from partage.errors import InvalidConfigError
from partage.model.arguments import _allowed_types, check_argument_types

#: The functions of commands, of replays and of forecasts.
FUNCTIONS = [
    "audit", "capture_cluster", "check_access", "check_run", "count_keys", "decide_streams",
    "decode", "describe_streams", "diff", "forecast", "live_groups", "measure_group", "migrate",
    "open_run", "owner", "reassign", "replay", "simulate_streams", "size", "watch_groups",
]  # fmt: skip
CLUSTER = pg.Cluster.from_topics({"t": 2})
GROUP = pg.Group([pg.Member("a", ["t"])])
PLAN = pg.assign("range", GROUP, CLUSTER)
JUNK = [object(), object, len, ..., 1 + 2j, {1: 2}, b"\xff", NotImplemented, slice(1)]
#: Values that belong to an annotation's first alternatives, for arguments without a default.
PLAIN = {"str": "x", "Run": "x", "ReplicaCluster": "x", "SimulatedApplication": "x",
         "Mapping[str, Any]": {}, "Any": None}  # fmt: skip


def arguments():
    for name in FUNCTIONS:
        for one in signature(getattr(pg, name)).parameters.values():
            if _allowed_types(str(one.annotation)):
                yield pytest.param(name, one.name, id=f"{name}-{one.name}")


@pytest.mark.parametrize(("name", "argument"), list(arguments()))
def test_a_value_of_another_type_is_named(name, argument) -> None:
    """None of these values is of any annotation that is checked, or the function itself objects."""
    function = getattr(pg, name)
    parameters = signature(function).parameters.values()
    needed = {
        one.name: PLAIN[str(one.annotation).split(" |")[0]]
        for one in parameters
        if one.default is Parameter.empty
    }
    kinds = _allowed_types(str(signature(function).parameters[argument].annotation))
    tried = 0
    for value in JUNK:
        if any(kind.accepts(value) for kind in kinds):
            continue
        tried += 1
        with pytest.raises(InvalidConfigError) as raised:
            function(**{**needed, argument: value})
        assert raised.value.setting == argument
    assert tried >= 5


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        ("int", [0, -1, 2**70], [True, 1.0, "1", None, float("nan")]),
        ("float", [0, 1.5, 10**300, float("inf")], [10**400, float("nan"), False, "1", None, [1]]),
        ("float | tuple[float, float]", [1, (1, 2.5)], [(1,), (1, 2, 3), ("a", "b"), {}]),
        ("Mapping[str, int] | None", [{}, {"a": 1}, None], [{1: 1}, {"a": "b"}, [], "a"]),
        ("Sequence[str] | str", [[], ["a"], ("a",), {"a"}, "a"], [[1], 3, None, {"a": 1}]),
        ("Sequence[Sequence[str]]", [[["a", "b"]], []], [[1], 3, [[1]]]),
        ("Callable[[str, int], None] | None", [len, None], ["len", 3, []]),
        ("str | Path", ["a"], [3, b"a", None, ["a"]]),
        ("SparkSession | None", [None, object(), 3], []),
    ],
)
def test_the_alternatives_of_an_annotation(annotation, good, bad) -> None:
    """Each value is accepted by one alternative, or by none."""

    def function(value):
        return value

    function.__annotations__["value"] = annotation
    call = check_argument_types(function)
    for value in good:
        assert call(value) is value
    for value in bad:
        with pytest.raises(InvalidConfigError, match="setting value: must be"):
            call(value)


@pytest.mark.parametrize(
    "call",
    [
        lambda config: pg.assign("range", GROUP, CLUSTER, config=config),
        lambda config: pg.compare(GROUP, CLUSTER, config=config),
        lambda config: pg.partition_for(["a"], partitions=3, configs=config),
        lambda config: pg.live_groups("localhost:1", properties={**config, "linger.ms": 5}),
        lambda config: pg.check_access("localhost:1", properties={**config, "linger.ms": 5}),
    ],
)
@pytest.mark.parametrize("name", ["sasl.password", "sasl.jaas.config", "ssl.keystore.key"])
def test_no_message_has_a_secret_of_the_settings(call, name) -> None:
    """A whole client's configuration may be given where settings are wanted."""
    with pytest.raises(InvalidConfigError) as raised:
        call({name: "hunter2-and-more"})
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: pg.measure(PLAN, GROUP, CLUSTER, partition_weight={}), "partition_weight"),
        (lambda: pg.measure(PLAN, GROUP, CLUSTER, partition_weight=["a"]), "partition_weight"),
        (lambda: pg.measure(PLAN, GROUP, CLUSTER, optimum=np.ones(2)), "optimum"),
        (lambda: pg.assign("range", GROUP, CLUSTER, config=np.ones(2)), "config"),
        (lambda: pg.compare(GROUP, CLUSTER, optimum=np.ones(2)), "optimum"),
        (lambda: pg.partition_for(["a"], partitions=3, configs=5), "configs"),
        (lambda: pg.partition_for(["a"], partitions=3, explicit=len), "explicit"),
    ],
)
def test_a_wrong_argument_of_a_decision_is_named(call, argument) -> None:
    """Arrays in place of switches and settings, and values that are no numbers."""
    with pytest.raises(pg.PartageError, match=argument):
        call()
