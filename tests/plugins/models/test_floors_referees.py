"""scikit-learn gives what the floors give, on every task of the board.

What a floor is fitted to comes from the core's batches; features, bases and regressions are made
again here, by other code. The tiny data have few samples and are quick; those of the track smoke
are slow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from small_data import TASKS, smoke_data, tiny_data
from toy_floors import Trained, train

from gsnobench.data import Array, Samples
from gsnobench_plugins.models.floors import common_mesh
from gsnobench_plugins.models.floors.choices import STRENGTHS, in_float64
from gsnobench_plugins.models.floors.modal import START_WEIGHT

SCATTERED = ("elasticity", "airfoil_family", "car")  # nodes do not correspond
CORRESPONDING = tuple(name for name in TASKS if name not in SCATTERED)
MOVING = ("swe", "nse", "burgers2d", "burgers3d", "airfoil")  # on one mesh
AGREES = 1e-6  # relative difference of two predictions
Data = Callable[[str], tuple[Samples, Samples]]


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("small")


@pytest.fixture(params=["tiny", pytest.param("smoke", marks=pytest.mark.slow)])
def data(request: pytest.FixtureRequest, home: Path) -> Data:
    make = {"tiny": tiny_data, "smoke": smoke_data}[request.param]
    return lambda name: make(name, home)


def difference(a: Array, b: Array) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


# ------------------------------------------------------------------------------------ ridge and pod


@dataclass(frozen=True, eq=False)
class Windows:
    """All windows of a split as arrays, at the nodes or at the common ones."""

    x: Array  # (S, N, channels)
    y: Array  # (S, t_out*N*C), what the floor predicts: the frames or their change


def windows_of(trained: Trained, samples: Samples) -> Windows:
    """Inputs by a loop over channels; only the way to common nodes is the floor's own."""
    x, y = [], []
    is_change = bool(trained.module.adds_last)
    for encoded, target in trained.batches(samples):
        batch, frames = in_float64(encoded), target.double()
        frames = frames - batch.window[:, -1:] if is_change else frames
        if samples.task.corresponds:
            channels = [batch.points[..., axis] for axis in range(samples.task.dim)]
            channels += [batch.window[:, t, :, c] for t, c in np.ndindex(batch.window.shape[1::2])]
            channels += list(batch.static.unbind(-1))
            channels += [value[:, None] for value in batch.scalars.unbind(-1)]
            shape = (batch.size, batch.nodes)
            x.append(np.stack([np.broadcast_to(channel, shape) for channel in channels], axis=2))
        else:
            x.append(common_mesh.inputs_at_common_nodes(batch).numpy())
            frames = common_mesh.fields_at_common_nodes(batch, frames)
        y.append(frames.flatten(1).numpy())
    return Windows(np.concatenate(x), np.concatenate(y))


def predictions(trained: Trained, samples: Samples) -> Array:
    """What the floor itself predicts in every window, (S, t_out, N, C)."""
    batches = [in_float64(batch) for batch, _ in trained.batches(samples)]
    with torch.no_grad():
        return np.concatenate([trained.module.closed_form(batch).numpy() for batch in batches])


def at_own_nodes(trained: Trained, samples: Samples, y: Array) -> Array:
    """Predictions (S, .) as frames (S, t_out, N, C), by the matrices of every mesh."""
    task, shape = samples.task, (samples.task.t_out, -1, len(samples.task.fields))
    if task.corresponds:
        return y.reshape(len(y), *shape)
    own = np.zeros((len(y), task.t_out, samples.frames.shape[2], len(task.fields)))
    windows = [index for _ in task.starts for index in range(len(samples))]
    for row, index in enumerate(windows):
        mesh = samples.mesh(index)
        back = common_mesh.common_geometry(mesh, task, trained.summary["common"])["back"].value
        for step, frame in enumerate(y[row].reshape(shape)):
            own[row, step, : mesh.size] = back @ frame
    return own


def standardised_features(known: Array, x: Array, kind: str) -> tuple[Array, Array]:
    """Features of training inputs (S, N, channels) and of others, with the statistics of those."""
    columns: list[tuple[Array, Array]] = []
    for channel, other in zip(np.moveaxis(known, 2, 0), np.moveaxis(x, 2, 0), strict=True):
        if np.ptp(channel, axis=0).max() == 0:
            continue
        transforms: list[Callable[[Array], Array]] = [np.positive, np.square]
        if channel.min() > 0:
            transforms = [np.positive, np.reciprocal, np.log]
            other = np.maximum(other, channel.min() / 10)
        for transform in transforms[: 1 if kind == "plain" else None]:
            centre = transform(channel).mean(axis=0)
            scale = np.sqrt(np.mean((transform(channel) - centre) ** 2))
            columns.append(
                ((transform(channel) - centre) / scale, (transform(other) - centre) / scale)
            )
    train_columns, other_columns = zip(*columns, strict=True)
    return np.concatenate(train_columns, axis=1), np.concatenate(other_columns, axis=1)


