"""One partial differential equation per file, solved with the methods and meshes beside it."""
