"""The example's own tests run where it is installed, as a stranger's would."""

from importlib import metadata

installed = {distribution.metadata["Name"] for distribution in metadata.distributions()}
collect_ignore = [] if "gsnobench-pointmlp" in installed else ["tests"]
