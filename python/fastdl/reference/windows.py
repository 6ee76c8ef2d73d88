"""What the references of convolutions and pooling share: padding, and what lies under the elements of a kernel."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace, device

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Size = Sequence[int]

# Where the element at position i of a padded axis comes from, i counted from the first of its n elements.
_SOURCES = {
    "circular": lambda i, n: i % n,
    "reflect": lambda i, n: n - 1 - abs(n - 1 - abs(i)),
    "replicate": lambda i, n: min(max(i, 0), n - 1),
}


def pad(x: Any, lower: Size, upper: Size, mode: str = "zeros") -> Any:
    """Extend the axes after the first two by `lower` elements before and `upper` after."""
    xp = array_namespace(x)
    for axis, (before, after) in enumerate(zip(lower, upper, strict=True), start=2):
        if mode == "zeros":
            margins = [
                xp.zeros((*x.shape[:axis], width, *x.shape[axis + 1 :]), dtype=x.dtype, device=device(x))
                for width in (before, after)
            ]
            x = xp.concat([margins[0], x, margins[1]], axis=axis)
        elif before or after:
            n = x.shape[axis]
            sources = [_SOURCES[mode](i, n) for i in range(-before, n + after)]
            x = xp.take(x, xp.asarray(sources, dtype=xp.int64, device=device(x)), axis=axis)
    return x


def offsets(kernel: Size) -> Iterator[tuple[int, ...]]:
    """Give the positions in a kernel, in row-major order."""
    return itertools.product(*(range(extent) for extent in kernel))


def window(offset: Size, size: Size, stride: Size, dilation: Size) -> tuple[slice, ...]:
    """Cut out what the element of a kernel at `offset` meets, in the `size` places where the kernel is put.

    The cut is of a padded array whose first two axes are not positions.
    """
    spatial = zip(offset, size, stride, dilation, strict=True)
    return (slice(None), slice(None), *(slice(d * q, d * q + s * (p - 1) + 1, s) for q, p, s, d in spatial))


def reach(size: Size, kernel: Size, stride: Size, dilation: Size) -> tuple[int, ...]:
    """Count the elements that a kernel covers in `size` places, along each axis."""
    spatial = zip(size, kernel, stride, dilation, strict=True)
    return tuple(s * (p - 1) + d * (k - 1) + 1 for p, k, s, d in spatial)
