"""Man pages, with the macros of man(7)."""

SERVERS = ("baton-router", "baton-prefill-worker", "baton-decode-worker")
ENVIRONMENT = "Each flag {example} is also the variable {variable}, and the key {key} of the file that {config} names. " \
    "The command line takes precedence over the environment, then come the file and the default."
SERVER_EXITS = "0 after SIGTERM or SIGINT, when what was running has ended; 2 a flag, a file or an address is wrong; " \
    "74 the model's file was cut short while it was used."
SERVER_FILES = {
    "baton-router": ("/etc/baton/router/router.toml", "baton-router.service"),
    "baton-prefill-worker": ("/etc/baton/prefill/NAME.toml", "baton-prefill-worker@NAME.service"),
    "baton-decode-worker": ("/etc/baton/decode/NAME.toml", "baton-decode-worker@NAME.service"),
}


def is_server(command):
    return command["program"] in SERVERS


def section(command):
    return 8 if is_server(command) else 1


def page_name(command):
    return command["program"].replace(" ", "-")


def file_name(command):
    return f"{page_name(command)}.{section(command)}"


def text(plain):
    """What troff prints as `plain`, within a line."""
    for old, new in (("\\", "\\e"), ("-", "\\-"), ("`", "\\(ga"), ("'", "\\(aq"), ("^", "\\(ha"), ("~", "\\(ti")):
        plain = plain.replace(old, new)
    return plain


def paragraph(plain):
    """Lines of troff, none of which it takes for a request."""
    return "".join(("\\&" if line.startswith(".") else "") + line + "\n" for line in map(text, plain.splitlines()))


def bold(plain):
    return f"\\fB{text(plain)}\\fR"


def italic(plain):
    return f"\\fI{text(plain)}\\fR"


def sentence(plain):
    plain = plain.strip()
    return plain[:1].upper() + plain[1:] + ("" if plain.endswith(".") else ".")


def value(flag, before):
    return before + italic(flag["placeholder"]) if flag["takes_value"] else ""


def flag_entry(flag):
    names = [bold("-" + flag["short_name"]) + value(flag, " ")] if flag["short_name"] else []
    names.append(bold("--" + flag["name"]) + value(flag, "="))
    if flag["negatable"]:
        names.append(bold("--no-" + flag["name"]))
    told = sentence(flag["help"])
    if flag["default"]:
        told += f" Default: {flag['default']}."
    if flag["repeated"]:
        told += " May be repeated."
    return f".TP\n{', '.join(names)}\n{paragraph(told)}"


def options(command):
    """The flags by groups, in the order in which the program has the groups."""
    groups = {}
    for flag in command["flags"]:
        groups.setdefault(flag["group"], []).append(flag)
    if len(groups) == 1:
        return "".join(map(flag_entry, command["flags"]))
    ordered = [group for group in command["groups"] if group in groups]
    return "".join(f".SS {text(group)}\n" + "".join(map(flag_entry, groups[group])) for group in ordered)


def examples(command):
    return "".join(f".TP\n{bold(example['command'])}\n{paragraph(sentence(example['meaning']))}" for example in command["examples"])


def subcommands(command, commands):
    """Those right below it: of `baton certs` `baton certs init`, of `baton` not that one."""
    prefix = command["program"] + " "
    return [each for each in commands if each["program"].startswith(prefix) and " " not in each["program"][len(prefix):]]


def synopsis(command, below):
    words = [bold(command["program"])]
    if below:
        words += [italic("COMMAND"), f"[{italic('FLAGS')}]"]
    else:
        words.append(f"[{italic('FLAGS')}]")
        for argument in command["arguments"]:
            words.append(f"[{italic(argument['name'])}]" + (" .\\|.\\|." if argument["repeated"] else ""))
    return " ".join(words)


def exit_codes(command):
    """Pairs of a code and its meaning."""
    told = SERVER_EXITS if is_server(command) else ""
    for line in command["footer"].splitlines():
        if line.startswith("Exit codes: "):
            told = line.removeprefix("Exit codes: ")
    return [part.strip().partition(" ")[::2] for part in told.rstrip(".").split(";") if part.strip()]


def description(command):
    parts = [sentence(command["description"])]
    if is_server(command):
        parts.append("It is configured by flags, the environment and a TOML file.")
    lines = [line for line in command["footer"].splitlines() if not line.startswith("Exit codes: ")]
    return "".join(map(paragraph, parts)) + "".join(".PP\n" + paragraph(line) for line in lines)


def environment():
    return ENVIRONMENT.format(example=bold("--some-name"), variable=bold("BATON_SOME_NAME"), key=bold("some-name"),
                              config=bold("--config")) + "\n"


def files(command):
    config, unit = SERVER_FILES[command["program"]]
    return f".TP\n{italic(config)}\nThe file that {bold(unit)} names with {bold('--config')}.\n"


def see_also(command, commands):
    if is_server(command):
        others = [bold(name) + "(8)" for name in SERVERS if name != command["program"]]
        return ", ".join([bold("baton") + "(1)", *others]) + "\n"
    pages = [each for each in commands if each is not command and " " not in each["program"]] + subcommands(command, commands)
    pages = [f"{bold(page_name(each))}({section(each)})" for each in pages]
    return ", ".join([*pages, *(bold(name) + "(8)" for name in SERVERS if command["program"] == "baton")]) + "\n"


def listed(title, entries):
    return f".SH {title}\n" + "".join(f".TP\n{name}\n{paragraph(sentence(told))}" for name, told in entries)


def page(command, commands, date):
    """The page of `command`, one of the `commands` of its program."""
    below = subcommands(command, commands)
    parts = [f'.\\" Made from what the program says of itself; change that.\n'
             f'.TH {page_name(command).upper()} {section(command)} {date} "Baton {command["version"]}" "Baton"\n',
             f".SH NAME\n{text(page_name(command))} \\- {text(one_line(command['description']))}\n",
             f".SH SYNOPSIS\n{synopsis(command, below)}\n",
             f".SH DESCRIPTION\n{description(command)}"]
    if below:
        parts.append(listed("COMMANDS", [(bold(each["program"]), each["description"]) for each in below]))
    if command["arguments"]:
        parts.append(listed("ARGUMENTS", [(italic(each["name"]), each["help"]) for each in command["arguments"]]))
    parts.append(f".SH OPTIONS\n{options(command)}")
    if not below:
        parts.append(f".SH ENVIRONMENT\n{environment()}")
    if command["examples"]:
        parts.append(f".SH EXAMPLES\n{examples(command)}")
    if is_server(command):
        parts.append(f".SH FILES\n{files(command)}")
    if codes := exit_codes(command) or exit_codes(commands[0]):
        parts.append(listed("EXIT STATUS", [(bold(code), meaning) for code, meaning in codes]))
    parts.append(f".SH SEE ALSO\n{see_also(command, commands)}")
    return "".join(parts)


def one_line(plain):
    """As whatis wants it: no capital for a verb that begins, no dot at the end."""
    plain = plain.strip().rstrip(".")
    return plain if plain.startswith("Baton") else plain[:1].lower() + plain[1:]
