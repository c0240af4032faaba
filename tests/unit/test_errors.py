"""Errors as values: shown whatever they hold, and the same on the other side of a pickle."""

from __future__ import annotations

import pickle

import pytest

from partage import errors
from partage.wire import errors as wire_errors

ERRORS = [
    errors.PartageError("x"),
    errors.InvalidProblemError("is wrong", path="topics.t", value=[1]),
    errors.UnknownStrategyError("rnage", known=["range"], close=["range"]),
    errors.InvalidConfigError("priority", "must be an int32", "high"),
    errors.WireFormatError("2 bytes needed", offset=4, field="value.x", version=3),
    errors.PlanInvariantError(["one", "two"]),
    errors.MissingExtraError("pyspark", extra="spark"),
    errors.InvalidCaptureError("no such folder"),
    wire_errors.TruncatedError("2 bytes needed", offset=4, field="value.x"),
    wire_errors.UnknownRecordTypeError(99),
    wire_errors.UnknownRecordVersionError(3, 7),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_a_pickle(error) -> None:
    """A pool of processes sends its errors pickled: same class, same text, same pieces."""
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(again) is type(error)
    assert (str(again), repr(again), again.args) == (str(error), repr(error), error.args)
    for name in ("what", "offset", "field", "version", "path", "value", "type", "breaches"):
        assert getattr(again, name, None) == getattr(error, name, None)


def test_a_value_that_cannot_be_shown_is_named_by_its_type() -> None:
    """Python refuses to print an int of 5,000 digits, and lists in lists a thousand deep."""
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    for value in (10**5000, deep):
        message = str(errors.InvalidProblemError("is wrong", path="t", value=value))
        assert (
            message == f"t: is wrong, got a value of type {type(value).__name__} too large to show"
        )
