"""convolution.json: convolutions and pooling.

Letters (`dimension_numbers`) are absent where they are Flax's. Of equal maxima of a window, the first has the gradient.
"""

import flax.linen.pooling
import jax.numpy as jnp
from jax import lax

from golden_cases import *  # noqa: F403 (the samplers and writers)

LAST = {1: ("NWC", "WIO", "NWC"), 2: ("NHWC", "HWIO", "NHWC"), 3: ("NDHWC", "DHWIO", "NDHWC")}


def conv(x, kernel, strides, padding, **settings):
    """Input and kernel have the shapes given; settings are those of `lax.conv_general_dilated`."""
    numbers = settings.get("dimension_numbers", LAST[len(strides)])
    options = {**settings, "dimension_numbers": numbers}
    return op(
        "conv",
        lambda x, k: lax.conv_general_dilated(x, k, strides, padding, **options),
        [(x, any_float), (kernel, any_float)],
        strides=strides,
        padding=padding,
        **settings,
    )


def convolutions():
    yield conv((1, 5, 2), (3, 2, 2), (1,), "SAME")
    yield conv((2, 6, 1), (2, 1, 2), (2,), "VALID")
    yield conv((1, 5, 1), (3, 1, 1), (2,), ((2, 1),))
    yield conv((1, 5, 1), (3, 1, 1), (1,), ((-1, 1),))
    yield conv((1, 4, 1), (2, 1, 1), (1,), "SAME_LOWER")
    yield conv((1, 4, 1), (2, 1, 2), (1,), ((1, 0),), lhs_dilation=(2,))
    yield conv((1, 6, 1), (3, 1, 1), (1,), "SAME", rhs_dilation=(2,))
    yield conv((1, 5, 1), (2, 1, 1), (2,), ((1, 2),), lhs_dilation=(3,), rhs_dilation=(2,))
    yield conv((1, 2, 1), (4, 1, 1), (1,), "VALID")
    yield conv((0, 4, 1), (2, 1, 1), (1,), "VALID")
    yield conv((1, 3, 3, 2), (2, 2, 2, 2), (1, 1), "SAME")
    yield conv((2, 4, 3, 1), (3, 2, 1, 2), (2, 1), "VALID")
    yield conv((1, 3, 4, 1), (2, 2, 1, 1), (2, 3), "SAME")
    yield conv((1, 3, 3, 2), (1, 1, 2, 3), (1, 1), "VALID")
    yield conv((1, 3, 3, 2), (2, 2, 1, 2), (1, 1), "VALID", feature_group_count=2)
    yield conv((1, 4, 4), (2, 2, 4), (1,), "SAME", feature_group_count=2)
    yield conv((1, 4, 3), (2, 1, 6), (2,), "SAME", feature_group_count=3)
    yield conv((4, 4, 1), (2, 1, 4), (1,), "VALID", batch_group_count=2)
    yield conv((2, 3, 3, 2), (2, 2, 2, 2), (1, 1), "SAME", batch_group_count=2)
    yield conv((1, 2, 3, 3), (2, 2, 2, 2), (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))
    yield conv((1, 2, 4), (2, 2, 2), (2,), "SAME", dimension_numbers=("NCW", "OIW", "NCW"))
    yield conv((2, 2, 1, 3), (2, 1, 2, 2), (1, 1), "SAME", dimension_numbers=("WNCH", "OIHW", "CHNW"))
    yield conv((1, 2, 3, 2, 1), (2, 2, 1, 1, 2), (1, 2, 1), "SAME")
    yield conv((1, 6, 1), (2, 1, 2), (2,), ((-1, -2),), rhs_dilation=(2,))
    yield conv((1, 4, 1), (2, 1, 1), (1,), ((-2, -1),), lhs_dilation=(2,))
    yield conv((1, 4, 3, 1), (2, 2, 1, 1), (1, 2), ((-1, 2), (1, -1)))
    yield conv((1, 4, 4), (2, 2, 4), (1,), ((1, 1),), lhs_dilation=(2,), rhs_dilation=(3,), feature_group_count=2)
    yield conv((1, 3, 3, 3), (2, 2, 1, 3), (2, 1), ((1, -1), (0, 2)), lhs_dilation=(2, 1), rhs_dilation=(1, 2), feature_group_count=3)
    yield conv((4, 4, 1), (2, 1, 4), (2,), ((2, 1),), lhs_dilation=(3,), rhs_dilation=(2,), batch_group_count=2)
    yield conv((3, 3, 2), (2, 2, 3), (1,), ((-1, 2),), rhs_dilation=(2,), batch_group_count=3)
    yield conv((2, 4, 4, 3), (3, 3, 1, 3), (1, 1), "SAME", feature_group_count=3)
    yield conv((1, 5, 4, 2), (3, 2, 1, 4), (2, 1), "SAME", feature_group_count=2)
    yield conv((2, 4, 3), (2, 4, 1), (1,), "SAME", feature_group_count=4, dimension_numbers=("NCW", "WOI", "NWC"))
    yield conv((2, 3, 3, 2), (3, 3, 2, 2), (1, 1), "VALID")


