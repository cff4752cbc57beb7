#!/usr/bin/env bash
# Checks the CUDA backend on a machine with a GPU, and measures it, in under 8 minutes: the kernels' tests, tiny models, a
# router with a prefill and a decode worker on one GPU, compute-sanitizer if it is found, the benchmarks. Runs in a folder
# of scripts/gpu_bundle.sh, or beside a build. The exit code is 1 if something was wrong, but not if something could not run.
#   scripts/gpu_check.sh [--device cuda|cpu] [--out FOLDER] [--bin FOLDER] [--tests FOLDER] [--seconds 460]
# --device cpu tests the script itself without a GPU. Writes FOLDER/report.txt, FOLDER/report.json and a log for each row.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
device=cuda
out=gpu_check
bin=$root/bin
tests=$root/tests
seconds=460
while [[ $# -gt 0 ]]; do
  case $1 in
    --device | --out | --bin | --tests | --seconds)
      [[ $# -ge 2 ]] || { echo "gpu_check: $1: a value is missing" >&2; exit 2; }
      declare "${1#--}=$2"
      shift 2
      ;;
    *)
      echo "gpu_check: $1: unknown; see the head of $0" >&2
      exit 2
      ;;
  esac
done
if [[ $device != cuda && $device != cpu ]]; then
  echo "gpu_check: --device $device: must be cuda or cpu" >&2
  exit 2
fi
if [[ ! $seconds =~ ^[0-9]+$ ]]; then
  echo "gpu_check: --seconds $seconds: must be a number" >&2
  exit 2
fi
glibc=$(ldd --version 2>/dev/null | head -n 1 | awk '{print "glibc", $NF}')
# In a folder of gpu_bundle.sh, on a machine whose glibc is too old for its programs.
if [[ $bin == "$root/bin" && -d $root/own-glibc ]] && ! "$bin/baton" --version >/dev/null 2>&1; then
  bin=$root/own-glibc/bin
  [[ $tests == "$root/tests" ]] && tests=$root/own-glibc/tests
  glibc+=", the bundle's own is used"
fi
if [[ ! -x $bin/baton ]]; then
  echo "gpu_check: $bin/baton is missing; name the programs' folder with --bin" >&2
  exit 2
fi
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
bin=$(cd "$bin" && pwd)
tests=$(cd "$tests" 2>/dev/null && pwd || echo "$tests")
cd "$root" || exit 2  # tests look for tests/data from here
tiny=$root/tests/data/tiny
scratch=$(mktemp -d "${TMPDIR:-/tmp}/gpu_check.XXXXXX") || exit 2
end=$((SECONDS + seconds))
# The servers get their addresses and models from this script only, so settings of the environment are removed.
while IFS= read -r name; do unset "$name"; done < <(compgen -e | grep '^BATON_')

# --- Rows of the report: what was run, and its result.

rows_text=()
rows_json=()
failures=0

json_text() {  # prints any text as a JSON string
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\n'/\\n}
  text=${text//$'\t'/ }
  printf '"%s"' "$(printf '%s' "$text" | tr -d '\000-\010\013-\037')"
}

# row STAGE NAME passed|failed|measured|skipped DETAIL [SECONDS]
row() {
  local line
  line=$(printf '%-10s %-34s %-9s %s' "$1" "$2" "$3" "$4")
  printf '%4d s  %s\n' "$SECONDS" "$line"
  rows_text+=("$line")
  rows_json+=("{\"stage\": $(json_text "$1"), \"name\": $(json_text "$2"), \"status\": \"$3\", \"detail\": $(json_text "$4"), \"seconds\": ${5:-0}}")
  if [[ $3 == failed ]]; then failures=$((failures + 1)); fi
}

server=
stop_server() {
  [[ -n $server ]] || return 0
  kill "$server" 2>/dev/null
  local i
  for ((i = 0; i < 50; ++i)); do
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  kill -9 "$server" 2>/dev/null
  wait "$server" 2>/dev/null
  server=
}

benches_json=()
writer=
finish() {
  stop_server
  if [[ -n $writer ]]; then kill "$writer" 2>/dev/null; fi
  rm -rf "$scratch"
  local joined
  {
    echo "gpu_check on $machine"
    echo
    [[ ${#rows_text[@]} -eq 0 ]] || printf '%s\n' "${rows_text[@]}"
    echo
    echo "$failures failed; ${SECONDS} s"
  } >"$out/report.txt"
  {
    echo "{\"machine\": $(json_text "$machine"), \"device\": \"$device\", \"seconds\": $SECONDS, \"failures\": $failures, \"rows\": ["
    joined=$(printf '  %s,\n' "${rows_json[@]}")
    printf '%s\n' "${joined%,}"
    echo '], "benchmarks": {'
    if [[ ${#benches_json[@]} -gt 0 ]]; then
      joined=$(printf '%s,\n' "${benches_json[@]}")
      printf '%s\n' "${joined%,}"
    fi
    echo '}}'
  } >"$out/report.json"
  echo
  echo "report: $out/report.txt, $out/report.json; $failures failed"
}
machine="an unknown machine"
trap finish EXIT
trap 'row gpu_check interrupted failed "by a signal"; exit 1' TERM INT

# limited LIMIT LOG COMMAND...: runs the command and returns its exit status; 124 if it took longer, 125 if no time was left.
limited() {
  local limit=$1 log=$2 left=$((end - SECONDS))
  shift 2
  if ((left < 5)); then
    echo "no time was left" >"$log"
    return 125
  fi
  if ((limit > left)); then limit=$left; fi
  timeout -k 5 "$limit" "$@" >"$log" 2>"$log.err" </dev/null
}

last_words() {  # prints the last line of a log that is not empty
  cat "$1" "$1.err" 2>/dev/null | grep -v '^[[:space:]]*$' | tail -n 1 | cut -c 1-600
}

# --- The machine.

check_machine() {
  local gpu="no GPU seen by nvidia-smi"
  if command -v nvidia-smi >/dev/null; then
    gpu=$(nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader 2>/dev/null | head -n 1)
    gpu=${gpu:-nvidia-smi finds no GPU}
  fi
  machine="$gpu; $(nproc) CPUs; $(uname -sr); $glibc"
  echo "machine: $machine"
  local program missing=""
  for program in "$bin"/baton* "$tests"/gpu_*; do
    [[ -x $program && ! -d $program ]] || continue
    missing+=$(ldd "$program" 2>&1 | awk -v p="${program##*/}" '/not found/ { printf "%s: %s %s; ", p, $1, $2 }')
  done
  if [[ -n $missing ]]; then
    row machine libraries failed "not found: $missing"
  else
    row machine libraries passed "all shared libraries are found"
  fi
}

# The reason why stages that need a GPU cannot run; empty if they can.
no_gpu=
probe_gpu() {
  if [[ $device == cpu ]]; then
    no_gpu="--device cpu was asked for"
    return
  fi
  if limited 60 "$out/probe.log" "$bin/baton" bench engine --device cuda --model "$tiny/tiny-llama-f16.gguf" \
    -p 16 -n 2 -r 1 --json; then
    row machine device passed "$(sed -n 's/^ *"gpu": "\(.*\)",$/\1/p' "$out/probe.log")"
    return
  fi
  no_gpu=$(last_words "$out/probe.log")
  no_gpu=${no_gpu#baton bench engine: }
  if command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
    row machine device failed "$no_gpu"
  else
    row machine device skipped "$no_gpu"
  fi
}

# --- The kernels' tests.

# gpu_test STAGE NAME LIMIT: runs a program of tests/gpu for at most LIMIT seconds.
gpu_test() {
  local stage=$1 name=$2 program=$tests/gpu_$2_test log=$out/$2_test.log begin=$SECONDS status
  if [[ ! -x $program ]]; then
    row "$stage" "$name" skipped "$program was not built (target gpu_tests of the preset cuda)"
    return
  fi
  if [[ $device == cpu ]]; then
    row "$stage" "$name" skipped "$no_gpu"
    return
  fi
  limited "$3" "$log" "$program" --gtest_brief=1
  status=$?
  local took=$((SECONDS - begin))
  case $status in
    0) row "$stage" "$name" passed "$(sed -n 's/^\[==========\] \([0-9]* tests\? from.*\) ran\..*/\1/p' "$log")" $took ;;
    77) row "$stage" "$name" skipped "$(grep -h '^SKIPPED' "$log")" $took ;;
    124) row "$stage" "$name" failed "not done after $took s" $took ;;
    125) row "$stage" "$name" skipped "no time was left" ;;
    *) row "$stage" "$name" failed "status $status; $(grep -h '^\[  FAILED  \] .*[^:]$' "$log" | sort -u | head -n 5 | tr '\n' ' ')$(last_words "$log")" $took ;;
  esac
}

# --- A router, a prefill and a decode worker.

# serve LIMIT LOG ARGUMENTS...: starts the servers and puts their address into $address. 1 if they do not become ready.
address=
serve() {
  local limit=$1 log=$2 stop_at
  shift 2
  address=
  if ((end - SECONDS < 5)); then
    echo "no time was left" >"$log.err"
    return 1
  fi
  stop_at=$((SECONDS + limit))
  : >"$log"
  "$bin/baton" serve --listen=127.0.0.1:0 --disaggregate=always "$@" >"$log" 2>"$log.err" </dev/null &
  server=$!
  while ((SECONDS < stop_at && SECONDS < end)) && kill -0 "$server" 2>/dev/null; do
    address=$(sed -n 's,^ready: grpc://,,p' "$log")
    [[ -z $address ]] || return 0
    sleep 0.2
  done
  stop_server
  return 1
}

prompts=("hello world" "The quick brown fox jumps over the lazy dog" "a" "one two three four five six seven eight nine ten"
  "Once upon a time there was a small machine that wanted to know how the story ends, and so it asked")

# ask FOLDER: sends all prompts and writes the answers into FOLDER/*.json, one JSON object each.
ask() {
  local i
  mkdir -p "$1"
  for i in "${!prompts[@]}"; do
    limited 20 "$1/$i.json" "$bin/baton" run --server="$address" --raw --temperature=0 -n 24 --json "${prompts[$i]}" ||
      return 1
  done
}

answer_tokens() { sed -n 's/.*"token_ids":\[\([0-9,]*\)\].*/\1/p' "$1" | tr ',' ' '; }
timing() { sed -n "s/.*\"$2\":\([0-9.eE+-]*\)[,}].*/\1/p" "$1"; }

# end_to_end NAME MODEL LEAST_PERCENT ARGUMENTS...: compares the tokens of the device's workers with those of the CPU's. At
# least LEAST_PERCENT must agree, counted in each answer up to its first difference.
end_to_end() {
  local name=$1 model=$2 least=$3 begin=$SECONDS folder=$out/end_to_end_$1 i j where on same=0 all=0
  shift 3
  if [[ -n $no_gpu && $device == cuda ]]; then
    row end_to_end "$name" skipped "$no_gpu"
    return
  fi
  mkdir -p "$folder"
  for where in reference checked; do
    on=$device
    if [[ $where == reference ]]; then on=cpu; fi
    if ! serve 60 "$folder/serve_$where.log" --model="$tiny/$model.gguf" --device="$on" --threads=1 \
      --gpu-memory-utilization=0.80 "$@" || ! ask "$folder/$where"; then
      stop_server
      row end_to_end "$name" failed "on $on: $(last_words "$folder/serve_$where.log")" $((SECONDS - begin))
      return
    fi
    stop_server
  done
  for i in "${!prompts[@]}"; do
    local reference got
    read -r -a reference <<<"$(answer_tokens "$folder/reference/$i.json")"
    read -r -a got <<<"$(answer_tokens "$folder/checked/$i.json")"
    if [[ ${#reference[@]} -lt 2 || $(timing "$folder/checked/$i.json" kv_transfer_bytes) -lt 1 ]]; then
      row end_to_end "$name" failed "prompt $i: no tokens, or none of its KV was handed off" $((SECONDS - begin))
      return
    fi
    all=$((all + ${#reference[@]}))
    for j in "${!reference[@]}"; do
      [[ ${reference[$j]} == "${got[$j]:-}" ]] || break
      same=$((same + 1))
    done
  done
  local detail="$same of $all tokens are the CPU's, each answer up to its first difference; at least $least % must be"
  if ((same * 100 >= all * least)); then
    row end_to_end "$name" passed "$detail" $((SECONDS - begin))
  else
    row end_to_end "$name" failed "$detail" $((SECONDS - begin))
  fi
}

# --- compute-sanitizer.

find_sanitizer() {
  local path
  command -v compute-sanitizer && return
  for path in "${CUDA_HOME:-/nowhere}"/bin /usr/local/cuda*/bin /usr/local/cuda*/compute-sanitizer \
    /opt/nvidia/*/compute-sanitizer /opt/nvidia/nsight-compute/*/host/target-linux-x64; do
    [[ -x $path/compute-sanitizer ]] && echo "$path/compute-sanitizer" && return
  done
  return 1
}

# sanitize TOOL NAME FILTER LIMIT
sanitize() {
  local tool=$1 name=$2 filter=$3 log=$out/$1_$2.log begin=$SECONDS status
  if [[ -n $no_gpu ]]; then
    row sanitizer "$tool $name" skipped "$no_gpu"
    return
  fi
  if [[ -z $sanitizer ]]; then
    row sanitizer "$tool $name" skipped "compute-sanitizer is not in PATH, /usr/local/cuda*/bin or /opt/nvidia"
    return
  fi
  if [[ ! -x $tests/gpu_${name}_test ]]; then
    row sanitizer "$tool $name" skipped "$tests/gpu_${name}_test was not built"
    return
  fi
  BATON_TEST_NO_POISON=1 limited "$4" "$log" "$sanitizer" --tool "$tool" --report-api-errors no --error-exitcode 99 \
    "$tests/gpu_${name}_test" --gtest_brief=1 --gtest_filter="$filter"
  status=$?
  local took=$((SECONDS - begin))
  case $status in
    0) row sanitizer "$tool $name" passed "$(grep -h 'SUMMARY' "$log" | tail -n 1 | sed 's/^=* *//')" $took ;;
    124) row sanitizer "$tool $name" skipped "not done after $took s" $took ;;
    125) row sanitizer "$tool $name" skipped "no time was left" ;;
    99) row sanitizer "$tool $name" failed "$(grep -h 'SUMMARY' "$log" | tail -n 1 | sed 's/^=* *//'); see ${log##*/}" $took ;;
    *)
      # If the tool itself does not work here, it says so before the first test.
      if grep -qi 'not supported\|unable to\|failed to initialize\|Internal Sanitizer Error' "$log" "$log.err"; then
        row sanitizer "$tool $name" skipped "the tool does not work here: $(last_words "$log")" $took
      else
        row sanitizer "$tool $name" failed "status $status; $(last_words "$log")" $took
      fi
      ;;
  esac
}

# --- Benchmarks.

# bench NAME LIMIT COMMAND...: puts the command's JSON into the report. Writes a row and returns 1 if it did not run.
bench() {
  local name=$1 limit=$2 log=$out/bench_$1.json begin=$SECONDS status
  shift 2
  limited "$limit" "$log" "$@"
  status=$?
  if [[ $status -ne 0 ]]; then
    local why
    why=$(last_words "$log")
    if [[ $status -eq 124 ]]; then why="not done after $((SECONDS - begin)) s"; fi
    # 70 is a CUDA error. 128 and more is a signal, but not that of the limit.
    local verdict=skipped
    if [[ $status -eq 70 || ($status -ge 128 && $status -ne 137) ]]; then verdict=failed; fi
    row bench "$name" "$verdict" "status $status: $why" $((SECONDS - begin))
    return 1
  fi
  benches_json+=("\"$name\": $(cat "$log")")
  return 0
}

# value FILE TEST FIELD [BATCH [DEPTH]]: prints a field of a result of `baton bench engine --json`.
value() {
  awk -v test="$2" -v field="$3" -v batch="${4:-1}" -v depth="${5:-0}" '
    { gsub(/[",]/, ""); key = $1; sub(/:$/, "", key) }
    key == "test" { t = $2 } key == "depth" { d = $2 } key == "batch" { b = $2 }
    key == field && t == test && d == depth && b == batch { print $2; exit }' "$1"
}

# target NAME VALUE UNIT AT_LEAST BETTER: writes a row of the table of docs/benchmarks/gpu.md. BETTER is higher or lower.
target() {
  local verdict
  if [[ -z $2 ]]; then
    row target "$1" skipped "no figure: see its benchmark's row and log"
    return
  fi
  verdict=$(awk -v v="$2" -v least="$4" -v better="$5" 'BEGIN {
    print ((better == "higher") ? v >= least : v <= least) ? "reached" : "missed" }')
  row target "$1" measured "$(awk -v v="$2" 'BEGIN { printf "%.4g", v }') $3; at least $4: $verdict"
}

no_target() { row target "$1" skipped "$2"; }

# median FIGURES...: prints the median.
median() { printf '%s\n' "$@" | sort -g | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'; }

# The file of the 8B shape, which several benchmarks read, has 16 GB. It is written while the tests run.
model_8b=
begin_writing_8b() {
  local room
  room=$(df --output=avail -B1 "$scratch" | tail -n 1)
  ((room > 20000000000)) || return 0
  timeout -k 5 "$seconds" "$bin/baton" bench engine --shape llama-3.1-8b --weights bf16 --write-gguf "$scratch/8b.gguf" \
    >"$out/write_8b.log" 2>&1 </dev/null &
  writer=$!
}
end_writing_8b() {
  local stop_at=$((SECONDS + 90))
  while [[ -n $writer ]] && kill -0 "$writer" 2>/dev/null && ((SECONDS < stop_at && SECONDS < end)); do sleep 0.5; done
  if [[ -n $writer ]] && ! kill -0 "$writer" 2>/dev/null && wait "$writer"; then model_8b=$scratch/8b.gguf; fi
}

bench_8b() {
  local model=(--shape llama-3.1-8b --weights bf16)
  if [[ -n $model_8b ]]; then model=(--model "$model_8b"); fi
  if bench engine_8b 120 "$bin/baton" bench engine --device cuda "${model[@]}" -p 4096,8192 -n 64 -b 1,64 -r 3 \
    --max-num-batched-tokens 8192 --kv-cache-dtype bf16 --json; then
    local json=$out/bench_engine_8b.json
    row bench engine_8b measured "$(value "$json" tg64 tokens_per_s) tokens/s of decode, batch 1"
    target "decode 8B, batch 1" "$(value "$json" tg64 share_of_bandwidth)" "of the copy bandwidth" 0.70 higher
    target "prefill 8B, 4096 tokens" "$(value "$json" pp4096 share_of_peak)" "of the GEMM rate" 0.50 higher
    target "prefill 8B, 8192 tokens" "$(value "$json" pp8192 share_of_peak)" "of the GEMM rate" 0.50 higher
  else
    for name in "decode 8B, batch 1" "prefill 8B, 4096 tokens" "prefill 8B, 8192 tokens"; do
      no_target "$name" "bench engine_8b did not run"
    done
    return
  fi
  if bench engine_8b_deterministic 80 "$bin/baton" bench engine --device cuda --deterministic "${model[@]}" -p 4096 -n 64 \
    -b 1,64 -r 3 --max-num-batched-tokens 8192 --kv-cache-dtype bf16 --json; then
    local costs=() measure
    for measure in "tg64 1" "tg64 64" "pp4096 1"; do
      # shellcheck disable=SC2086  # a test and its batch
      set -- $measure
      costs+=("$(awk -v usual="$(value "$json" "$1" tokens_per_s "$2")" \
        -v alike="$(value "$out/bench_engine_8b_deterministic.json" "$1" tokens_per_s "$2")" \
        'BEGIN { if (alike > 0) printf "%.2f", usual / alike; else printf "?" }')")
    done
    row bench engine_8b_deterministic measured \
      "takes ${costs[0]} times as long for decode at batch 1, ${costs[1]} at 64, ${costs[2]} for prefill of 4096 tokens"
  fi
}

bench_small() {
  if bench engine_1b 60 "$bin/baton" bench engine --device cuda --shape llama-3.2-1b --weights bf16 -p 4096 -n 128 -r 3 \
    --max-num-batched-tokens 4096 --kv-cache-dtype bf16 --json; then
    row bench engine_1b measured "$(value "$out/bench_engine_1b.json" tg128 tokens_per_s) tokens/s of decode, batch 1"
    target "decode 1B, batch 1" "$(value "$out/bench_engine_1b.json" tg128 share_of_bandwidth)" \
      "of the copy bandwidth" 0.50 higher
  else
    no_target "decode 1B, batch 1" "bench engine_1b did not run"
  fi
  if bench engine_135m 40 "$bin/baton" bench engine --device cuda --shape smollm2-135m --weights bf16 -p 512 -n 256 -b 1,64 \
    -r 3 --kv-cache-dtype bf16 --json; then
    row bench engine_135m measured "$(value "$out/bench_engine_135m.json" tg256 tokens_per_s) tokens/s of decode, batch 1"
    target "SmolLM2-135M step" "$(value "$out/bench_engine_135m.json" tg256 step_us)" "microseconds" 450 lower
  else
    no_target "SmolLM2-135M step" "bench engine_135m did not run"
  fi
}

bench_attention() {
  local json=$out/bench_attention.json
  if bench attention 60 "$bin/baton-bench-device-attention" --device cuda; then
    row bench attention measured "decode $(sed -n 's/.*"gb_s": \([0-9.]*\).*/\1/p' "$json" | tail -n 1) GB/s"
    target "decode attention, batch 64 x 8k" "$(sed -n 's/.*"share_of_copy": \([0-9.]*\).*/\1/p' "$json")" \
      "of the copy bandwidth" 0.75 higher
    local figures
    mapfile -t figures < <(sed -n 's/.*"tflop_s": \([0-9.]*\).*/\1/p' "$json")
    target "prefill attention, 8k" "${figures[0]:-}" "TFLOP/s" 300 higher
    target "prefill attention, 16k" "${figures[1]:-}" "TFLOP/s" 300 higher
  else
    for name in "decode attention, batch 64 x 8k" "prefill attention, 8k" "prefill attention, 16k"; do
      no_target "$name" "bench attention did not run"
    done
  fi
}

# hand_off NAME LEAST_PERCENT ARGUMENTS...: measures the exposed transfer of 2,000-token prompts, divided by the time to first
# token.
hand_off() {
  local name=$1 least=$2 folder=$out/hand_off_$3 begin=$SECONDS i shares=() text
  shift 3
  if [[ -z $model_8b ]]; then
    no_target "$name" "the 8B shape's file needs 20 GB of free space in ${TMPDIR:-/tmp}, and 90 s to be written"
    return
  fi
  mkdir -p "$folder"
  if ! serve 90 "$folder/serve.log" --model="$model_8b" --device=cuda --gpu-memory-utilization=0.80 --kv-cache-dtype=bf16 \
    --max-num-batched-tokens=2048 --max-model-len=8192 "$@"; then
    if grep -q 'CUDA: ' "$folder/serve.log.err"; then
      row hand_off "$name" failed "$(grep -h 'CUDA: ' "$folder/serve.log.err" | head -n 1)" $((SECONDS - begin))
    fi
    no_target "$name" "no workers: $(last_words "$folder/serve.log")"
    return
  fi
  for ((i = 0; i < 6; ++i)); do
    # Each prompt is different, and has about one token for each letter.
    text=$(awk -v seed="$i" 'BEGIN { srand(seed + 1); for (j = 0; j < 2000; ++j) printf "%c", 99 + int(rand() * 24) }')
    limited 20 "$folder/$i.json" "$bin/baton" run --server="$address" --raw --temperature=0 -n 4 --json "$text" || break
    if ((i > 0)); then  # the first one warms up
      shares+=("$(awk -v e="$(timing "$folder/$i.json" exposed_kv_transfer_ms)" \
        -v t="$(timing "$folder/$i.json" time_to_first_token_ms)" 'BEGIN { if (t > 0) print 100 * e / t }')")
    fi
  done
  stop_server
  if [[ ${#shares[@]} -lt 3 ]]; then
    no_target "$name" "requests failed: $(last_words "$folder/$i.json")"
    return
  fi
  benches_json+=("\"${folder##*/}\": [$(sed -n 's/^\(.*\)$/\1/p' "$folder"/[1-5].json | paste -sd,)]")
  target "$name" "$(median "${shares[@]}")" "% of the time to the first token ($((SECONDS - begin)) s in all)" "$least" lower
}

bench_quantised() {
  local type
  for type in q4_0 q4_k q8_0; do
    if bench "engine_8b_$type" 60 "$bin/baton" bench engine --device cuda --shape llama-3.1-8b --weights "$type" -p 0 -n 32 \
      -b 1,4,16,32,64 -r 2 --kv-cache-dtype bf16 --json; then
      row bench "engine_8b_$type" measured "$(for batch in 1 4 16 32 64; do
        printf '%s us a step of %d, ' "$(value "$out/bench_engine_8b_$type.json" tg32 step_us $batch | cut -d. -f1)" $batch
      done)"
    fi
  done
}

bench_transfer() {
  if bench transfer 60 "$bin/baton" bench transfer --device cuda --rounds 1 --json; then
    row bench transfer measured "see bench_transfer.json"
  fi
}

# --- All of it.

check_machine
probe_gpu
if [[ -z $no_gpu ]]; then begin_writing_8b; fi
for name in rows attention sampler vector_product experts weight backend; do gpu_test parity $name 60; done
gpu_test goldens transformer 60
gpu_test goldens exactness 60
gpu_test goldens engine 60
end_to_end f32 tiny-llama-f32 95 --kv-cache-dtype=f32
end_to_end bf16_kv tiny-llama-f32 50 --kv-cache-dtype=bf16
sanitizer=$(find_sanitizer || true)
if [[ -n $no_gpu ]]; then
  for name in engine_8b engine_8b_deterministic engine_1b engine_135m engine_8b_{q4_0,q4_k,q8_0} attention transfer; do
    row bench "$name" skipped "$no_gpu"
  done
  for name in "decode 8B, batch 1" "decode 1B, batch 1" "SmolLM2-135M step" "decode attention, batch 64 x 8k" \
    "prefill 8B, 4096 tokens" "prefill 8B, 8192 tokens" "prefill attention, 8k" "prefill attention, 16k" \
    "exposed transfer, 2,000 tokens" "exposed transfer, int8 wire"; do
    no_target "$name" "$no_gpu"
  done
else
  end_writing_8b
  bench_8b
  bench_attention
  bench_small
  bench_quantised
  bench_transfer
  hand_off "exposed transfer, 2,000 tokens" 25 bf16
  hand_off "exposed transfer, int8 wire" 10 int8 --kv-wire-dtype=int8
fi
no_target "generation beside Hugging Face" "takes longer than this script may: bench/compare_hugging_face.py"
no_target "batching beside Hugging Face" "takes longer than this script may: bench/compare_hugging_face.py"
# compute-sanitizer comes last: it makes kernels ten to a hundred times slower and takes the time that is left.
sanitize memcheck rows '*' 100
sanitize memcheck attention '*MoreShapes*' 40
sanitize racecheck attention 'Shapes/CudaAttention.Is*' 60
sanitize initcheck rows '*' 100
sanitize initcheck attention '*MoreShapes*' 40
sanitize memcheck sampler '*' 40
sanitize memcheck vector_product '*' 40
sanitize initcheck sampler '*' 40
sanitize initcheck vector_product '*' 40

if ((failures > 0)); then exit 1; fi
