"""HebbianPCA against scikit-learn's IncrementalPCA: time of a sample, and the variance explained after one pass.

The results differ, so that this is no row of the tables: ``python bench/hebbian_pca.py``. Samples have variances that
fall as a power of their number along random axes. Times are the best of interleaved rounds.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.decomposition import IncrementalPCA

from fastdl.hebbian import HebbianPCA

COMPONENTS, FEATURES, SAMPLES, ROUNDS = 64, 784, 20_000, 3


def samples(power, rng):
    axes = np.linalg.qr(rng.standard_normal((FEATURES, FEATURES)))[0]
    deviations = np.arange(1, FEATURES + 1) ** (-power / 2)
    return (rng.standard_normal((SAMPLES, FEATURES)) * deviations @ axes.T).astype(np.float32) + 1


def explained(X, components):
    centred = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    basis = np.linalg.qr(components.T.astype(np.float64))[0]
    return np.sum((centred @ basis) ** 2) / np.sum(centred**2)


def main():
    rng = np.random.default_rng(0)
    print(f"{COMPONENTS} components of {FEATURES} features, {SAMPLES} samples in float32, one pass")
    for power in (1.0, 2.0):
        X = samples(power, rng)
        contenders = {
            "sklearn IncrementalPCA": lambda: IncrementalPCA(COMPONENTS),
            **{
                f"HebbianPCA {rule}": lambda rule=rule: HebbianPCA(COMPONENTS, rule)
                for rule in ("sanger", "subspace", "ccipca")
            },
        }
        times, shares = {}, {}
        for _ in range(ROUNDS):
            for name, make in contenders.items():
                began = time.perf_counter()
                model = make().fit(X)
                times[name] = min(times.get(name, np.inf), (time.perf_counter() - began) / SAMPLES)
                shares[name] = explained(X, model.components_)
        print(f"variances as 1 / i^{power:g}:")
        slowest = times["sklearn IncrementalPCA"]
        for name, seconds in times.items():
            ratio = slowest / seconds
            print(f"  {name:24s} {1e6 * seconds:7.1f} us a sample, {ratio:5.1f} x, explained {shares[name]:.4f}")


if __name__ == "__main__":
    main()
