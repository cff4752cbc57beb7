#!/usr/bin/env python3
"""A text from outside costs time linear in its bytes, up to the limit of its kind: twice the parts take at most 2.3 times the
instructions, as valgrind counts them.

    parse_cost_test.py PROGRAM     the program parse_texts
"""
import re
import shutil
import subprocess
import sys
import unittest

# The most parts that the limits of a kind let through, or as many as take a few seconds to count.
MOST = {
    "body_objects": 400_000,
    "body_arrays": 400_000,
    "body_members": 65_000,  # kMaxJsonKeys
    "body_keys": 4_096,  # kMaxObjectKeys
    "body_strings": 400_000,
    "schema_objects": 80_000,  # kMaxGrammarSpecBytes
    "schema_keys": 20_000,
    "settings_objects": 200_000,
    "settings_keys": 100_000,
    "safetensors": 65_536,  # kMaxHeaderTensors
    "tokenizer": 100_000,
    "literals": 1_000,  # kMaxLiteralBytes
    "answer_tokens": 50_000,
    "keys_file": 16_384,  # kMaxApiKeys
    "toml": 20_000,
}
MOST_RATIO = 2.3


def instructions(kind, count):
    done = subprocess.run(["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", PROGRAM, kind,
                           str(count)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return int(re.search(r"I +refs: +([\d,]+)", done.stderr)[1].replace(",", ""))


class ParseCost(unittest.TestCase):
    def test_twice_the_parts_take_at_most_a_little_more_than_twice_the_instructions(self):
        for kind, most in MOST.items():
            with self.subTest(kind):
                start, half, whole = (instructions(kind, count) for count in (1, most // 2, most))
                ratio = (whole - start) / (half - start)
                print(f"{kind:16} {most:>8} parts  {whole / 1e6:8.0f} M instructions  {ratio:.2f} times those of half", flush=True)
                self.assertLessEqual(ratio, MOST_RATIO)


if __name__ == "__main__":
    if shutil.which("valgrind") is None:
        print("SKIPPED: valgrind is not installed")
        sys.exit(77)
    PROGRAM = sys.argv.pop(1)
    unittest.main()
