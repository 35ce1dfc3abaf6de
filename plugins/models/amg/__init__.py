"""AMG: the operator is in `model`, its graphs and the attention along edges in `graph`."""
