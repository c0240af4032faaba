"""Writing members' lists side by side, as kernels."""
# ruff: noqa: ANN001, ANN201, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False

from __future__ import annotations

from partage.kernels import kernel

__all__ = ["give_rows", "keep_rows"]


@kernel("void(int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1])")
def keep_rows(order, owner, at, end, out, taken_from):
    """Spots in ``order`` to their owner's row (``at`` to ``end``); what does not fit is taken."""
    for i in range(len(order)):
        spot = order[i]
        m = owner[spot]
        if m < 0:
            continue
        if at[m] < end[m]:
            out[at[m]] = spot
            at[m] += 1
        else:
            taken_from[spot] = m
            owner[spot] = -1


@kernel("void(int32[::1], int32[::1], int32[::1], int32[::1])")
def give_rows(spot, member, at, out):
    """Spots to their new owner's row, from ``at`` on."""
    for i in range(len(spot)):
        m = member[i]
        out[at[m]] = spot[i]
        at[m] += 1
