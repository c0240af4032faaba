"""Tables of plans, groups, clusters, comparisons and rounds: in a terminal and in a notebook."""

from __future__ import annotations

import pytest
from tests.support.notebooks import parsed

import partage as pg
from partage.model.display import draw_bar, draw_strip, html_table, text_table

#: A topic or member may be called this; it must stay text, and control no terminal.
NASTY = '<script>alert("1")</script>\x1b[2J'


def values() -> dict[str, object]:
    cluster = pg.Cluster.from_topics({"orders": 4, NASTY: [["a", "b"], ["b", "a"]]})
    members = [pg.Member("c1", ["orders", NASTY], owned={"orders": [0, 1]}, rack="a"),
               pg.Member(NASTY, ["orders", NASTY], instance_id="i")]  # fmt: skip
    group = pg.Group(members)
    rounds = pg.play("sticky", cluster, [pg.Join(*members), pg.Leave("c1")])
    return {
        "plan": pg.assign("range", group, cluster),
        "group": group,
        "cluster": cluster,
        "comparison": pg.compare(group, cluster, strategies=["range", "sticky"], optimum=False),
        "rounds": rounds,
        "round": rounds[1],
    }


@pytest.mark.parametrize("name", values())
def test_html_is_well_formed_and_escapes_names(name) -> None:
    """No name becomes a tag or a control character; each table has a picture."""
    html = values()[name]._repr_html_()
    found = parsed(html)
    assert "script" not in found.tags
    assert {"table", "svg", "rect"} <= set(found.tags)
    assert "\x1b" not in html
    if name != "comparison":  # which shows no names of the problem
        assert '<script>alert("1")</script>\\x1b[2J' in "".join(found.text)
    assert "prefers-color-scheme" in html
    assert "--jp-content-font-color1" in html


class _Printer:
    """The part of IPython's printer that values use."""

    def __init__(self) -> None:
        self.printed = ""

    def text(self, text: str) -> None:
        self.printed += text


@pytest.mark.parametrize("name", ["plan", "group", "cluster", "comparison", "rounds"])
def test_ipython_prints_the_table(name) -> None:
    """The same lines as `print`, with control characters escaped."""
    value, printer = values()[name], _Printer()
    value._repr_pretty_(printer, False)
    assert printer.printed == str(value)
    assert len(printer.printed.splitlines()) > 2
    assert "\x1b" not in printer.printed


def test_tables_show_the_first_rows_and_count_the_others() -> None:
    """Forty members, topics or rounds are shown; the others are counted."""
    cluster = pg.Cluster.from_topics({f"t{i:02}": 1 for i in range(50)})
    group = pg.Group([pg.Member(f"m{i:02}", [f"t{i:02}"]) for i in range(50)])
    plan = pg.assign("range", group, cluster)
    rounds = pg.play("range", cluster, [pg.Join(one) for one in group])
    for value, what in ((plan, "members"), (group, "members"), (cluster, "topics"),
                        (rounds, "rounds")):  # fmt: skip
        text = "".join(parsed(value._repr_html_()).text)
        assert f"and 10 more {what}" in text
    assert str(group).endswith("... and 10 more members")
    assert str(cluster).endswith("... and 10 more topics")


def test_rounds_are_a_tuple() -> None:
    """They unpack and compare as before."""
    cluster = pg.Cluster.from_topics({"t": 2})
    rounds = pg.play("range", cluster, [pg.Join(pg.Member("a", ["t"])), pg.Leave("a")])
    (first,) = rounds
    assert rounds == (first,)
    assert isinstance(rounds, tuple)
    assert repr(pg.play("range", cluster, [])) == "()"


def test_pictures_are_as_wide_as_their_figures() -> None:
    """A bar's parts are in proportion; an empty one draws nothing; long strips are cut."""
    assert 'width="59"' in draw_bar([(0, 1)], 2).svg
    assert "<rect" not in draw_bar([], 0).svg
    assert draw_strip(range(500)).svg.count("<rect") == 120
    assert text_table([("a", "n"), ("bb", "1")]) == "a   n\nbb  1"
    assert "1,234" in html_table("t", ["n"], [[1234]])


def test_headings_are_aligned_with_the_numbers_of_their_column() -> None:
    """A first cell without a value does not decide; text in a column makes it text."""
    html = html_table("t", ["saved", "note", "none"], [["", 1, ""], ["12", "a", ""]])
    assert '<th scope="col" class="n">saved</th>' in html
    assert '<th scope="col">note</th><th scope="col">none</th>' in html


def test_no_break_spaces_are_shown_as_spaces() -> None:
    """Units follow their numbers; the space between them is not an escape sequence."""
    assert "77 p·s" in html_table("t", ["gain"], [["77\N{NO-BREAK SPACE}p·s"]])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda group, cluster: pg.assign(group, cluster, "range"), "strategy: .* not a Group"),
        (lambda group, cluster: pg.assign("range", cluster, group), "group: .* not a Cluster"),
        (lambda _, cluster: pg.Plan.of(cluster, {}), "index: must be an Index, not a Cluster"),
        (lambda _, cluster: pg.Plan.of(cluster.index, []), "owned: must be a mapping"),
        (lambda *_: pg.place(3, partitions=1, replication_factor=1), "brokers: must be a list"),
        (lambda group, cluster: pg.check(group, cluster, group), "group: .* not a Cluster"),
        (lambda _, cluster: pg.play(cluster, "range", []), "cluster: .* not a str"),
    ],
)
def test_swapped_arguments_are_named(call, said) -> None:
    """The error is ours and names the argument that has the wrong type."""
    cluster = pg.Cluster.from_topics({"t": 2})
    group = pg.Group([pg.Member("a", ["t"])])
    with pytest.raises(pg.PartageError, match=said):
        call(group, cluster)
