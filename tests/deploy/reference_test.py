"""Man pages and completions tell of every flag that the programs have, and are understood.

    reference_test.py FOLDER_OF_BINARIES FOLDER_OF_REFERENCE
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

BINARIES = REFERENCE = None
PROGRAMS = ["baton", "baton-router", "baton-prefill-worker", "baton-decode-worker"]
# Types each line and a Tab into a zsh with our completion, and prints what the line is then.
ZPTY = r'''
zmodload zsh/zpty
zpty shell "PS1=% TERM=dumb zsh -f -i"
zpty -w shell "fpath=($1 \$fpath); autoload -Uz compinit && compinit -u -D; unsetopt beep"
zpty -w shell 'tell() { print -r -- "<<$BUFFER>>"; BUFFER= }; zle -N tell; bindkey "^X" tell; print rea""dy'
zpty -m -r shell line '*ready*' || exit 1
for typed in "${@:2}"; do
  zpty -w -n shell "$typed"$'\t'$'\x18'
  zpty -r -m shell line '*<<*>>*' || exit 1
  print -r -- "${${line##*<<}%%>>*}"
done
zpty -d shell
'''


def commands_of(program):
    printed = subprocess.run([BINARIES / program, "--help-json"], check=True, capture_output=True, text=True, timeout=60).stdout
    return json.loads(printed)


def help_of(command, form="--help-all"):
    program, *words = command.split()
    return subprocess.run([BINARIES / program, *words, form], check=True, capture_output=True, text=True, timeout=60).stdout


def flags_in(text):
    """The flags that --help-all declares: --name, --no-name for --[no-]name, -n."""
    found = set()
    for short, no, name in re.findall(r"^  (-\w, |    )--(\[no-\])?([a-z0-9-]+)", text, re.MULTILINE):
        found |= {"--" + name} | ({short[:2]} if short.strip() else set()) | ({"--no-" + name} if no else set())
    return found


def texts_of(command):
    """Each text of the help that describes something, with what it describes."""
    yield command["program"], command["description"]
    for flag in command["flags"]:
        yield f"{command['program']} --{flag['name']}", flag["help"]
    for argument in command["arguments"]:
        yield f"{command['program']} {argument['name']}", argument["help"]
    for example in command["examples"]:
        yield example["command"], example["meaning"]


class Facts(unittest.TestCase):
    def test_they_have_every_flag_of_every_help(self):
        for program in PROGRAMS:
            for command in commands_of(program):
                with self.subTest(command=command["program"]):
                    told = set()
                    for flag in command["flags"]:
                        told |= {"--" + flag["name"]} | ({"-" + flag["short_name"]} if flag["short_name"] else set())
                        told |= {"--no-" + flag["name"]} if flag["negatable"] and flag["default"] else set()
                    self.assertEqual(told, flags_in(help_of(command["program"])))

    def test_every_subcommand_is_one_of_them(self):
        known = {command["program"] for command in commands_of("baton")}
        for command in sorted(known):
            listed = help_of(command).partition("\nCommands:\n")[2].partition("\n\n")[0]
            for word in re.findall(r"^  (\w+)", listed, re.MULTILINE):
                self.assertIn(f"{command} {word}", known)


class Helps(unittest.TestCase):
    # A text that begins so leaves out its noun.
    HEADLESS = re.compile(r"(of|that|which|whose|what|how|who|where|with|in|by|over|as|only|instead|for|from|to|on|at)\b", re.I)

    def all_texts(self):
        return [text for program in PROGRAMS for command in commands_of(program) for text in texts_of(command)]

    def test_begin_with_a_capital_and_name_their_subject(self):
        for name, text in self.all_texts():
            with self.subTest(name=name, text=text):
                self.assertRegex(text, r"^[A-Z0-9`]")
                self.assertIsNone(self.HEADLESS.match(text))
                self.assertNotRegex(text, r"(?i)\bof the (router|worker|server):")
                self.assertFalse(text.endswith(".") and not text.endswith("..."))

    def test_placeholders_say_what_the_value_is(self):
        for program in PROGRAMS:
            for command in commands_of(program):
                for flag in command["flags"]:
                    if flag["takes_value"]:
                        self.assertNotIn(flag["placeholder"], ("", "VALUE"), flag["name"])

    def test_of_what_people_run_first_fit_one_screen(self):
        for command in ("baton", "baton serve", "baton run", *PROGRAMS[1:]):
            lines = help_of(command, "--help").splitlines()
            self.assertLessEqual(len(lines), 40, command)
            self.assertLessEqual(max(map(len, lines)), 80, command)

    def test_of_a_group_has_the_flags_of_that_group(self):
        shown = subprocess.run([BINARIES / "baton", "serve", "--help", "kv-cache"], check=True, capture_output=True, text=True,
                               timeout=60).stdout
        self.assertIn("--kv-cache-dtype", shown)
        self.assertNotIn("--listen", flags_in(shown))
        done = subprocess.run([BINARIES / "baton", "serve", "--help", "kvcache"], check=False, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual((done.returncode, done.stderr), (2, "baton: --help: there is no group 'kvcache'; did you mean 'kv-cache'?\n"))

    def test_of_every_command_have_two_examples(self):
        for program in PROGRAMS:
            commands = commands_of(program)
            for command in commands:
                is_group = any(each["program"].startswith(command["program"] + " ") for each in commands)
                if not is_group:
                    self.assertGreaterEqual(len(command["examples"]), 2, command["program"])


class Pages(unittest.TestCase):
    def pages(self):
        pages = sorted((REFERENCE / "man").iterdir())
        self.assertGreater(len(pages), 15)
        return pages

    def test_troff_warns_of_nothing(self):
        for page in self.pages():
            with self.subTest(page=page.name):
                done = subprocess.run(["groff", "-ww", "-man", "-Tutf8", "-z", page], check=False, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    @unittest.skipUnless(shutil.which("mandoc"), "no mandoc here")
    def test_mandoc_warns_of_nothing(self):
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *self.pages()], check=False, capture_output=True, text=True)
        self.assertEqual(done.stdout + done.stderr, "")

    def test_each_command_has_a_page_with_its_flags_as_readers_see_them(self):
        for program in PROGRAMS:
            for command in commands_of(program):
                section = 1 if program == "baton" else 8
                page = REFERENCE / "man" / f"{command['program'].replace(' ', '-')}.{section}"
                with self.subTest(page=page.name):
                    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "MANWIDTH": "200"}
                    shown = subprocess.run(["man", "--no-hyphenation", "-P", "cat", "-l", page], check=True, capture_output=True,
                                           text=True, env=environment).stdout
                    for flag in command["flags"]:
                        self.assertRegex(shown, rf"(?m)^ +(-\w( \S+)?, )?--{flag['name']}(=\S+)?(, --no-{flag['name']})?(  .*)?$")
                    self.assertEqual("EXAMPLES" in shown, bool(command["examples"]))


class Bash(unittest.TestCase):
    def complete(self, line):
        """What a Tab at the end of the line offers; None if files."""
        program = line.split()[0]
        words = [word for word in re.split(r"(=)|\s+", line) if word] + ([""] if line[-1] in " =" else [])
        script = f'''source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
            eval "$(complete -p {program} | sed 's/.*-F \\(\\S*\\) .*/\\1/')"; printf '%s\\n' "${{COMPREPLY[@]}}"'''
        done = subprocess.run(["bash", "-uc", script, "bash", REFERENCE / "bash" / program, *words], check=True,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_commands_are_offered_where_one_must_stand(self):
        self.assertEqual(self.complete("baton ser"), ["serve"])
        self.assertEqual(self.complete("baton certs "), ["init", "issue", "revoke"])
        self.assertIn("bench", self.complete("baton "))

    def test_flags_are_those_of_the_command(self):
        self.assertEqual(self.complete("baton certs issue --for"), ["--force"])
        self.assertEqual(self.complete("baton certs issue --no-for"), ["--no-force"])
        self.assertIn("--http-listen", self.complete("baton-router --"))
        self.assertNotIn("--http-listen", self.complete("baton-decode-worker --"))

    def test_values_are_those_that_the_flag_takes(self):
        self.assertEqual(self.complete("baton-router --log-format "), ["text", "json"])
        self.assertEqual(self.complete("baton-router --log-format=j"), ["json"])
        self.assertEqual(self.complete("baton run --kv-cache-dtype="), ["auto", "f32", "f16", "bf16", "int8", "fp8", "int4"])
        self.assertEqual(self.complete("baton serve --model "), [])  # files, by complete -o default

    def test_each_fixed_value_is_accepted_by_the_program(self):
        for flag in commands_of("baton-router")[0]["flags"]:
            for choice in flag["choices"]:
                done = subprocess.run([BINARIES / "baton-router", f"--{flag['name']}={choice}"], check=False, capture_output=True,
                                      text=True, timeout=60)
                self.assertNotIn(f"--{flag['name']}", done.stderr)


@unittest.skipUnless(shutil.which("zsh"), "no zsh here")
class Zsh(unittest.TestCase):
    def test_it_is_understood(self):
        subprocess.run(["zsh", "-n", REFERENCE / "zsh/_baton"], check=True, timeout=60)

    def test_commands_flags_and_values_are_completed(self):
        after = {
            "baton tok": "baton tokenize ",
            "baton certs re": "baton certs revoke ",
            "baton-router --http-l": "baton-router --http-listen=",
            "baton-router --log-format=j": "baton-router --log-format=json ",
            "baton certs issue --forc": "baton certs issue --force ",
        }
        done = subprocess.run(["zsh", "-fc", ZPTY, "zsh", REFERENCE / "zsh", *after], check=True, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.stdout.splitlines(), list(after.values()))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    REFERENCE = pathlib.Path(sys.argv.pop(2)).resolve()
    BINARIES = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
