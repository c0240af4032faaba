"""Find and read the published run of an output folder: its manifest and tables."""
