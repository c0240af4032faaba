from __future__ import annotations

import pytest
from tests.support.simulated_histories import pickled

from partage.errors import InvalidConfigError, UnknownStrategyError
from partage.groups import registry
from partage.simulation.policies import DEFAULT_POLICIES, Policy, default_policies


@pytest.mark.parametrize(
    ("text", "name", "strategy"),
    [
        ("range", "eager/range", "range"),
        ("eager/range+static", "eager/range+static", "range"),
        ("sticky", "eager/sticky", "sticky"),
        ("cooperative-sticky", "cooperative/cooperative-sticky", "cooperative-sticky"),
        ("eager/cooperative-sticky", "eager/cooperative-sticky", "cooperative-sticky"),
        ("server:uniform", "consumer/uniform", "server:uniform"),
        ("consumer/server:range", "consumer/range", "server:range"),
        ("optimal", "cooperative/optimal", "optimal"),
        ("consumer/optimal", "consumer/optimal", "optimal"),
        ("range+timeout=30s+static", "eager/range+static+timeout=30s", "range"),
        ("range+timeout=2m", "eager/range+timeout=120s", "range"),
        ("range+timeout=1500ms", "eager/range+timeout=1500ms", "range"),
        ("librdkafka:range", "eager/librdkafka:range", "librdkafka:range"),
    ],
)
def test_a_name_is_read_and_written_canonically(text, name, strategy) -> None:
    """Any spelling leads to one policy with one name, and that name leads back to it."""
    policy = Policy.parse(text)
    assert (policy.name, policy.strategy.name) == (name, strategy)
    assert Policy.parse(policy.name).name == name


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("eager/rnage", UnknownStrategyError, "did you mean eager/range"),
        ("rnage", UnknownStrategyError, "did you mean range"),
        ("cooperative/cooperativesticky", UnknownStrategyError, "cooperative/cooperative-sticky"),
        ("consumer/unifrom", UnknownStrategyError, "did you mean consumer/uniform"),
        ("eagr/range", InvalidConfigError, "no protocol 'eagr'; did you mean eager?"),
        ("cooperative/range", InvalidConfigError, "range is not cooperative: say eager/range"),
        ("eager/server:uniform", InvalidConfigError, "say consumer/uniform"),
        ("consumer/sticky", InvalidConfigError, "sticky cannot decide in the coordinator"),
        ("server:simple", InvalidConfigError, "for share groups"),
        ("range+sttaic", InvalidConfigError, "did you mean static?"),
        ("range+timeout", InvalidConfigError, "timeout= is no duration"),
        ("range+timeout=0s", InvalidConfigError, "timeout=0s is no duration"),
        ("range+timeout=-1s", InvalidConfigError, "is no duration"),
        ("range+timeout=99999999m", InvalidConfigError, "is no duration"),
        ("", UnknownStrategyError, "no strategy named ''"),
    ],
)
def test_an_impossible_policy_is_reported_with_possible_ones(text, error, words) -> None:
    """A misspelt or impossible policy is an error that names the nearest that works."""
    with pytest.raises(error) as e:
        Policy.parse(text)
    assert words in str(e.value)


def test_the_default_policies_are_canonical_and_travel() -> None:
    """What replay takes by default has canonical names, all different, and can be pickled."""
    made = default_policies()
    assert [p.name for p in made] == list(DEFAULT_POLICIES)
    assert len(set(DEFAULT_POLICIES)) == len(DEFAULT_POLICIES)
    assert [p.name for p in pickled(made)] == list(DEFAULT_POLICIES)


def test_a_strategy_is_a_policy_by_its_preferred_protocol() -> None:
    """A strategy given as a value, of a plug-in for one, needs no name of a policy."""
    assert Policy.of(registry.find("cooperative-sticky")).cooperative
    assert Policy.of(Policy.parse("range")).eager
    assert Policy.of("own").strategy is None
