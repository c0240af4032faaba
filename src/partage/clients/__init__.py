"""Our strategies inside living consumers: one module a client, each optional.

`shared` is what they have in common, from bytes to bytes; `caller` and `plugged` what a class in a
client's ``partition_assignment_strategy`` needs. The modules named after clients are thin.
"""
