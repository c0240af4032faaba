"""Recording a cluster: its group log and its metadata, live or from copied files.

`writing` is the folder of a capture and how it stays whole; `segments` and `log_dir` read copied
log segments; `metadata_image` follows the metadata log; `live` reads a running cluster through
kafka-python, and is the only part that needs it. What `partage capture` says stands in the `cli`.
"""

from __future__ import annotations
