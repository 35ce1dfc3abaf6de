"""MGKN: the operator is in `model`, its kernel sums in `kernels`, its node sets in `levels`."""
