"""What must hold in the samples of a dataset, whoever made them: one invariant per file."""
