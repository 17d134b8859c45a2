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
    def write(self, lines, **changes):
        return document.write([(section(**changes.pop("section", {})), ABOUT | changes, lines)])

    def test_table(self):
        lines = [result("jax", 4.0), result("pytree", 3.0), result("pytree", 1.0, "loss_step1"), result("jax", 1.0, "loss_step1")]
        text = self.write(lines)
        self.assertIn("| a step, µs | pytree | jax |\n|---|---:|---:|\n| C1, 1 core | 3 | 4 (0.75) |\n", text)
        self.assertIn("`benches/compare --sections C --rounds 3 --cores 1`, 2026-01-02; other processes used 0.25 cores", text)
        self.assertIn("C1 loss step1 1", text)
        self.assertIn("`cargo bench --bench training -- C1`", text)

    def test_number_of_samples_is_part_of_the_command(self):
        text = self.write([result("pytree", 3.0)], samples="6")
        self.assertIn("`BENCH_SAMPLES=6 benches/compare --sections C --rounds 3 --cores 1`", text)

    def test_best_peer(self):
        lines = [result(peer, value) for peer, value in [("pytree", 3.0), ("jax", 4.0), ("torch", 2.0), ("by hand", 1.0)]]
        self.assertIn("| 1.50 |\n", self.write(lines))
        self.assertIn("| 0.75 |\n", self.write(lines, section={"is_rate": True}))
        self.assertNotIn("best", self.write(lines[:2]))
        lines += [result("jax", 4.0, workload="C2"), result("pytree", 3.0, workload="C3")]
        self.assertIn("| – | – |\n", self.write(lines))

    def test_quartiles_of_several_rounds(self):
        lines = [result(peer, value, number=number) for number in range(3) for peer, value in [("pytree", 3.0 + number), ("jax", 4.0)]]
        self.assertIn("| C1, 1 core | 4 [3.5 to 4.5] | 4 (1.00, 0.88 to 1.12) |\n", self.write(lines))

    def test_disagreement_is_named(self):
        lines = [result("pytree", 1.0, "loss_step1"), result("jax", 1.5, "loss_step1"), result("jax", 4.0), result("pytree", 3.0)]
        text = self.write(lines)
        self.assertIn("**jax is left out of C1 on 1 core**: its loss step1 is 1.5, ours is 1.", text)
        self.assertNotIn("| jax ", text)

    def test_program_left_out_is_named(self):
        text = self.write([result("pytree", 3.0)], left_out={"python benches/torch_training.py eager C1": "no torch"})
        self.assertIn("Left out: `python benches/torch_training.py eager C1`: no torch", text)

    def test_speed_of_second_core(self):
        lines = [result("pytree", 3.0), result("pytree", 2.0, cores=2), result("jax", 5.0), result("torch", 4.0), result("torch", 2.0, cores=2)]
        self.assertIn("| time on one core / time on two | pytree | jax | torch |\n|---|---:|---:|---:|\n| C1 | 1.50 | – | 2.00 |\n", self.write(lines))
        self.assertNotIn("time on two", self.write(lines[:1]))

    def test_share_of_limits(self):
        limits = [result("pytree", 50.0, "product", "512x512x512", unit="GFLOP/s") | {"min": 100.0}]
        limits += [result("by hand", 10.0, "copy", "copy of 256 MB", unit="GB/s")]
        steps = [result("pytree", 1000.0)]
        text = document.write([(section(), ABOUT, steps), (section(name="G", operations={}, checks={}), ABOUT, limits)])
        # 8.88 Mflop at 100 GFLOP/s take 89 µs, and 0.73 MB at 10 GB/s take 73 µs.
        self.assertIn("| C1, 1 core | 8.88 | 0.731 | 9 % | 7 % | 16 % |", text)

    def test_sections_that_are_not_measured_stay(self):
        before = "# Performance\n\n- an older compiler\n\n## A. Trees\n\nold\n\n## C. Steps\n\nolder\n"
        text = document.write([(section(), ABOUT, [])], before)
        self.assertIn("- an older compiler\n", text)
        self.assertIn("\n\n## A. Trees\n\nold\n\n## C. ", text)
        self.assertNotIn("older\n\n", text.split("## C. ")[1])
        self.assertEqual(document.write([], text), text)

    def test_numbers(self):
        self.assertEqual([document.number(value) for value in (None, 12345.6, 99.96, 0.01234)], ["–", "12,346", "100", "0.0123"])
        self.assertEqual(document.ratio(figures.Spread(0.011, 0.0123, 1.236)), "0.012, 0.011 to 1.24")
        self.assertEqual(document.ratio(figures.Spread(0.5, 0.5, 0.5)), "0.50")

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

    def test_work_of_a_step(self):
        # One forward and one backward product for each weight, and for each input but the first.
        self.assertEqual(sections.flops("C1"), 2 * 64 * (2 * 64 * 128 + 3 * 128 * 128 + 3 * 128 * 10))
        self.assertIsNone(sections.flops("H1"))
        for case, widths in {"C1": (64, 128, 128, 10), "C2": (784, 512, 512, 10), "C3": (784, 2048, 2048, 10)}.items():
            parameters = sum((inputs + 1) * outputs for inputs, outputs in zip(widths, widths[1:]))
            self.assertEqual(sections.adam_bytes(case), 28 * parameters)


class Machine(unittest.TestCase):
    def test_busy_seconds(self):
        tick = machine.os.sysconf("SC_CLK_TCK")
        self.assertEqual(machine.busy_seconds("cpu  10 20 30 400 50 6 7 8 9 9\ncpu0 1 1 1 1\n"), (10 + 20 + 30 + 6 + 7 + 8) / tick)
        self.assertIsNone(machine.busy_seconds(""))


if __name__ == "__main__":
    unittest.main()
