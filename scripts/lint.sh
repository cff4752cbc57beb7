#!/usr/bin/env bash
# Checks what a program can check of the style: the format of all C++ sources, all Python and shell scripts, the words of changed
# lines, and with clang-tidy the C++ files that changed. Runs all checks, then exits with 1 if something is to be mended.
#   scripts/lint.sh                the changed files are those that differ from the merge base with main (scripts/tidy.py)
#   scripts/lint.sh --base REF     those that differ from REF
#   scripts/lint.sh --all          every file (an hour on 2 cores)
set -euo pipefail
cd "$(dirname "$0")/.."

files() {  # prints the files of the patterns that git tracks or would add, each ended by a zero byte
  git ls-files -z --cached --others --exclude-standard -- "$@" | while IFS= read -r -d '' file; do
    [[ ! -f $file ]] || printf '%s\0' "$file"
  done
}

failed=()
files '*.h' '*.cc' '*.cu' | xargs -0 -P "$(nproc)" -n 50 clang-format --dry-run --Werror ||
  failed+=("the format (clang-format -i mends it)")
files '*.py' | xargs -0 pyflakes3 || failed+=("Python")
files '*.sh' .ci/run 'deploy/package/debian/p*' | xargs -0 shellcheck || failed+=("shell scripts")
scripts/voice.py --new "$@" || failed+=("new comments, helps, CHECK messages or pages that must be read twice (scripts/voice.py)")

# clang-tidy reads the compiler's command of each source by itself, the headers made from proto/, and XGrammar's.
[[ -f build/lint/build.ninja ]] || cmake --preset dev -B build/lint -DBATON_UNITY=OFF >/dev/null
ninja -C build/lint --quiet baton_proto_sources baton_xgrammar_files
scripts/tidy.py "$@" || failed+=("what clang-tidy objects to (.clang-tidy)")

if [[ ${#failed[@]} -gt 0 ]]; then
  printf 'lint: to be mended: %s\n' "${failed[@]}" >&2
  exit 1
fi
