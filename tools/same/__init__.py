"""A comparison of two versions of Partage on equal inputs: `make same`.

`__main__` builds the base version, runs `probe` under both versions and compares what the two
runs wrote. `subjects`, `commands`, `tables` and `signatures` are the four parts of a run;
`inputs` generates the problems; `renames` follows names that have changed since the base.
"""
