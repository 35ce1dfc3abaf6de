"""CORAL: the operator is in `model`, its codec in `siren`, its training in `stages`."""
