"""Medians, quartiles, ratios and agreement of the results that programs print.

A result is a dictionary: the line that a program printed, with the cores and the round that `rounds` adds. A figure is identified by
its workload, operation and number of cores.
"""

import json
import math
import statistics
from collections import defaultdict
from typing import NamedTuple

OURS = "pytree"


class Spread(NamedTuple):
    """A median between the quartiles."""

    low: float
    median: float
    high: float


class Figure(NamedTuple):
    workload: str
    operation: str
    cores: int


class Disagreement(NamedTuple):
    """A peer computed another value than pytree."""

    figure: Figure
    peer: str
    ours: float
    theirs: float


def parse(output):
    """Returns the results among the lines of an output. Programs also print other lines."""
    results = []
    for line in output.splitlines():
        if not line.startswith("{"):
            continue
        try:
            result = json.loads(line)
        except ValueError:
            continue
        if {"workload", "op", "peer", "median"} <= result.keys():
            results.append(result)
    return results


def spread(values):
    """Returns the median and the quartiles of some values. The quartiles are among the values or between two of them."""
    values = list(values)
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(low, median, high)


# The tolerance of values that are computed in bf16, after some steps of training.
OF_BF16 = 2e-2


class Results:
    """The results of a section, by figure, peer and round."""

    def __init__(self, results):
        self.values = defaultdict(lambda: defaultdict(dict))
        self.units = {}
        for result in results:
            figure = Figure(result["workload"], result["op"], result["cores"])
            self.values[figure][result["peer"]][result["round"]] = result["median"]
            self.units[figure.operation] = result["unit"]

    def figures(self, operation):
        """Returns the figures of an operation, in the order in which they were measured."""
        return [figure for figure in self.values if figure.operation == operation]

    def peers(self, operations):
        """Returns the peers with figures of some operations, pytree first."""
        found = [peer for figure in self.values if figure.operation in operations for peer in self.values[figure]]
        return sorted(dict.fromkeys(found), key=lambda peer: peer != OURS)

    def spread(self, figure, peer):
        """Returns the spread of a figure over the rounds, or None if the peer has no such figure."""
        rounds = self.values.get(figure, {}).get(peer, {})
        return spread(rounds.values()) if rounds else None

    def ratio(self, figure, peer):
        """Returns the spread of our figure divided by the peer's in the same round, or None if no round has both.

        Programs of one round ran within the same minutes, so a slow machine changes both alike.
        """
        ours, theirs = (self.values.get(figure, {}).get(name, {}) for name in (OURS, peer))
        ratios = [ours[number] / theirs[number] for number in ours if theirs.get(number)]
        return spread(ratios) if ratios else None

    def disagreements(self, checks, unchecked=()):
        """Returns the values that differ from ours by more than a tolerance, relative to ours.

        `checks` has the tolerance of each operation whose value all programs must agree on. It is at least 2 % in workloads whose names
        end with `bf16`, because such numbers have eight bits. A peer without a value that we print disagrees, because nothing shows that
        it computes the same, unless its pair with the workload is in `unchecked`.
        """
        found = []
        for figure in self.values:
            tolerance = checks.get(figure.operation)
            ours = self.spread(figure, OURS)
            if tolerance is None or ours is None:
                continue
            if figure.workload.endswith("bf16"):
                tolerance = max(tolerance, OF_BF16)
            for peer in self.peers_of(figure.workload, figure.cores):
                if (figure.workload, peer) in unchecked:
                    continue
                theirs = self.values[figure].get(peer, {}).values()
                limit = tolerance * max(abs(ours.median), 1e-6)
                # A value that is missing or NaN also disagrees.
                if not theirs or not all(abs(value - ours.median) <= limit for value in theirs):
                    median = statistics.median(theirs) if theirs else math.nan
                    found.append(Disagreement(figure, peer, ours.median, median))
        return found

    def peers_of(self, workload, cores):
        """Returns the peers with a figure of a workload, without pytree."""
        of_workload = [figure for figure in self.values if (figure.workload, figure.cores) == (workload, cores)]
        return list(dict.fromkeys(peer for figure in of_workload for peer in self.values[figure] if peer != OURS))

    def without(self, disagreements):
        """Returns these results without the workloads of peers that computed something else."""
        excluded = {(it.figure.workload, it.figure.cores, it.peer) for it in disagreements}
        kept = Results([])
        kept.units = self.units
        for figure, peers in self.values.items():
            for peer, rounds in peers.items():
                if (figure.workload, figure.cores, peer) not in excluded:
                    kept.values[figure][peer] = rounds
        return kept
