"""Runs the programs of a section in interleaved rounds, and keeps the lines that they print.

A file SECTION.jsonl has a line about the run, and then a line for each figure (`document.rows`). So the page can be written
again without measuring.
"""

import datetime
import json
import os
import re
import subprocess
import time

from . import builds, figures
from .machine import Load
from .programs import CACHE, ROOT, Unavailable, last_line, say

TIMEOUT = 900
# Libraries of linear algebra take their number of threads from these variables. The others take it from the cores.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "MATMUL_NUM_THREADS")


def measure(section, programs, rounds, core_counts, samples):
    """Measures a section. Returns a dictionary about the run, and its results."""
    if section.builds:
        # cargo takes all cores.
        core_counts = [os.cpu_count()]
    elif section.one_core:
        core_counts = [min(core_counts)]
    # The programs save and read files there.
    CACHE.mkdir(parents=True, exist_ok=True)
    results, reasons = [], {}
    groups = [[it for it in group if _is_available(section, it, programs, reasons)] for group in section.groups]
    # The programs are built by now.
    load = Load()
    for number in range(rounds):
        for cores in core_counts:
            for group in groups:
                # Every second round begins with the last program, so none is always the first after a pause.
                for program in group if number % 2 == 0 else reversed(group):
                    say(f"section {section.name}, round {number + 1} of {rounds}, {cores_shown(cores)}: {program.shown()}")
                    results += _run(section, program, programs, cores, number, samples, reasons)
    others = load.of_others()
    about = {
        "title": section.title,
        "note": section.note,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "rounds": rounds,
        "cores": core_counts,
        # The number of samples in each round, if it is not that of the programs.
        "samples": samples or os.environ.get("BENCH_SAMPLES"),
        "cores_of_others": others,
        "left_out": reasons,
    }
    return about, results


def save(folder, section, about, rows):
    """Keeps the rows of a section, instead of those of its last run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{section.name}.jsonl").write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in [about, *rows]))


def load(folder, section):
    """Returns the dictionary about the last run of a section, and its rows; or None if it was never measured."""
    path = folder / f"{section.name}.jsonl"
    if not path.exists():
        return None
    about, *rows = map(json.loads, path.read_text().splitlines())
    return about, rows


def cores_shown(cores):
    return "1 core" if cores == 1 else f"{cores} cores"


def restricted(command, cores):
    """Returns a command that runs on the first cores, and its environment."""
    environment = os.environ | {name: str(cores) for name in THREADS}
    environment |= {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONDONTWRITEBYTECODE": "1"}
    numbers = sorted(os.sched_getaffinity(0))[:cores]
    return ["taskset", "-c", ",".join(map(str, numbers)), *command], environment


def _is_available(section, program, programs, reasons):
    """Builds or finds a program, unless the section measures builds. Ends the comparison if one of ours cannot be built."""
    try:
        programs.check(program.kind)
        if not section.builds:
            programs.command(program)
        return True
    except Unavailable as error:
        if program.kind in ("bench", "example"):
            raise SystemExit(f"compare: {program.shown()}: {error}") from error
        reasons[program.shown()] = str(error)
        return False


def _run(section, program, programs, cores, number, samples, reasons):
    """Runs a program and returns its results. If it fails, adds the reason."""
    if section.builds:
        try:
            workload, values = builds.measure(program)
            found = whole(section, program, workload, values)
            return [result | {"cores": cores, "round": number} for result in found]
        except Unavailable as error:
            reasons[program.shown()] = str(error)
            return []
    command, environment = restricted(programs.command(program), cores)
    if samples:
        environment["BENCH_SAMPLES"] = str(samples)
    # Programs that measure their cold start subtract this time from the time of their first result.
    environment["BENCH_START"] = str(time.time())
    start = time.perf_counter()
    try:
        process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        reasons[program.shown()] = f"it took more than {TIMEOUT} s"
        return []
    seconds = time.perf_counter() - start
    found = figures.parse(process.stdout)
    if section.whole_process:
        found = whole_process(section, program, process.stdout, seconds)
    if process.returncode != 0 or not found:
        reasons[program.shown()] = last_line(process.stderr) or f"it ended with {process.returncode} and printed no result"
    return [result | {"cores": cores, "round": number} for result in found]


def whole_process(section, program, output, seconds):
    """Returns the time and the accuracy of a process as results. Without an accuracy at the end of the output, there are none."""
    accuracy = re.search(r"accuracy:? ([0-9.]+)\s*$", output)
    if not accuracy:
        return []
    return whole(section, program, "digits", [("seconds", "s", seconds), ("accuracy", "", float(accuracy[1]))])


def whole(section, program, workload, values):
    """Returns the results of a whole program: `values` has operations, their units and figures."""
    peer = figures.OURS if program.kind in ("example", "modules") else program.name.removeprefix("peer-").removesuffix("_digits")
    common = {"section": section.name, "workload": workload, "peer": peer}
    return [common | {"op": op, "unit": unit, "median": value, "min": value} for op, unit, value in values]
