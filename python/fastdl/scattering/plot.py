"""Pictures of filters and results. They need matplotlib, which is imported when the first is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl.scattering._one import Scattering1D
from fastdl.scattering._two import Scattering2D

if TYPE_CHECKING:
    from fastdl._arrays import HostArray

__all__ = ["filter_bank", "littlewood_paley", "scattering_disc"]


def _axes(axes: Any) -> Any:
    if axes is not None:
        return axes
    from matplotlib import pyplot

    return pyplot.subplots()[1]


def littlewood_paley_sum(S: Scattering1D | Scattering2D) -> HostArray:
    """Give the sum of the squares of all filters of the first order and the low-pass, for real signals.

    Parameters
    ----------
    S : Scattering1D or Scattering2D
        A transform.

    Returns
    -------
    array
        By frequency, as a Fourier transform has them. Where it is at most 1, the wavelet transform contracts.

    Examples
    --------
    >>> from fastdl.scattering import Scattering1D
    >>> from fastdl.scattering.plot import littlewood_paley_sum
    >>> littlewood_paley_sum(Scattering1D(4, 256, 8)).shape
    (512,)
    """
    if isinstance(S, Scattering1D):
        squares = [wavelet["levels"][0] ** 2 for wavelet in S.psi1_f]
        low = S.phi_f["levels"][0]
    else:
        squares = [wavelet["levels"][0] ** 2 for wavelet in S.psi]
        low = S.phi["levels"][0]
    total: HostArray = np.sum(squares, axis=0)
    mirrored = np.roll(np.flip(total), 1, tuple(range(total.ndim)))
    return 0.5 * (total + mirrored) + low**2  # type: ignore[no-any-return]


def littlewood_paley(S: Scattering1D | Scattering2D, axes: Any = None) -> Any:
    """Draw the Littlewood-Paley sum of a transform: a curve for signals, a map for images.

    Parameters
    ----------
    S : Scattering1D or Scattering2D
        A transform.
    axes : matplotlib axes, optional
        Where to draw; new ones if not given.

    Returns
    -------
    matplotlib axes
    """
    axes = _axes(axes)
    total = littlewood_paley_sum(S)
    if total.ndim == 1:
        frequencies = np.arange(len(total) // 2) / len(total)
        axes.plot(frequencies, total[: len(total) // 2])
        axes.set_xlabel("frequency")
    else:
        image = axes.imshow(np.fft.fftshift(total), extent=(-0.5, 0.5, -0.5, 0.5), cmap="viridis")
        axes.figure.colorbar(image, ax=axes)
    axes.set_title("Littlewood-Paley sum")
    return axes


def filter_bank(S: Scattering1D | Scattering2D, axes: Any = None) -> Any:
    """Draw the filters of a transform: curves over frequency for signals, wavelets side by side for images.

    Parameters
    ----------
    S : Scattering1D or Scattering2D
        A transform.
    axes : matplotlib axes, optional
        Where to draw; new ones if not given.

    Returns
    -------
    matplotlib axes
        For images a row shows the real parts of the wavelets of a scale, each stretched to the same contrast.
    """
    axes = _axes(axes)
    if isinstance(S, Scattering1D):
        half = S.N_padded // 2
        frequencies = np.arange(half) / S.N_padded
        for wavelet in S.psi1_f:
            axes.plot(frequencies, wavelet["levels"][0][:half], linewidth=0.8)
        axes.plot(frequencies, S.phi_f["levels"][0][:half], "k")
        axes.set_xlabel("frequency")
        axes.set_title("filters of the first order")
        return axes
    side = min(*S.padded_shape, 2 ** (S.J + 2))
    rows = []
    for j in range(S.J):
        row = []
        for t in range(S.L):
            wave = np.fft.fftshift(np.fft.ifft2(S.psi[j * S.L + t]["levels"][0])).real
            top, left = (wave.shape[0] - side) // 2, (wave.shape[1] - side) // 2
            part = wave[top : top + side, left : left + side]
            row.append(part / np.abs(part).max())
        rows.append(np.concatenate(row, axis=1))
    axes.imshow(np.concatenate(rows, axis=0), cmap="RdBu", vmin=-1, vmax=1)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title("wavelets: angles across, scales down")
    return axes


def scattering_disc(S: Scattering2D, coefficients: Any, axes: Any = None) -> Any:
    """Draw the results at one place of an image as a disc, which the paths cut by scale and angle.

    Parameters
    ----------
    S : Scattering2D
        The transform.
    coefficients : array of shape (paths,)
        Results at one place, of all paths.
    axes : matplotlib axes, optional
        Where to draw; new ones if not given.

    Returns
    -------
    matplotlib axes
        Each first wavelet is a sector, its radius from the frequency; the second order, if there is one, cuts it by the
        second wavelet: scales outwards, angles around.
    """
    from matplotlib.patches import Wedge

    axes = _axes(axes)
    values = np.asarray(coefficients, float)
    meta = S.meta()
    order = S.max_order
    chosen = np.flatnonzero(meta["order"] == order)
    if not len(chosen):
        chosen = np.flatnonzero(meta["order"] == 1)
        order = 1
    largest = float(values[chosen].max(initial=0)) or 1.0
    slice_angle = 180.0 / S.L
    for channel in chosen:
        j1, t1 = int(meta["j"][channel, 0]), int(meta["theta"][channel, 0])
        outer, inner = 2.0**-j1, 2.0 ** -(j1 + 1)
        start = t1 * slice_angle
        width = slice_angle
        if order == 2:
            j2, t2 = int(meta["j"][channel, 1]), int(meta["theta"][channel, 1])
            rings = S.J - j1 - 1
            step = (outer - inner) / rings
            outer -= (j2 - j1 - 1) * step
            inner = outer - step
            width = slice_angle / S.L
            start += t2 * width
        shade = str(1 - max(0.0, values[channel]) / largest)
        for turn in (0, 180):
            wedge = Wedge((0, 0), outer, start + turn, start + turn + width, width=outer - inner, color=shade, lw=0)
            axes.add_patch(wedge)
    axes.set_xlim(-1.02, 1.02)
    axes.set_ylim(-1.02, 1.02)
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_title(f"order {order}")
    return axes
