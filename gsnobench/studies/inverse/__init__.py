"""Bayesian inversion through a trained operator: samplers, diagnostics, a reference, a study.

`target` is what a sampler samples, and `chains` runs the samplers: `rwm`, `pcn`, `mala`, `hmc`, one
file each, and `paper`, the printed one. `diagnostics` says whether chains have mixed. `problems`
makes truths and observations, `posterior` their likelihood and the law that chains are relative to;
`reference` is the solver as such a map. `inversion` does all of it for one map, `judgement` makes
numbers of it, `question` is the study, `conclusion` and `figure` its answer.
"""

from gsnobench.studies.inverse.question import study as study
