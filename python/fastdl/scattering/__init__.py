"""Scattering transforms: cascades of wavelets and moduli, averaged.

They are stable to deformations, and take the place of the first layers of a network that need no learning.
`fastdl.scattering.plot` draws their filters and results.
"""

from fastdl.scattering._cascade import inverse_wavelet_transform2d, wavelet_transform2d
from fastdl.scattering._one import Scattering1D
from fastdl.scattering._roto import RotoTranslationScattering2D
from fastdl.scattering._three import HarmonicScattering3D
from fastdl.scattering._two import Scattering2D

__all__ = [
    "HarmonicScattering3D",
    "RotoTranslationScattering2D",
    "Scattering1D",
    "Scattering2D",
    "inverse_wavelet_transform2d",
    "wavelet_transform2d",
]
