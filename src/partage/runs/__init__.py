"""Find and read the published run of an output folder: its manifest and tables.

published_run      manifest, summary and tables of a run
row_groups         parts of a large table, by consumer group
stream_manifests   which files of `partage watch` count
"""