def transposed():
    table = [
        ((1, 3, 2), (3, 2, 2), (2,), "SAME", None),
        ((1, 3, 1), (3, 1, 2), (2,), "VALID", None),
        ((1, 3, 1), (2, 1, 1), (3,), "VALID", None),
        ((1, 3, 1), (2, 1, 1), (3,), "SAME", None),
        ((1, 4, 1), (3, 1, 1), (1,), "SAME", (2,)),
        ((1, 3, 1), (3, 1, 1), (2,), ((1, 2),), None),
        ((1, 2, 3, 1), (2, 3, 1, 1), (2, 1), "SAME", None),
    ]
    for x, kernel, strides, padding, dilation in table:
        yield op(
            "conv_transpose",
            lambda x, k, s=strides, p=padding, d=dilation: lax.conv_transpose(
                x, k, s, p, rhs_dilation=d, dimension_numbers=LAST[len(s)]
            ),
            [(x, any_float), (kernel, any_float)],
            strides=strides,
            padding=padding,
            **({} if dilation is None else {"rhs_dilation": dilation}),
        )


def pooling():
    table = [
        ((1, 6, 1), (2,), (2,), "VALID"),
        ((1, 5, 2), (3,), (1,), "SAME"),
        ((1, 5, 1), (3,), (2,), ((1, 1),)),
        ((1, 4, 4, 1), (2, 2), (2, 2), "VALID"),
        ((1, 3, 4, 2), (2, 3), (1, 2), "SAME"),
        ((3, 4, 1), (2, 2), (1, 2), "VALID"),
        ((1, 2, 3, 2, 1), (2, 2, 1), (1, 1, 1), "VALID"),
    ]
    for name, function, sampler in (
        ("max_pool", flax.linen.max_pool, grid),
        ("min_pool", flax.linen.pooling.min_pool, grid),
        ("average_pool", flax.linen.avg_pool, any_float),
    ):
        for shape, window, strides, padding in table:
            yield op(
                name,
                lambda x, f=function, w=window, s=strides, p=padding: f(x, w, s, p),
                [(shape, sampler)],
                window=window,
                strides=strides,
                padding=padding,
            )
    yield op(
        "average_pool",
        lambda x: flax.linen.avg_pool(x, (3,), (1,), "SAME", count_include_pad=False),
        [((1, 4, 1), any_float)],
        window=(3,),
        strides=(1,),
        padding="SAME",
        count_include_pad=False,
    )
    yield op(
        "sum_pool",
        lambda x: flax.linen.pooling.pool(x, 0.0, lax.add, (2, 2), (1, 1), "SAME"),
        [((1, 3, 3, 1), any_float)],
        window=(2, 2),
        strides=(1, 1),
        padding="SAME",
    )


def make_convolution():
    write("convolution", {"cases": operation_cases([*convolutions(), *transposed(), *pooling()])})
