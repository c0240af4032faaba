"""Finding and reading the published run of an output folder: its manifest and tables."""
