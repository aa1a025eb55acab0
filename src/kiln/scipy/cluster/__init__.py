"""Clustering, by the names of `scipy.cluster`."""

from kiln.scipy.cluster import vq as vq
