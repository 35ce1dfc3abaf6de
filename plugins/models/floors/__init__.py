"""Floors: closed-form predictors that every trained model should beat, one per file."""
