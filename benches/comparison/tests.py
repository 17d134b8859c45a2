"""Tests of the comparison that measure nothing: `python3 -m unittest comparison.tests` in `benches`."""

import math
import tempfile
import unittest
from pathlib import Path

from . import builds, document, figures, machine, programs, rounds, sections

ABOUT = {"setting": ["a machine"], "date": "2026-01-02", "rounds": 3, "cores": [1], "cores_of_others": 0.25, "left_out": {}}


def result(peer, value, operation="us_per_step", workload="C1", cores=1, number=0, unit="us"):
    common = {"section": "C", "workload": workload, "op": operation, "peer": peer, "unit": unit, "cores": cores, "round": number}
    return common | {"median": value, "min": value}


def section(**changes):
    found = sections.Section("C", "A training step", "", [[sections.bench("training", "C1")]], {"us_per_step": "a step, µs"}, {"loss_step1": 1e-4})
    return found._replace(**changes)


class Parsing(unittest.TestCase):
    def test_other_lines_are_skipped(self):
        line = '{"section":"C","workload":"C1","op":"us_per_step","peer":"pytree","unit":"us","median":2.5,"min":2}'
        output = f"warning: something\n{line}\n{{not json\n{{}}\n"
        self.assertEqual([(it["op"], it["median"]) for it in figures.parse(output)], [("us_per_step", 2.5)])

    def test_accuracy_of_whole_process(self):
        program = sections.Program("rust", "peer-burn", ("digits",))
        found = rounds.whole_process(section(), program, "epoch 1\ntest accuracy: 0.9750\n", 1.5)
        self.assertEqual([(it["peer"], it["op"], it["median"]) for it in found], [("burn", "seconds", 1.5), ("burn", "accuracy", 0.975)])
        self.assertEqual(rounds.whole_process(section(), program, "it failed\n", 1.5), [])


class Figures(unittest.TestCase):
    def test_quartiles(self):
        self.assertEqual(figures.spread([5.0]), (5.0, 5.0, 5.0))
        self.assertEqual(figures.spread([4.0, 1.0, 3.0, 2.0, 5.0]), (2.0, 3.0, 4.0))

    def test_ratio_is_of_the_same_round(self):
        # Both are ten times slower in the last round.
        lines = [result("pytree", value, number=k) for k, value in enumerate([1.0, 2.0, 10.0])]
        lines += [result("jax", value, number=k) for k, value in enumerate([2.0, 2.0, 20.0, 1.0])]
        found = figures.Results(lines).ratio(figures.Figure("C1", "us_per_step", 1), "jax")
        self.assertEqual(found, (0.5, 0.5, 0.75))

    def test_ratio_without_common_round(self):
        lines = [result("pytree", 1.0, number=0), result("jax", 1.0, number=1)]
        self.assertIsNone(figures.Results(lines).ratio(figures.Figure("C1", "us_per_step", 1), "jax"))

    def test_disagreeing_peer_is_removed(self):
        for theirs, agrees in [(2.0001, True), (2.001, False), (math.nan, False), (None, False)]:
            lines = [result("pytree", 2.0, "loss_step1"), result("pytree", 1.0), result("jax", 1.0)]
            lines += [] if theirs is None else [result("jax", theirs, "loss_step1")]
            results = figures.Results(lines)
            found = results.disagreements({"loss_step1": 1e-4})
            self.assertEqual([it.peer for it in found], [] if agrees else ["jax"], theirs)
            self.assertEqual(results.without(found).peers(["us_per_step"]), ["pytree", "jax"] if agrees else ["pytree"])

    def test_other_weights_are_not_checked(self):
        results = figures.Results([result("pytree", 2.0, "loss_step1"), result("burn", 1.0)])
        self.assertEqual(len(results.disagreements({"loss_step1": 1e-4}, [("C2", "burn")])), 1)
        self.assertEqual(results.disagreements({"loss_step1": 1e-4}, [("C1", "burn")]), [])

    def test_values_of_bf16_agree_within_two_per_cent(self):
        for theirs, agrees in [(2.03, True), (2.05, False)]:
            lines = [result("pytree", 2.0, "loss_step1", "decoder_bf16"), result("jax", theirs, "loss_step1", "decoder_bf16")]
            found = figures.Results(lines).disagreements({"loss_step1": 1e-4})
            self.assertEqual([it.peer for it in found], [] if agrees else ["jax"], theirs)

    def test_one_bad_round_disagrees(self):
        lines = [result("pytree", 2.0, "loss_step1", number=k) for k in range(3)]
        lines += [result("jax", 3.0 if k == 1 else 2.0, "loss_step1", number=k) for k in range(3)]
        self.assertEqual(len(figures.Results(lines).disagreements({"loss_step1": 1e-4})), 1)

    def test_other_workloads_of_a_disagreeing_peer_stay(self):
        lines = [result(peer, 2.0, "loss_step1", workload) for peer in ("pytree", "jax") for workload in ("C1", "C2")]
        lines += [result("jax", 3.0, "loss_step1", "C1", number=1), result("jax", 1.0, workload="C2")]
        results = figures.Results(lines)
        kept = results.without(results.disagreements({"loss_step1": 1e-4}))
        self.assertEqual(kept.figures("us_per_step"), [figures.Figure("C2", "us_per_step", 1)])


