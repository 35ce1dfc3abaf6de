"""Geo-FNO: the operator is in `model`, its truncated Fourier transforms in `fourier`."""
