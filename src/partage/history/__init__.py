"""What a log of `__consumer_offsets` tells: from decoded records to states and problems.

Pure: no files, no clock, no Spark. Which file answers what: `records` is a decoded record
as a value, `clients` tells which library wrote it, `classic` rebuilds a classic group's
generations, `events` names what happened, `ownership` who had what and when, `clusters`
is the metadata over time, `replaying` lives a history again under other strategies,
`agreement` compares a plan with the record, `commits` reduces offset commits and
`transactions` tells which of them count.
"""

from __future__ import annotations
