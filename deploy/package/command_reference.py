"""Writes man pages and completions of the programs from what these say of themselves.

    command_reference.py FOLDER PROGRAM...

FOLDER/man/ gets a page for each program and each subcommand, FOLDER/bash/ a file for each program, FOLDER/zsh/ one for all. The
pages have the date of SOURCE_DATE_EPOCH, or today's.
"""

import datetime
import json
import os
import pathlib
import subprocess
import sys

import bash_completion
import man_pages
import zsh_completion


def declared(program):
    """The commands of the program, as common/flags/command_facts.h has them."""
    printed = subprocess.run([program, "--help-json"], check=True, capture_output=True, text=True, timeout=60).stdout
    return json.loads(printed)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main(folder, programs):
    date = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", datetime.datetime.now().timestamp())),
                                           datetime.timezone.utc).date().isoformat()
    everything = [declared(program) for program in programs]
    for commands in everything:
        for command in commands:
            write(folder / "man" / man_pages.file_name(command), man_pages.page(command, commands, date))
        write(folder / "bash" / commands[0]["program"], bash_completion.script(commands))
    write(folder / "zsh" / "_baton", zsh_completion.script(everything))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
