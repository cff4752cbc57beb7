# shellcheck shell=bash
# Functions for scripts that have several parts and take long. They show which part runs, and at the end how long each one took. A
# script sources this file, calls `part TITLE` where a part begins, and `where_the_time_went` at the end.

# Prints the CPU time of all commands that have ended, in seconds.
cpu_seconds() {
  local stat
  read -r -a stat <"/proc/$$/stat"
  echo $(((stat[15] + stat[16]) / $(getconf CLK_TCK)))
}

# Ends the part before, if there is one, and begins the part TITLE. An empty TITLE begins none.
part_begin=$SECONDS
part_begin_cpu=0
part_title=
part_times=
part() {
  local cpu
  cpu=$(cpu_seconds)
  [[ -z $part_title ]] ||
    part_times+=$(printf '%6d s %6d s  %s' $((SECONDS - part_begin)) $((cpu - part_begin_cpu)) "$part_title")$'\n'
  part_begin=$SECONDS
  part_begin_cpu=$cpu
  part_title=$1
  [[ -z $part_title ]] || echo "== $part_title"
}

# Ends the last part, and prints the duration and the CPU time of each.
where_the_time_went() {
  part ""
  printf '== where the time went: seconds, and CPU seconds of all cores\n%s' "$part_times"
}
