"""Signal processing, by the names of `scipy.signal`."""

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.scipy.signal.convolution import convolve as convolve
from kiln.scipy.signal.convolution import convolve2d as convolve2d
from kiln.scipy.signal.convolution import correlate as correlate
from kiln.scipy.signal.convolution import correlate2d as correlate2d
from kiln.scipy.signal.convolution import fftconvolve as fftconvolve
from kiln.scipy.signal.spectra import csd as csd
from kiln.scipy.signal.spectra import detrend as detrend
from kiln.scipy.signal.spectra import istft as istft
from kiln.scipy.signal.spectra import stft as stft
from kiln.scipy.signal.spectra import welch as welch

_suggest_names(globals())
