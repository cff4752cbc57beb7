"""scripts/gpu_check.sh if it has no GPU: what it can run it runs, and it names the rest with the reason."""
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ["BATON_BIN"])


def check(out, *args, programs=BIN):
    done = subprocess.run([ROOT / "scripts/gpu_check.sh", "--bin", programs, "--tests", BIN.parent / "tests",
                           "--out", out, *args], capture_output=True, text=True, timeout=200)
    report = json.loads((out / "report.json").read_text())
    text = (out / "report.txt").read_text()
    for row in report["rows"]:
        assert row["detail"], row
        assert row["name"] in text
    return done, report


def rows_of(report, stage):
    return {row["name"]: row for row in report["rows"] if row["stage"] == stage}


def test_the_workers_hand_off_on_the_cpu_and_every_other_row_has_its_reason(tmp_path):
    done, report = check(tmp_path, "--device", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert report["failures"] == 0
    for row in rows_of(report, "end_to_end").values():
        assert row["status"] == "passed" and "120 of 120 tokens" in row["detail"], row
    assert len(rows_of(report, "end_to_end")) == 2
    for stage, least in (("parity", 6), ("goldens", 2), ("sanitizer", 5), ("bench", 5), ("target", 12)):
        rows = rows_of(report, stage)
        assert len(rows) >= least, rows
        assert all(row["status"] == "skipped" for row in rows.values()), rows


def test_other_tokens_than_the_cpus_fail(tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in BIN.glob("baton-*"):
        (programs / program.name).symlink_to(program)
    answers = tmp_path / "answers"
    answers.touch()
    wrapper = programs / "baton"  # a program that gives no token twice, so the device's are never the CPU's
    wrapper.write_text(f"""#!/bin/bash
if [[ $1 != run ]]; then exec {BIN}/baton "$@"; fi
echo >>{answers}
first=$((3 * $(wc -l <{answers})))
echo '{{"token_ids":['$first,$((first + 1)),$((first + 2))'],"timings":{{"kv_transfer_bytes":1}}}}'
""")
    wrapper.chmod(0o755)
    done, report = check(tmp_path / "out", "--device", "cpu", programs=programs)
    assert done.returncode == 1, done.stdout
    assert report["failures"] == 2
    for row in rows_of(report, "end_to_end").values():
        assert "0 of 15 tokens" in row["detail"], row


def test_a_flag_that_it_does_not_know_is_named():
    done = subprocess.run([ROOT / "scripts/gpu_check.sh", "--devise", "cpu"], capture_output=True, text=True)
    assert done.returncode == 2 and "--devise" in done.stderr
