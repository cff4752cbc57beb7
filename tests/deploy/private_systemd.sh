#!/usr/bin/env bash
# Boots a systemd that sees nothing of this machine but its files, on a copy of them that is thrown away; until end of input.
#   private_systemd.sh ROOT FOLDER [PATH...]     as root, in a mount namespace of its own
# ROOT has the files, such as /. FOLDER is empty. The PATHs are there too, and read-only, wherever they are mounted. Prints the
# process id of that systemd, for nsenter; what services write is in its /run/output-UNIT. Exits with 77, and says why, if a
# machine does not allow this.
set -euo pipefail
root=$1
work=$2
copy=$work/copy

allowed() {
  "$@" || {
    echo "this machine does not allow: $*" >&2
    exit 77
  }
}

if [[ ${BATON_INSIDE:-} ]]; then  # the namespaces are made; this becomes process 1 of them
  allowed mount -t proc proc "$copy/proc"
  allowed mount -t sysfs sysfs "$copy/sys"
  allowed mount -t cgroup2 cgroup "$copy/sys/fs/cgroup"
  cd "$copy"
  allowed pivot_root . run/machine
  umount --lazy /run/machine
  exec env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin container=test \
    /lib/systemd/systemd --system --unit=basic.target --log-target=null --show-status=no
fi

mkdir "$copy" "$work/change" "$work/cgroup"
allowed mount -t tmpfs change "$work/change"
mkdir "$work/change/"{files,work}
allowed mount -t overlay copy -o "lowerdir=$root,upperdir=$work/change/files,workdir=$work/change/work" "$copy"
allowed mount -t tmpfs run "$copy/run"
allowed mount -t tmpfs tmp "$copy/tmp"
allowed mount --rbind /dev "$copy/dev"
mkdir "$copy/run/machine"
for path in "${@:3}"; do
  mkdir -p "$copy$path"
  mount --bind "$path" "$copy$path"
  mount -o remount,bind,ro "$copy$path"
done
# Only what a test starts is to run.
units=$copy/etc/systemd/system
mkdir -p "$units/service.d"
printf '[Service]\nStandardOutput=append:/run/output-%%n\nStandardError=inherit\n' >"$units/service.d/output.conf"
printf '[Unit]\nDefaultDependencies=no\n' | tee "$units/sysinit.target" >"$units/basic.target"
ln -sf /dev/null "$units/network-online.target"

exec 3<&0
# A control group of its own, so that this systemd takes its processes only for all that there are.
allowed mount -t cgroup2 cgroup "$work/cgroup"
cd "$work/cgroup"  # to be left clean although a caller that dies may remove FOLDER first
group=baton-test-$$
mkdir "$group"
(
  echo "$BASHPID" >"$group/cgroup.procs"
  BATON_INSIDE=1 exec unshare --mount --pid --cgroup --net --ipc --uts --fork bash "$0" "$@"
) </dev/null >/dev/null 2>"$work/errors" &
unshare=$!
first=
while [[ -z $first ]]; do
  kill -0 $unshare 2>/dev/null || break
  first=$(cat /proc/$unshare/task/$unshare/children 2>/dev/null) || true
done
echo "${first% }"
(
  while read -r _; do :; done
  kill -KILL "${first% }"
) <&3 2>/dev/null &
killer=$!
code=0
wait $unshare 2>/dev/null || code=$?
kill $killer 2>/dev/null || true
find "$group" -depth -type d -exec rmdir {} \;
[[ $code -ne 77 ]] || cat "$work/errors" >&2
exit $code
