"""Reports of a run for people: `data` reads the tables, `html` and `terminal` show them.

Plain data in; no Spark, no strategies.

    run               the report's data: a run, its groups and their metrics, as plain values
    data              reads them from a published run

Advice:
    traits            causes and properties of groups, the evidence of the rules
    gains             the expected gain of a policy
    advice            the rules: one function for each piece of advice
    client_settings   settings that make a group run a policy, for each client library
    recommendations   a group's advice in order, with present settings and rollout

Texts and tables:
    messages          labels, the glossary, opening sentences
    limit_notes       what limits the results of a run
    view_model        tables of policies, groups and causes

Outputs:
    html              the page of a run
    group_details     details of single groups for the page
    timeline          their timelines
    terminal          the report on a terminal
    json_document     the report as JSON

Other questions about runs:
    owners            owners of partitions at one instant
    checks            limits on unread time, rebalances and storms
    rates             rates by hour
    run_diff          comparison of two runs
    diff_terminal     this comparison on a terminal

Pages of other commands:
    key_pages         `partage keys` and `partage audit`
    streams           `partage streams`
    replicas          `partage reassign`
"""

from __future__ import annotations
