"""What all jobs share to run on Spark; each module has one concern.

session        starts and configures Spark
shipping       Partage and compiled kernels on the nodes
progress       stages and their tasks
failures       Spark's errors as ours
tables         tables and topics that only Spark reads
remote_files   files at an address, through Hadoop
"""

from __future__ import annotations
