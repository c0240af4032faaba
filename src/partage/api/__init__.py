"""The public functions: the only modules where strategies, the judge and the solver meet.

`decisions` has `assign` and `compare`, `measures` has `measure`, `reassignments` has `reassign`.
``import partage as pg`` offers them as ``pg.assign`` and so on.
"""
