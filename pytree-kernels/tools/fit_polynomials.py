"""Makes the polynomials of ../src/base: python fit_polynomials.py; needs mpmath.

Minimax by the exchange of Remez: the largest weighted error on an interval is made as small as it can be.
Prints for each function the largest error found and the coefficients, lowest first.
"""

from mpmath import asin, asinh, atan, atanh, cos, erf, erfc, exp, log, lu_solve, matrix, mp, mpf, nstr, pi, sin, sinh, sqrt

mp.dps = 50


def minimax(function, weight, low, high, degree):
    """The coefficients and the largest weighted error."""
    count = degree + 2
    nodes = [(low + high) / 2 + (high - low) / 2 * cos(pi * mpf(count - 1 - i) / (count - 1)) for i in range(count)]
    for _ in range(30):
        system, right = matrix(count, count), matrix(count, 1)
        for row, x in enumerate(nodes):
            for power in range(degree + 1):
                system[row, power] = x**power
            system[row, degree + 1] = (-1) ** row / weight(x)
            right[row] = function(x)
        solution = lu_solve(system, right)
        coefficients = [solution[power] for power in range(degree + 1)]
        points = [low + (high - low) * mpf(i) / (40 * count) for i in range(40 * count + 1)]
        errors = [(sum(c * x**k for k, c in enumerate(coefficients)) - function(x)) * weight(x) for x in points]
        extrema = []
        for x, error in zip(points, errors):
            if extrema and (extrema[-1][1] >= 0) == (error >= 0):
                if abs(error) > abs(extrema[-1][1]):
                    extrema[-1] = (x, error)
            else:
                extrema.append((x, error))
        if len(extrema) < count:
            break
        while len(extrema) > count:
            extrema.pop(0 if abs(extrema[0][1]) < abs(extrema[-1][1]) else -1)
        moved = max(abs(x - old) for (x, _), old in zip(extrema, nodes))
        if moved < (high - low) / 10**8:
            break
        nodes = [x for x, _ in extrema]
    return coefficients, max(abs(error) for error in errors)


def near_zero(series, otherwise):
    return lambda x: series(x) if abs(x) < mpf(10) ** -12 else otherwise(x)


def show(name, *arguments):
    coefficients, error = minimax(*arguments)
    print(f"{name}: {nstr(error, 3)}\n    " + ", ".join(nstr(c, 20) for c in coefficients))


half_log_2 = log(2) / 2 * mpf("1.0001")
exp_rest = near_zero(lambda r: mpf(1) / 2 + r / 6, lambda r: (exp(r) - 1 - r) / r**2)
exp_weight = lambda r: max(r * r, mpf("1e-4"))
show("exp, f32", exp_rest, exp_weight, -half_log_2, half_log_2, 5)
show("exp, f64", exp_rest, exp_weight, -half_log_2, half_log_2, 9)

greatest = ((sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1) * mpf("1.0005")) ** 2
log_rest = near_zero(lambda z: mpf(2) / 3 + 2 * z / 5, lambda z: 2 * (atanh(sqrt(z)) / sqrt(z) - 1) / z)
log_weight = lambda z: z + mpf("1e-3")
show("log, f32", log_rest, log_weight, mpf(0), greatest, 3)
show("log, f64", log_rest, log_weight, mpf(0), greatest, 7)
artanh_rest = near_zero(lambda z: mpf(1) / 3 + z / 5, lambda z: (atanh(sqrt(z)) / sqrt(z) - 1) / z)
show("power, f32", artanh_rest, log_weight, mpf(0), greatest, 3)
artanh_end = near_zero(lambda z: mpf(1) / 5 + z / 7, lambda z: (artanh_rest(z) - mpf(1) / 3) / z)
show("power, f64", artanh_end, lambda z: z * z + mpf("1e-5"), mpf(0), greatest, 6)

quarter = pi / 4 * mpf("1.0001")
cos_rest = near_zero(lambda z: mpf(1) / 24 - z / 720, lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2)
show("cos, f32", cos_rest, lambda z: z * z + mpf("1e-2"), mpf(0), quarter**2, 2)
show("cos, f64", cos_rest, lambda z: z * z + mpf("1e-2"), mpf(0), quarter**2, 5)

# The p in f(x) = x + x³·p(x²). Arguments: the function, the coefficients of x³ and x⁵, the greatest x, the degrees.
odd_functions = {
    "sin": (sin, -mpf(1) / 6, mpf(1) / 120, quarter, 2, 5),
    "asin": (asin, mpf(1) / 6, mpf(3) / 40, "0.5", 4, 11),
    "atan": (atan, -mpf(1) / 3, mpf(1) / 5, "0.41422", 4, 10),
    "sinh": (sinh, mpf(1) / 6, mpf(1) / 120, 1, 3, 6),
    "asinh": (asinh, -mpf(1) / 6, mpf(3) / 40, "0.5", 5, 12),
    "atanh": (atanh, mpf(1) / 3, mpf(1) / 5, "0.5", 5, 13),
}
for name, (function, third, fifth, greatest, degree_f32, degree_f64) in odd_functions.items():
    rest = near_zero(lambda z: third + z * fifth, lambda z: (function(sqrt(z)) / sqrt(z) - 1) / z)
    for dtype, degree in [("f32", degree_f32), ("f64", degree_f64)]:
        show(f"{name}, {dtype}", rest, lambda z: z + mpf("1e-2"), mpf(0), mpf(greatest) ** 2, degree)

erf_near = near_zero(lambda z: 2 / sqrt(pi) * (1 - z / 3), lambda z: erf(sqrt(z)) / sqrt(z))
show("erf near, f32", erf_near, lambda z: mpf(1), mpf(0), mpf(1), 6)
show("erf far, f32", lambda x: -log(erfc(x)), erfc, mpf(1), mpf(4), 7)


def x_of(t, k):
    return k * (1 + t) / (1 - t)


def scaled_erfc(x):
    return exp(x * x) * erfc(x)


def show_erfc(name, k, function, weight, low, high, degree):
    """The function and the weight of the error are functions of x, and the polynomial is one of t = (x - k)/(x + k)."""
    ends = [(mpf(x) - k) / (mpf(x) + k) for x in (low, high)]
    show(name, lambda t: function(x_of(t, k)), lambda t: weight(x_of(t, k)), *ends, degree)


flat = lambda x: (1 + 2 * x) * scaled_erfc(x)
x_of_inverse = lambda u: 3 * (1 / u - 1)
by_inverse = lambda u: scaled_erfc(x_of_inverse(u)) / u
show("erfc, f32", by_inverse, lambda u: 1 / by_inverse(u), 1 / (1 + mpf("10.1") / 3), mpf(1), 9)
show("erfc, f32, exponential", exp, lambda r: exp(-r), -log(2) / 2 * mpf("1.001"), log(2) / 2 * mpf("1.001"), 6)
show_erfc("erfc, f64", 4, flat, lambda x: 1 / flat(x), 0, "27.3", 22)
show_erfc("erf far, f64", 3, scaled_erfc, lambda x: exp(-x * x), 1, 6, 11)
show("erf near, f64", erf_near, lambda z: mpf(1), mpf(0), mpf(1), 11)
