"""Options of ``assignor("failover", priority=10)`` as settings of a strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partage.errors import InvalidConfigError
from partage.groups import registry
from partage.groups.api import Setting, Strategy

__all__ = ["configure_strategy"]

_PER_TOPIC = ".<topic>"


def configure_strategy(name: str, options: Mapping[str, Any]) -> Strategy:
    """Create an assignment strategy from its name and its options, such as ``priority=10``.

    An option is the last part of a setting's name: ``priority`` stands for
    ``assignment.consumer.priority``. ``priority_by_topic`` is a dict for the settings
    ``assignment.consumer.priority.<topic>``. Whole setting names work, too.

    Raises:
        UnknownStrategyError: no strategy has the name.
        InvalidConfigError: the strategy has no such option, or the value is wrong.

    >>> configure_strategy("failover", {"priority": 10, "preemption": False}).preemption
    False
    >>> configure_strategy("failover", {"prority": 10})
    Traceback (most recent call last):
    partage.errors.InvalidConfigError: setting prority: failover has no such option; ...
    """
    strategy = registry.find(name)
    known = _names(registry.settings_of(strategy))
    config: dict[str, object] = {}
    for option, value in options.items():
        key = known.get(option, option)
        if key not in known.values():
            names = ", ".join(one for one in known if "." not in one) or "none"
            what = f"{name} has no such option; it has {names}"
            raise InvalidConfigError(option, what, value)
        if not key.endswith(_PER_TOPIC):
            config[key] = value
        elif isinstance(value, Mapping):
            config |= {f"{key.removesuffix('<topic>')}{topic}": one for topic, one in value.items()}
        else:
            raise InvalidConfigError(option, "must map topics to values", value)
    return strategy.configure(config) if config else strategy


def _names(settings: tuple[Setting, ...]) -> dict[str, str]:
    # An option omits the first two words of the key.
    out: dict[str, str] = {}
    for one in settings:
        per_topic = one.key.endswith(_PER_TOPIC)
        words = one.key.removesuffix(_PER_TOPIC).split(".")
        short = "_".join(words[2:] or words[-1:])
        out[f"{short}_by_topic" if per_topic else short] = one.key
        out[one.key] = one.key
    return out
