"""Transolver: the operator is in `model`, its faster order of products in `fused`."""
