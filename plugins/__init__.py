"""The bundled plugins: they take the same road as anybody's plugin."""
