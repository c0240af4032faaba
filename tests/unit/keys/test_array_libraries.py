"""`partition_for` on columns of pandas, polars, and objects with the Arrow PyCapsule interface."""

from __future__ import annotations

import pytest

import partage as pg

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

KEYS = ["foobar", None, "21", "user-1"]
#: Partitions of `KEYS` among 10.
PLACED = [one if key is not None else None
          for key, one in zip(KEYS, pg.partition_for(KEYS, partitions=10).tolist(), strict=True)]  # fmt: skip


@pytest.mark.parametrize(
    "keys",
    [
        pd.Series(KEYS),
        pd.Series([None if key is None else key.encode() for key in KEYS]),
        pd.Series(KEYS, dtype="string"),
        pd.Series(KEYS, dtype="category"),
        pd.Series(KEYS, dtype=pd.ArrowDtype(pa.string())),
        pd.Series(KEYS, dtype="string[pyarrow]"),
        pd.Series(["foobar", float("nan"), "21", b"user-1"], dtype=object),
    ],
    ids=lambda keys: str(keys.dtype),
)
def test_a_pandas_series_gives_a_series(keys) -> None:
    """Nullable int32 with the index and the name of the keys; missing keys are missing."""
    keys = keys.rename("key").set_axis([7, 5, 3, 1])
    found = pg.partition_for(keys, partitions=10)
    assert isinstance(found, pd.Series)
    assert (str(found.dtype), found.name, found.index.tolist()) == ("Int32", "key", [7, 5, 3, 1])
    assert [None if one is pd.NA else one for one in found.tolist()] == PLACED


def test_a_slice_of_a_series_is_placed_like_its_values() -> None:
    """Views and empty columns; with a state the partition is a Series too."""
    keys = pd.Series(KEYS * 3, dtype="string")[2::3]
    found = pg.partition_for(keys, partitions=10)
    assert [None if one is pd.NA else one for one in found.tolist()] == (PLACED * 3)[2::3]
    assert len(pg.partition_for(pd.Series([], dtype="string"), partitions=3)) == 0
    placed = pg.partition_for(pd.Series(KEYS), partitions=10, partitioner="java:2.3", seed=1)
    assert isinstance(placed.partition, pd.Series)
    assert not placed.partition.isna().any()


class _Stream:
    """A foreign column with the stream interface only."""

    def __init__(self, column) -> None:
        self._column = column

    def __arrow_c_stream__(self, requested_schema=None):
        return self._column.__arrow_c_stream__(requested_schema)


class _Array(_Stream):
    """A foreign column with the array interface, which makes one of its kind of another."""

    @classmethod
    def from_arrow(cls, column):
        return cls(column)

    def __arrow_c_array__(self, requested_schema=None):
        return self._column.__arrow_c_array__(requested_schema)


def test_the_pycapsule_interface_is_enough() -> None:
    """An array gives its own class by ``from_arrow``, a stream an array of pyarrow."""
    found = pg.partition_for(_Stream(pa.chunked_array([KEYS[:1], KEYS[1:]])), partitions=10)
    assert isinstance(found, pa.ChunkedArray)
    assert (found.type, found.to_pylist()) == (pa.int32(), PLACED)
    own = pg.partition_for(_Array(pa.array(KEYS)), partitions=10)
    assert isinstance(own, _Array)
    assert own._column.to_pylist() == PLACED


class _Chunks(_Stream):
    """A column of nanoarrow with several chunks: its array method raises, its stream works."""

    def __arrow_c_array__(self, requested_schema=None):
        raise ValueError("non-contiguous")


_Chunks.__module__ = "nanoarrow.array"


def test_a_column_of_several_chunks_is_read_as_a_stream() -> None:
    """The result has the class of the keys."""
    found = pg.partition_for(_Chunks(pa.chunked_array([KEYS[:1], KEYS[1:]])), partitions=10)
    assert isinstance(found, _Chunks)
    assert found._column.to_pylist() == PLACED


class _Polars(_Stream):
    """What `partition_for` uses of a polars Series, which is no requirement of the tests."""

    def __init__(self, name, values) -> None:
        super().__init__(values)
        self.name = name


_Polars.__module__ = "polars.series.series"


def test_a_polars_series_gives_a_series_of_its_name() -> None:
    """The result is made by the class of the keys, from an Arrow array."""
    column = pa.chunked_array([pa.array(KEYS).cast(pa.string_view())])
    found = pg.partition_for(_Polars("key", column), partitions=10)
    assert isinstance(found, _Polars)
    assert (found.name, found._column.to_pylist()) == ("key", PLACED)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (pd.Series([1, 2]), "are of type int64, not bytes"),
        (pd.Series([1, None], dtype=object), r"keys\[0\] is no bytes but int"),
        (_Stream(pa.table({"a": KEYS})), "nested type|pass one column"),
        (_Stream(pa.chunked_array([[1.5]])), "are of type double"),
    ],
)
def test_other_columns_are_refused_with_a_reason(keys, said) -> None:
    """Numbers are not keys, and a table is no column."""
    with pytest.raises(pg.InvalidKeysError, match=said):
        pg.partition_for(keys, partitions=3)
