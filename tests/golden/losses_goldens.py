"""losses.json and metrics.json: the losses of optax with their gradients, and metrics by scikit-learn.

A case of `losses` has the loss of each example, and the gradients of `sum(weights * losses)` with respect to the float
inputs. The inputs `extreme` have logits of 1e4 and -1e4, and `masked` ones of -inf. `cross_entropy` are the options that
optax does not have, by the formula of PyTorch's CrossEntropyLoss, computed in float64.
"""

from golden_cases import *

from optax import losses as o


def case(name, function, inputs, differentiate, params=None):
    """`differentiate`: the positions of the inputs with gradients."""
    params = params or {}
    dtype = np.asarray(inputs[0]).dtype
    with precision(dtype):
        inputs = [jnp.asarray(x) for x in inputs]
        value = function(*inputs, **params)
        weights = any_float(generator("losses", name, str(dtype)), value.shape, dtype)
        gradients = jax.grad(lambda *x: jnp.sum(weights * function(*x, **params)), argnums=tuple(differentiate))(*inputs)
        return {
            "name": name,
            "params": params,
            "inputs": arrays(inputs),
            "weights": array(weights),
            "losses": array(value),
            "gradients": arrays(gradients),
        }


def normal_kl_divergence(mean, log_variance):
    """The integral of q (log q - log p) for q = N(mean, exp(log_variance)) and p = N(0, 1), by Gauss-Hermite quadrature.
    log q - log p is a polynomial of degree 2, for which two nodes are exact.
    """
    norm = jax.scipy.stats.norm
    deviation = jnp.exp(log_variance / 2)
    nodes, weights = np.polynomial.hermite_e.hermegauss(2)
    terms = 0
    for node, weight in zip(nodes, weights / weights.sum()):
        z = mean + deviation * node
        terms += weight * (norm.logpdf(z, mean, deviation) - norm.logpdf(z))
    return terms.sum(-1)


def logits_of(kind, rng, shape, dtype):
    x = any_float(rng, shape, dtype) * 3
    if kind == "extreme":
        x = x.copy()
        x.ravel()[::2] = np.where(np.arange(x.ravel()[::2].size) % 2, 1e4, -1e4)
    if kind == "masked":
        x = x.copy()
        x[..., -1] = -np.inf
    return x


def loss_cases():
    cases = []
    for dtype in (np.float32, np.float64):
        for kind in ("usual", "extreme", "masked"):
            rng = generator("losses", kind, np.dtype(dtype).name)
            x = logits_of(kind, rng, (3, 4), dtype)
            labels = np.array([0, 2, 1], np.int32)
            p = positive(rng, (3, 4), dtype)
            p[..., -1] = 0
            p = (p / p.sum(-1, keepdims=True)).astype(dtype)
            cases.append(case("softmax_cross_entropy", o.softmax_cross_entropy_with_integer_labels, [x, labels], [0]))
            cases.append(case("softmax_cross_entropy_soft", o.safe_softmax_cross_entropy, [x, p], [0]))
            if kind == "masked":
                continue
            binary = (rng.integers(0, 2, (3, 4))).astype(dtype)
            soft = (rng.integers(1, 8, (3, 4)) / 8).astype(dtype)
            signs = binary * 2 - 1
            for labels_ in (binary, soft):
                cases.append(case("sigmoid_binary_cross_entropy", o.sigmoid_binary_cross_entropy, [x, labels_], [0]))
                cases.append(case("sigmoid_focal_loss", o.sigmoid_focal_loss, [x, labels_], [0], {"gamma": 2.0}))
                cases.append(case("sigmoid_focal_loss", o.sigmoid_focal_loss, [x, labels_], [0], {"gamma": 1.5, "alpha": 0.25}))
            cases.append(case("hinge_loss", o.hinge_loss, [x, signs], [0]))
            cases.append(case("multiclass_hinge_loss", o.multiclass_hinge_loss, [x, labels], [0]))
            t = any_float(rng, (3, 4), dtype)
            cases.append(case("huber_loss", o.huber_loss, [x, t], [0, 1], {"delta": 0.75}))
            cases.append(case("log_cosh", o.log_cosh, [x, t], [0, 1]))
            cases.append(case("l2_loss", o.l2_loss, [x, t], [0, 1]))
            cases.append(case("squared_error", o.squared_error, [x, t], [0, 1]))
            cases.append(case("l1_loss", lambda a, b: jnp.abs(a - b), [x, t], [0, 1]))
            cases.append(case("cosine_similarity", o.cosine_similarity, [x, t], [0, 1], {"epsilon": 0.5}))
            cases.append(case("cosine_distance", o.cosine_distance, [x, t], [0, 1], {"epsilon": 0.0}))
            if kind == "usual":
                normal = generator("losses", "normal", np.dtype(dtype).name)
                log_q = np.asarray(jax.nn.log_softmax(jnp.asarray(x, np.float32))).astype(dtype)
                cases.append(case("kl_divergence", o.kl_divergence, [log_q, p], [0]))
                q = positive(rng, (3, 4), dtype)
                cases.append(case("kl_divergence", o.kl_divergence, [log_q, q / q.sum(-1, keepdims=True)], [0, 1]))
                cases.append(case("kl_divergence_with_log_targets", o.kl_divergence_with_log_targets, [log_q, t], [0, 1]))
                cases.append(case("normal_kl_divergence", normal_kl_divergence, [any_float(normal, (3, 4), dtype) for _ in range(2)], [0, 1]))
                cases.append(case("smooth_labels", o.smooth_labels, [p], [0], {"alpha": 0.125}))
    return cases


