"""The contract between the writers and the readers of a run, as pure data.

`statuses` has the values of table columns.
"""