@pytest.mark.parametrize("kind", ["plain", "transformed"])
@pytest.mark.parametrize("name", TASKS)
def test_linear_ridge_is_that_of_scikit_learn(name: str, kind: str, data: Data) -> None:
    known, valid = data(name)
    trained = train("ridge", known, valid, kernel="linear", features=kind)
    seen, asked = windows_of(trained, known), windows_of(trained, valid)
    x, x_valid = standardised_features(seen.x, asked.x, kind)
    alpha = float(trained.module.strength) * np.sum(x**2) / len(x)
    axes = PCA(svd_solver="full").fit(x)  # all of them: coefficients of all features fill memory
    referee = Ridge(alpha, solver="svd").fit(axes.transform(x), seen.y)
    expected = at_own_nodes(trained, valid, referee.predict(axes.transform(x_valid)))
    assert difference(predictions(trained, valid), expected) < AGREES


@pytest.mark.parametrize("kind", ["plain", "transformed"])
@pytest.mark.parametrize("name", TASKS)
def test_radial_ridge_is_that_of_scikit_learn(name: str, kind: str, data: Data) -> None:
    known, valid = data(name)
    trained = train("ridge", known, valid, kernel="rbf", features=kind)
    seen, asked = windows_of(trained, known), windows_of(trained, valid)
    x, x_valid = standardised_features(seen.x, asked.x, kind)
    axes = PCA(trained.module.anchors.shape[1], svd_solver="full").fit(x)
    alpha, gamma = float(trained.module.strength), float(trained.module.precision)
    mean = seen.y.mean(axis=0)
    referee = KernelRidge(alpha=alpha, kernel="rbf", gamma=gamma)
    referee.fit(axes.transform(x), seen.y - mean)
    expected = mean + referee.predict(axes.transform(x_valid))
    expected = at_own_nodes(trained, valid, expected)
    assert difference(predictions(trained, valid), expected) < AGREES


@pytest.mark.parametrize("name", CORRESPONDING)
def test_pod_is_principal_components_and_ridge_of_scikit_learn(name: str, data: Data) -> None:
    known, valid = data(name)
    trained = train("pod", known, valid)
    seen, asked = windows_of(trained, known), windows_of(trained, valid)
    x, x_valid = (windows.x.reshape(len(windows.x), -1) for windows in (seen, asked))
    before, after = (PCA(trained.params.energy, svd_solver="full").fit(v) for v in (x, seen.y))
    assert before.n_components_ == trained.module.in_basis.shape[1]
    assert after.n_components_ == trained.module.out_basis.shape[0]
    scores = before.transform(x)
    alpha = float(trained.module.strength) * np.sum(scores[:, 0] ** 2)
    referee = Ridge(alpha, solver="svd", fit_intercept=False).fit(scores, after.transform(seen.y))
    expected = after.inverse_transform(referee.predict(before.transform(x_valid)))
    expected = at_own_nodes(trained, valid, expected)
    assert difference(predictions(trained, valid), expected) < AGREES


# -------------------------------------------------------------------------------------------- modal


@pytest.mark.parametrize("name", MOVING)
def test_modal_is_weighted_ridge_of_scikit_learn_per_mode_and_lag(name: str, data: Data) -> None:
    known, valid = data(name)
    trained = train("modal", known, valid)
    module, task = trained.module, known.task
    parts = trained.loader(known).geometry.dense
    phi, mass = (parts[part][0].double().numpy() for part in ("phi", "mass"))
    centred = np.asarray(known.frames, dtype=np.float64) - [f.reference for f in task.fields]
    series = np.einsum("nk,n,stnc->kcst", phi, mass, centred)  # (K, C, S, T)
    for mode, field in ((0, 0), (3, len(task.fields) - 1), (phi.shape[1] - 1, 0)):
        for lag in (0, task.t_out - 1):
            weight = module.weight[mode, field, lag].numpy()
            offset = float(module.offset[lag, mode, field])
            x, y, share = lagged(series[mode, field], lag, task.t_in, task.starts)
            y = y - x[:, -1] if bool(module.adds_last) else y
            deviation = x - share @ x
            alpha = float(module.strength) * np.mean(share @ deviation**2)
            referee = Ridge(alpha, solver="svd").fit(x, y, sample_weight=share)
            assert difference(x @ weight + offset, referee.predict(x)) < AGREES


def lagged(
    series: Array, lag: int, t_in: int, starts: tuple[int, ...]
) -> tuple[Array, Array, Array]:
    """Windows (n, t_in), the later values (n,) and weights (n,) that sum to 1, of (S, T)."""
    firsts = [
        (sample, first)
        for sample in range(len(series))
        for first in range(series.shape[1] - t_in - lag)
    ]
    x = np.array([series[sample, first : first + t_in] for sample, first in firsts])
    y = np.array([series[sample, first + t_in + lag] for sample, first in firsts])
    share = np.array([START_WEIGHT if first in starts else 1.0 for _, first in firsts])
    return x, y, share / share.sum()


# ---------------------------------------------------------------------------------------- strengths


@pytest.mark.slow
@pytest.mark.parametrize("floor", ["ridge", "pod", "modal"])
@pytest.mark.parametrize("name", TASKS)
def test_the_chosen_strength_lies_inside_the_range(name: str, floor: str, home: Path) -> None:
    if name not in {"ridge": TASKS, "pod": CORRESPONDING, "modal": MOVING}[floor]:
        pytest.skip("the floor declines the task")
    known, valid = smoke_data(name, home)
    chosen = float(train(floor, known, valid).module.strength)
    assert STRENGTHS[0] < chosen < STRENGTHS[-1]