def cross_entropy_cases():
    """-(1-e) w_y l_y - e/K sum_i w_i l_i, and the mean that PyTorch returns."""
    rng = generator("cross_entropy")
    cases = []
    with x64():
        for smoothing in (0.0, 0.125):
            for weighted in (False, True):
                for ignored in (None, -100, 1):
                    x = any_float(rng, (5, 3), np.float64) * 3
                    y = np.array([0, 2, 1, 1, 2], np.int32)
                    if ignored is not None:
                        y[3] = ignored
                    w = positive(rng, (3,), np.float64) if weighted else np.ones(3)
                    kept = np.ones(5, bool) if ignored is None else y != ignored

                    def losses(x):
                        logs = jax.nn.log_softmax(x)
                        safe = jnp.where(kept, y, 0)
                        of_label = -jnp.take_along_axis(logs, safe[:, None], 1)[:, 0] * w[safe]
                        spread = -(logs * w).sum(1) / 3
                        return jnp.where(kept, (1 - smoothing) * of_label + smoothing * spread, 0)

                    def mean(x):
                        return losses(x).sum() / jnp.where(kept, w[jnp.where(kept, y, 0)], 0).sum()

                    cases.append(
                        {
                            "smoothing": smoothing,
                            "class_weights": array(w) if weighted else None,
                            "ignored": ignored,
                            "logits": array(x),
                            "labels": array(y),
                            "losses": array(losses(jnp.asarray(x))),
                            "mean": array(mean(jnp.asarray(x))),
                            "gradient": array(jax.grad(mean)(jnp.asarray(x))),
                        }
                    )
    return cases


def mean_cases():
    """jnp.mean and jnp.sum with where, and jnp.average."""
    cases = []
    for dtype in (np.float32, np.float64):
        rng = generator("means", np.dtype(dtype).name)
        with precision(dtype):
            x = any_float(rng, (3, 4), dtype)
            w = positive(rng, (3, 4), dtype)
            mask = rng.integers(0, 2, (3, 4)).astype(bool)
            cases.append(
                {
                    "x": array(x),
                    "weights": array(w),
                    "mask": array(mask),
                    "mean_where": array(jnp.mean(x, where=mask)),
                    "sum_where": array(jnp.sum(x, where=mask)),
                    "weighted_mean": array(jnp.average(x, weights=w)),
                }
            )
    return cases


def metric_batches():
    from sklearn import metrics as m

    cases = []
    for classes in (2, 5):
        rng = generator("metrics", classes)
        logits = [any_float(rng, (n, classes), np.float32) for n in (8, 5, 11)]
        # The last class is never a label, and so has no recall.
        labels = [rng.integers(0, max(2, classes - 1), len(x)).astype(np.int32) for x in logits]
        masks = [rng.integers(0, 4, len(x)) > 0 for x in logits]
        for masked in (False, True):
            keep = [mask if masked else np.ones_like(mask) for mask in masks]
            x = np.concatenate([x[k] for x, k in zip(logits, keep)])
            y = np.concatenate([y[k] for y, k in zip(labels, keep)])
            guess = x.argmax(1)
            shifted = x.astype(np.float64)
            logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
            losses = -logs[np.arange(len(y)), y]
            scores = {}
            for average in ("binary", "macro", "micro") if classes == 2 else ("macro", "micro"):
                options = {"average": average, "zero_division": 0}
                if average != "binary":
                    options["labels"] = list(range(classes))
                scores[average] = {
                    "precision": float(m.precision_score(y, guess, **options)),
                    "recall": float(m.recall_score(y, guess, **options)),
                    "f1": float(m.f1_score(y, guess, **options)),
                }
            cases.append(
                {
                    "classes": classes,
                    "logits": arrays(logits),
                    "labels": arrays(labels),
                    "masks": arrays(keep),
                    "accuracy": float(m.accuracy_score(y, guess)),
                    "top_2": float(m.top_k_accuracy_score(y, x, k=2, labels=range(classes))) if classes > 2 else 1.0,
                    "confusion": m.confusion_matrix(y, guess, labels=range(classes)).tolist(),
                    "mean": float(losses.mean()),
                    "perplexity": float(np.exp(losses.mean())),
                    "scores": scores,
                }
            )
    return cases


def make_losses():
    write("losses", {"losses": loss_cases(), "cross_entropy": cross_entropy_cases(), "means": mean_cases()})


def make_metrics():
    import sklearn

    write("metrics", {"scikit-learn": sklearn.__version__, "cases": metric_batches()})
