"""The bundled models, a file or a package each with the operator in `model`; floors in `floors`."""
