"""Recording a cluster: its ``__consumer_offsets`` log and its metadata, live or from copied files.

* the folder of a capture: `writing`, `manifest` (the files in it), `durable` (atomic writes);
* a running cluster: `live` (the loop), `connection` (requests, with `messages` that kafka-python
  lacks), `security` (client properties, TLS, SASL, tokens), `secrets` (hiding them), `preflight`
  (permissions, gaps of the log);
* copied files: `log_dir` (log segments), `metadata_image` (the cluster's metadata log), `unpacking`
  (checksums, compression);
* the present state, which is not recorded: `groups`, `replicas`.

Only what reads a running cluster needs kafka-python. The texts that `partage capture` prints are
in `cli`.
"""

from __future__ import annotations
