"""The command that would measure our counterpart of a printed number, at the paper's protocol."""

from __future__ import annotations

from gsnobench.boards.reproduction.paper import PaperNumber

MEASURED = ("inference_s_per_batch", "peak_train_gpu_mb", "inference_gpu_mb", "train_s_per_epoch")
EIGENBASIS = ("geometries", "eigen_")
BATCH = 32  # of the paper's costs


def command(printed: PaperNumber) -> str:
    """What a person types; every word is checked against the command line by a test."""
    track, dataset = "--track paper", printed.dataset
    if ":" in printed.model:
        return f"gsnobench study ablation --datasets {dataset} --base paper {track}"
    if "=" in printed.field:
        return f"gsnobench study sensitivity --dataset {dataset} {track}"
    if printed.metric.startswith(EIGENBASIS):
        return f"gsnobench study cost --eigenbasis --datasets {dataset} {track}"
    row = f"--models {printed.model}@paper"
    if printed.metric in MEASURED:
        mesh = f"--meshes {printed.nodes} --batch {BATCH}"
        return f"gsnobench study cost --datasets {printed.task} {row} {mesh} {track}"
    return f"gsnobench bench --datasets {printed.task} {row} {track}"
