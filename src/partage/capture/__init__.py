"""Recording a cluster: its group log and its metadata, live or from copied files.

`writing` writes the folder of a capture; `log_dir` reads copied log segments; `metadata_image`
rebuilds the cluster's state from its metadata log; `live` reads a running cluster through
kafka-python and is the only part that needs it. The messages of `partage capture` are in `cli`.
"""

from __future__ import annotations
