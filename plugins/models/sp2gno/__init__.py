"""Sp2GNO: the operator is in `model`, its graph and messages in `graph`."""
