import csv
import io

import harness


class Bench(harness.Case):
    def test_json_has_the_fields_scripts_read(self):
        rows = self.json("bench", "-m", self.random(), "-p", "32,8", "-n", 4, "-d", "0,16", "-npl", "1,3", "-r", 2, "-t", 1,
                         "-o", "json")
        self.assertEqual(len(rows), 8)             # 2 depths x (2 prompts + 1 generation x 2 row counts)
        for row in rows:
            for key in ("n_prompt", "n_gen", "n_depth", "avg_ts", "stddev_ts", "model_filename", "n_threads", "npl",
                        "attention", "peak_attention_bytes", "isa", "machine_class", "bandwidth_gbs", "gops",
                        "share_of_bandwidth", "share_of_peak", "model_size", "model_n_params", "samples_ts"):
                self.assertIn(key, row)
            self.assertGreater(row["avg_ts"], 0)
            self.assertEqual(len(row["samples_ts"]), 2)
            self.assertGreater(row["ceiling_dram_gbs"], 0)
            self.assertGreater(row["ceiling_f32_gflops"], 0)
        self.assertEqual({(r["n_prompt"], r["n_gen"], r["n_depth"], r["npl"]) for r in rows},
                         {(32, 0, 0, 1), (8, 0, 0, 1), (0, 4, 0, 1), (0, 4, 0, 3), (32, 0, 16, 1), (8, 0, 16, 1),
                          (0, 4, 16, 1), (0, 4, 16, 3)})

    def test_lists_of_setups(self):
        rows = self.json("bench", "-m", f"{self.random()},{self.alphabet()}", "-p", 16, "-r", 1, "-t", "1,2", "-ctk", "f16,q8_0",
                         "--attention", "flash,naive,chunked", "-o", "json")
        self.assertEqual(len(rows), 2 * 2 * 2 * 3)
        self.assertEqual({r["attention"] for r in rows}, {"flash", "naive", "chunked"})
        self.assertEqual({r["type_k"] for r in rows}, {"f16", "q8_0"})
        for row in rows:
            self.assertGreater(row["peak_attention_bytes"], 0)

    def test_each_row_states_the_attention_memory_of_its_own_prompt(self):
        # Longest first, and a short one again: a peak that outlives its test would show.
        lengths = (1024, 512, 256, 512)
        rows = self.json("bench", "-m", self.random(), "-p", ",".join(map(str, lengths)), "-r", 1, "-t", 1, "--attention",
                         "naive,flash,chunked", "-o", "json")
        peaks = {mode: [r["peak_attention_bytes"] for r in rows if r["attention"] == mode]
                 for mode in ("naive", "flash", "chunked")}
        for length, peak in zip(lengths, peaks["naive"]):
            self.assertGreaterEqual(peak, 4 * length * length)
        longest, middle, short, again = peaks["naive"]
        self.assertEqual(middle, again)
        self.assertAlmostEqual((longest - middle) / (middle - short), 4, delta=0.4)     # quadratic
        for mode in ("flash", "chunked"):
            self.assertLess(max(peaks[mode]), 1.1 * min(peaks[mode]), mode)
            self.assertLess(max(peaks[mode]), peaks["naive"][0] / 2, mode)

    def test_a_given_ubatch_cuts_every_algorithm(self):
        rows = self.json("bench", "-m", self.random(), "-p", 512, "-ub", 64, "-r", 1, "-t", 1, "--attention", "naive", "-o",
                         "json")
        self.assertLess(rows[0]["peak_attention_bytes"], 4 * 512 * 512)

    def test_each_row_states_its_own_batch(self):
        rows = self.json("bench", "-m", self.random(), "-p", 16, "-b", "64,8", "-r", 1, "-t", 1, "-o", "json")
        self.assertEqual([(r["n_batch"], r["n_ubatch"]) for r in rows], [(64, 64), (8, 8)])

    def test_a_cache_larger_than_memory_is_refused(self):
        error = self.refused(1, "bench", "-m", self.random(), "-n", 1, "-d", 1 << 24, "-npl", 4096, "-r", 1, "-t", 1)
        self.assertIn("are free", error)

    def test_without_cache(self):
        (row,) = self.json("bench", "-m", self.random(), "-n", 3, "-d", 8, "-r", 1, "--no-kv-cache", "-o", "json")
        self.assertIs(row["kv_cache"], False)

    def test_tables(self):
        table = self.out("bench", "-m", self.random(), "-p", 16, "-n", 2, "-d", 4, "-r", 1, "-t", 1)
        for word in ("| model |", "pp16@d4", "tg2@d4", "Ceilings", "class"):
            self.assertIn(word, table)
        lines = [line for line in table.splitlines() if line.startswith("|")]
        self.assertEqual(len({line.count("|") for line in lines}), 1)
        rows = list(csv.DictReader(io.StringIO(self.out("bench", "-m", self.random(), "-p", 16, "-r", 1, "-t", 1, "-o", "csv"))))
        self.assertEqual(rows[0]["n_prompt"], "16")

    def test_bad_usage(self):
        for flags in (["-p", "x"], ["-p", "0", "-n", "0"], ["-r", "0"], ["-t", "0"], ["-npl", "0"], ["--attention", "fast"],
                      ["-o", "xml"], ["-p", "1,,2"]):
            self.assertEqual(self.lithe("bench", "-m", self.random(), *flags).returncode, 2, flags)


if __name__ == "__main__":
    harness.main()
