"""The bundled plugins: found and loaded in the same way as anybody's plugin."""
