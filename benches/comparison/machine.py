"""Describes the machine, and measures how busy other processes keep it."""

import os
import platform
import re
import resource

FEATURES = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "asimd")


def describe():
    """Returns one line about the processor, the memory and the system."""
    info = _read("/proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.+)$", info, re.M)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", info, re.M)
    flags = flags[1].split() if flags else []
    memory = re.search(r"^MemTotal:\s*(\d+) kB", _read("/proc/meminfo"), re.M)
    parts = [model[1] if model else platform.machine(), f"{os.cpu_count()} cores"]
    parts += [feature for feature in FEATURES if feature in flags]
    if memory:
        parts.append(f"{int(memory[1]) / 2**20:.0f} GB")
    if "hypervisor" in flags:
        parts.append("virtual")
    return ", ".join([*parts, f"{platform.system()} {platform.release().split('-')[0]}"])


class Load:
    """Measures the part of the machine that other processes use, from its creation on."""

    def __init__(self):
        self.start = self._now()

    def of_others(self):
        """Returns the number of cores that other processes kept busy on average, or None if the system does not tell."""
        (busy, own, elapsed), (busy_before, own_before, elapsed_before) = self._now(), self.start
        if busy is None or elapsed == elapsed_before:
            return None
        return max(0.0, ((busy - busy_before) - (own - own_before)) / (elapsed - elapsed_before))

    @staticmethod
    def _now():
        usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        own = sum(it.ru_utime + it.ru_stime for it in usage)
        elapsed = os.times().elapsed
        return busy_seconds(_read("/proc/stat")), own, elapsed


def busy_seconds(stat):
    """Returns the seconds of all cores that are not idle, from the text of /proc/stat, or None."""
    line = re.search(r"^cpu +(.+)$", stat, re.M)
    if not line:
        return None
    # user, nice, system, idle, iowait, irq, softirq, steal. The fields after these are contained in the first two.
    fields = [int(field) for field in line[1].split()][:8]
    return (sum(fields) - sum(fields[3:5])) / os.sysconf("SC_CLK_TCK")


def _read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
