"""The Graph Spectral Neural Operator: the operator is in `model`, the rest beside it."""