class Documents(unittest.TestCase):
    def rows(self, lines, **changes):
        return document.rows(section(**changes), "abc", lines)

    def page(self, lines, **changes):
        return document.page({"C": (ABOUT, self.rows(lines, **changes)[0])})

    def test_row_has_medians_and_ratios(self):
        found, left_out = self.rows([result("jax", 4.0), result("pytree", 3.0), result("pytree", 1.0, "loss_step1"), result("jax", 1.0, "loss_step1")])
        row = {"commit": "abc", "figure": "a step, µs", "workload": "C1", "cores": 1, "medians": {"pytree": 3.0, "jax": 4.0}, "ratios": {"jax": 0.75}}
        self.assertEqual((found, left_out), ([row], {}))

    def test_row_has_quartiles_of_several_rounds(self):
        lines = [result(peer, value, number=number) for number in range(3) for peer, value in [("pytree", 3.0 + number), ("jax", 4.0)]]
        [row], _ = self.rows(lines)
        self.assertEqual((row["quartiles"], row["quartiles_of_ratios"]), ([3.5, 4.5], {"jax": [0.875, 1.125]}))

    def test_disagreeing_peer_is_left_out(self):
        lines = [result("pytree", 1.0, "loss_step1"), result("jax", 1.5, "loss_step1"), result("jax", 4.0), result("pytree", 3.0)]
        [row], left_out = self.rows(lines)
        self.assertEqual(row["medians"], {"pytree": 3.0})
        self.assertEqual(left_out, {"jax, C1, cores 1": "its loss_step1 is 1.5, ours is 1"})

    def test_page_has_the_fastest_library(self):
        lines = [result(peer, value) for peer, value in [("pytree", 3000.0), ("jax", 4000.0), ("torch", 2000.0), ("by hand", 1.0)]]
        lines += [result("pytree", 5.0, cores=2), result("jax", 100.0, cores=2)]
        self.assertIn("| C1: MLP 64-128-128-10 | 3 ms | torch 2 ms | 1.50 | 0.05 | abc |\n", self.page(lines))
        self.assertIn("| 3 ms | – | – | – | abc |\n", self.page(lines[:1]))

    def test_page_names_the_machine(self):
        text = self.page([result("pytree", 3.0)])
        self.assertIn("\nMachine: a machine; 2026-01-02; other processes used at most 0.00 cores, 0.25 in section C.\n", text)

    def test_figures_of_the_page_are_measured(self):
        known = {it.name: it for it in sections.SECTIONS}
        for name, operation, workload, _ in document.SHOWN:
            self.assertRegex(known[name].operations[operation], ", (ns|µs|ms|s)\\b")
            _, found = rounds.load(programs.HERE / "results", known[name])
            self.assertIn(workload, [row["workload"] for row in found])

    def test_results_are_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIsNone(rounds.load(Path(folder) / "results", section()))
            rounds.save(Path(folder) / "results", section(), ABOUT, [result("pytree", 3.0)])
            self.assertEqual(rounds.load(Path(folder) / "results", section()), (ABOUT, [result("pytree", 3.0)]))


