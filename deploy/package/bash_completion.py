"""A completion for bash that needs nothing but bash 4."""

import shlex

BODY = r'''
# The value of a flag where there is a fixed set, else files; flags after a dash; else commands, and files where there are none.
_@NAME@() {
  local current=${COMP_WORDS[COMP_CWORD]} flag= command=@PROGRAM@ at=1
  case ${COMP_WORDS[COMP_CWORD - 1]} in
    =) flag=${COMP_WORDS[COMP_CWORD - 2]} ;;
    -*) flag=${COMP_WORDS[COMP_CWORD - 1]} ;;
  esac
  # "=" is a word of its own, as COMP_WORDBREAKS has it.
  if [[ $current == = ]]; then
    current=
  fi
  while ((at < COMP_CWORD)) && [[ ${_@NAME@_flags["$command ${COMP_WORDS[at]}"]+known} ]]; do
    command+=" ${COMP_WORDS[at++]}"
  done
  COMPREPLY=()
  if [[ $flag && ${_@NAME@_values["$command $flag"]+known} ]]; then
    mapfile -t COMPREPLY < <(compgen -W "${_@NAME@_values["$command $flag"]}" -- "$current")
  elif [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "${_@NAME@_flags["$command"]}" -- "$current")
  elif [[ ${_@NAME@_commands["$command"]} ]]; then
    mapfile -t COMPREPLY < <(compgen -W "${_@NAME@_commands["$command"]}" -- "$current")
  fi
}
complete -o bashdefault -o default -F _@NAME@ @PROGRAM@
'''


def flag_names(flag):
    names = ["-" + flag["short_name"]] if flag["short_name"] else []
    return names + ["--" + flag["name"]] + (["--no-" + flag["name"]] if flag["negatable"] else [])


def below(command, commands):
    prefix = command["program"] + " "
    words = [each["program"][len(prefix):] for each in commands if each["program"].startswith(prefix)]
    return [word for word in words if " " not in word]


def table(name, entries):
    lines = "".join(f"  [{shlex.quote(key)}]={shlex.quote(' '.join(words))}\n" for key, words in entries)
    return f"declare -gA {name}=(\n{lines})\n"


def script(commands):
    program = commands[0]["program"]
    name = program.replace("-", "_")
    # A flag with a value that is not of a fixed set has an empty entry: then bash completes files.
    values = [(f"{command['program']} {written}", flag["choices"])
              for command in commands for flag in command["flags"] if flag["takes_value"]
              for written in flag_names(flag)]
    return "".join([
        f"# Completion of {program} for bash, made from what the program says of itself.\n",
        table(f"_{name}_commands", [(command["program"], below(command, commands)) for command in commands]),
        table(f"_{name}_flags", [(command["program"], [written for flag in command["flags"] for written in flag_names(flag)])
                                 for command in commands]),
        table(f"_{name}_values", values),
        BODY.replace("@NAME@", name).replace("@PROGRAM@", program).lstrip("\n"),
    ])
