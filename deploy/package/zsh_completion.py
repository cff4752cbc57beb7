"""A completion for zsh, with its function _arguments."""

from bash_completion import below

HEAD = """#compdef {programs}
# Completion of Baton's programs for zsh, made from what they say of themselves.
"""
WALK = r'''
_baton() {
  local command=$service
  integer at=2
  while (( at < CURRENT )) && (( ${_baton_known[(Ie)$command $words[at]]} )); do
    command+=" $words[at]"
    (( at++ ))
  done
  words=("$command" "${(@)words[at,-1]}")
  (( CURRENT -= at - 2 ))
  "_baton_of_${command//[ -]/_}"
}

_baton "$@"
'''


def quoted(plain):
    return "'" + plain.replace("'", "'\\''") + "'"


def escaped(plain, also=""):
    return "".join("\\" + each if each in "\\[]:" + also else each for each in plain)


def specs(flag):
    """The specification of one flag for _arguments."""
    value = ""
    if flag["takes_value"]:
        value = f":value:({' '.join(flag['choices'])})" if flag["choices"] else f":{escaped(flag['placeholder'])}:_files"
    told = f"[{escaped(flag['help'])}]"
    many = "*" if flag["repeated"] else ""
    long = f"--{flag['name']}" + ("=" if value else "")
    names = [long]
    if flag["short_name"]:
        names.insert(0, f"-{flag['short_name']}" + ("+" if value else ""))
    if flag["negatable"]:
        names.append(f"--no-{flag['name']}")
    return [quoted(f"{many}{name}{told}{value}") for name in names]


def function(command, commands):
    name = "_baton_of_" + command["program"].replace(" ", "_").replace("-", "_")
    words = [spec for flag in command["flags"] for spec in specs(flag)]
    if names := below(command, commands):
        told = {each["program"]: each["description"] for each in commands}
        described = " ".join(quoted(f"{escaped(each)}:{told[command['program'] + ' ' + each]}") for each in names)
        return (f"{name}() {{\n  local -a below=({described})\n"
                f"  if [[ $PREFIX == -* ]]; then\n    _arguments {' '.join(words)}\n"
                "  else\n    _describe command below\n  fi\n}\n")
    if command["arguments"]:
        words.append("'*:argument:_files'")
    lines = " \\\n    ".join(words)
    return f"{name}() {{\n  _arguments \\\n    {lines}\n}}\n"


def script(everything):
    """`everything` has the commands of each program."""
    commands = [command for each in everything for command in each]
    known = "".join(f"  {quoted(command['program'])}\n" for command in commands)
    return "".join([HEAD.format(programs=" ".join(each[0]["program"] for each in everything)),
                    f"typeset -ga _baton_known=(\n{known})\n",
                    *(function(command, each) for each in everything for command in each),
                    WALK])