class Commands(unittest.TestCase):
    def test_given_python_runs_the_file(self):
        found = programs.Programs({"python": "sh"}).command(sections.python("jax_training", "C1"))
        self.assertEqual(found[1:], [str(programs.HERE / "jax_training.py"), "C1"])

    def test_missing_programs_have_a_reason(self):
        found = programs.Programs({"torch": "/no/python"}, ["rust"])
        for program, reason in [(sections.torch("torch_training"), "/no/python"), (sections.rust("peer-burn"), "--without")]:
            for _ in range(2):
                with self.assertRaisesRegex(programs.Unavailable, reason):
                    found.command(program)

    def test_reason_is_the_last_line(self):
        self.assertEqual(programs.last_line(f"trace\nerror: {programs.ROOT}/a failed\n\n"), "error: ./a failed")
        self.assertEqual(programs.last_line("thread 'main' panicked at a.rs:1:2:\nno folder\nstack backtrace:\n  0: main\nnote: more\n"), "no folder")
        self.assertEqual(programs.last_line("\n"), "")

    def test_compiled_packages_are_counted_once(self):
        lines = ['{"reason":"compiler-artifact","package_id":"a"}'] * 2 + ['{"reason":"build-finished"}', "text"]
        self.assertEqual(builds.crates("\n".join(lines)), 1)

    def test_cores_restrict_threads(self):
        command, environment = rounds.restricted(["program"], 1)
        self.assertEqual((command[:2], command[3:]), (["taskset", "-c"], ["program"]))
        self.assertEqual((environment["OMP_NUM_THREADS"], environment["JAX_PLATFORMS"]), ("1", "cpu"))


    def test_arguments_of_commands(self):
        found = programs.Programs()
        found.found["example", "digits"] = ["digits"]
        found.fetched["$(tools/fetch minilm)"] = "folder"
        program = sections.Program("example", "digits", ("--cold", "$(tools/fetch minilm)"))
        self.assertEqual(found.command(program), ["digits", "--cold", "folder"])


class Sections(unittest.TestCase):
    def test_ours_is_the_first_program(self):
        for it in sections.SECTIONS:
            self.assertTrue(all(group[0].kind in ("bench", "example", "modules") for group in it.groups), it.name)

    def test_names(self):
        self.assertEqual([it.name for it in sections.named(["H1", "A"])], ["A", "H1"])
        with self.assertRaisesRegex(ValueError, "found H99"):
            sections.named(["H99"])

    def test_programs_exist(self):
        benches = Path(__file__).resolve().parents[1]
        files = {"bench": "{}.rs", "python": "{}.py", "torch": "{}.py", "example": "../examples/{}/main.rs"}
        for it in sections.SECTIONS:
            for program in (program for group in it.groups for program in group):
                if program.kind in files:
                    self.assertTrue((benches / files[program.kind].format(program.name)).exists(), program)


class Machine(unittest.TestCase):
    def test_busy_seconds(self):
        tick = machine.os.sysconf("SC_CLK_TCK")
        self.assertEqual(machine.busy_seconds("cpu  10 20 30 400 50 6 7 8 9 9\ncpu0 1 1 1 1\n"), (10 + 20 + 30 + 6 + 7 + 8) / tick)
        self.assertIsNone(machine.busy_seconds(""))


if __name__ == "__main__":
    unittest.main()
