"""Random numbers by counter, and variates from them; compiled.

The generator is Philox 4x64-10 (Salmon, Moraes, Dror and Shaw, 2011), as numpy has it. A number depends on its key and
counter alone: nothing is kept between draws, so whatever stores its counter can be saved, loaded and replayed exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pmbandits.metrics.normal import normal_quantile
from pmbandits.state.compile import inlined, kernel

# purpose: the last word of the counter. Posterior samples, the coins of sketches, one of several tied mixtures, and
# which rewards are forgotten are what a policy draws of its own; delays are those of simulated rewards, and arrivals
# are the segments of simulated people.
PLAIN, GAMMA_A, GAMMA_B, POWER, POLICY, OUTSIDE, POSTERIOR, POSTERIOR_B, COIN, TIED, FORGOTTEN, DELAY = range(12)
ARRIVAL = 12

TO_UNIT = 1.0 / 9007199254740992.0  # 2⁻⁵³


@intrinsic
def _upper_64_bits_of_product(typingctx: Any, a: Any, b: Any) -> Any:
    """The upper 64 bits of the product of two 64-bit numbers."""
    del typingctx

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del context, signature
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


@kernel
def philox_random_words(k0, k1, c0, c1, c2, c3):
    """Four random 64-bit words for a key and a counter."""
    for _ in range(10):
        h0 = _upper_64_bits_of_product(np.uint64(0xD2E7470EE14C6C93), c0)
        l0 = np.uint64(0xD2E7470EE14C6C93) * c0
        h1 = _upper_64_bits_of_product(np.uint64(0xCA5A826395121157), c2)
        l1 = np.uint64(0xCA5A826395121157) * c2
        c0, c1, c2, c3 = h1 ^ c1 ^ k0, l1, h0 ^ c3 ^ k1, l0
        k0 += np.uint64(0x9E3779B97F4A7C15)
        k1 += np.uint64(0xBB67AE8584CAA73B)
    return c0, c1, c2, c3


@inlined
def uniform_from_word(word: np.uint64) -> float:
    """A number in [0, 1) with 53 bits, as numpy makes it."""
    return np.float64(word >> np.uint64(11)) * TO_UNIT


@inlined
def open_uniform_from_word(word: np.uint64) -> float:
    """A number in (0, 1), symmetric around ½, with 52 bits: one more would round to 1."""
    return (np.float64(word >> np.uint64(12)) + 0.5) * (2.0 * TO_UNIT)


@kernel
def gamma_variate(key: Any, n: int, arm: int, shape: float, purpose: int) -> float:
    """A gamma variate of a shape of at least 1 (Marsaglia and Tsang, 2000), by as many attempts as it takes.

    Their quick test, with some margin for rounding, accepts most attempts without logarithms.
    """
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    attempt = 0
    while True:
        w0, w1, w2, w3 = philox_random_words(
            key[0], key[1], np.uint64(n), np.uint64(arm), np.uint64(attempt), np.uint64(purpose)
        )
        for half in range(2):
            x = normal_quantile(open_uniform_from_word(w0 if half == 0 else w2))
            v = 1.0 + c * x
            if v <= 0.0:
                continue
            v = v * v * v
            u, square = open_uniform_from_word(w1 if half == 0 else w3), x * x
            if u < 1.0 - 0.034 * square * square - 1e-9:
                return d * v
            if math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
                return d * v
        attempt += 1


@kernel
def log_gamma_variate(key: Any, n: int, arm: int, shape: float, purpose: int) -> float:
    """The logarithm of a gamma variate. Below shape 1 it is one of shape + 1 times U^(1/shape).

    The logarithm keeps tiny shapes from vanishing.
    """
    if shape >= 1.0:
        return math.log(gamma_variate(key, n, arm, shape, purpose))
    which = np.uint64(0) if purpose == GAMMA_A else np.uint64(1)
    w0, _, _, _ = philox_random_words(key[0], key[1], np.uint64(n), np.uint64(arm), which, np.uint64(POWER))
    boost = math.log(open_uniform_from_word(w0)) / shape
    return math.log(gamma_variate(key, n, arm, shape + 1.0, purpose)) + boost
