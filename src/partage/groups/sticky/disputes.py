"""Claims on one partition by several members, as a kernel."""
# ruff: noqa: ANN001, ANN201, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False

from __future__ import annotations

from partage.kernels import kernel

__all__ = ["dispute"]


@kernel(
    "void(int32[::1], int32[::1], int64[::1], int64[::1], int32[::1], int64[::1],"
    " boolean[::1], boolean[::1])"
)
def dispute(member, spot, generation, sent, owner, entry, holds, disputed):
    """Claims in order; ``owner`` and ``entry`` are by spot, -1 for none."""
    for i in range(len(member)):
        m, s = member[i], spot[i]
        other = owner[s]
        if other >= 0:
            if generation[m] < sent[other]:
                continue
            held = entry[s] >= 0
            if held:
                holds[entry[s]] = False
                entry[s] = -1
            if generation[m] == sent[other]:
                disputed[s] = True
                owner[s] = m
                continue
            # Kafka adds to the new owner's list, then takes the first out of the old one's: who
            # had lost the spot to a dispute and claims it again gets it and loses it at once.
            if other == m and not held:
                continue
        owner[s] = m
        entry[s] = i
        holds[i] = True
