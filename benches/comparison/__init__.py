"""The parts of `benches/compare`, which measures pytree and its peers in turn.

`sections` lists what is compared, `programs` builds and finds the programs, `rounds` runs them, `builds` measures builds, `figures`
computes ratios from the lines that they print, `machine` describes the machine, and `document` makes the rows of benches/results and
docs/reference/performance.md. The standard library is enough.
"""
