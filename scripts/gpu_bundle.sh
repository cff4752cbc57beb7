#!/usr/bin/env bash
# Packs programs, their shared libraries, the GPU tests and scripts/gpu_check.sh into a folder and an archive that run on any
# x86-64 Linux with an NVIDIA driver; where glibc is older than 2.36, by the loader and glibc of own-glibc/. cuBLASLt is not packed,
# since it is ten times as large as the rest: the programs find it on the machine (a CUDA Toolkit, or Python's package nvidia-cublas)
# or do without it.
#   [CUDACXX=NVCC] scripts/gpu_bundle.sh [architectures, as BATON_CUDA_ARCHITECTURES; default 90a-real]
# NVCC: that of the CUDA Toolkit to build with, 12.4 or newer; by default the one in PATH or /usr/local/cuda. The driver must know
# its version of CUDA: 12.4 (scripts/fetch_cuda12.sh) is for drivers from 550 on, 13.0 for those from 580 on.
# Writes build/baton-gpu/ and build/baton-gpu.tar.xz (tar -xf, or where there is no xz python3 -m tarfile -e); ends with 1
# if the archive is larger than 60 MiB or needs something that it does not have.
set -euo pipefail
cd "$(dirname "$0")/.."

[[ ${1:-} != -* ]] || { echo "gpu_bundle: $1 is no list of architectures; the head of $0 says what it takes" >&2; exit 2; }

limit_bytes=$((60 << 20))
newest_glibc=2.36
architectures=${1:-90a-real}
bundle=$PWD/build/baton-gpu
archive=$bundle.tar.xz
programs=(baton baton-router baton-grammar-compiler baton-prefill-worker baton-decode-worker baton-bench-unchecked baton-bench-device-attention)

nvcc=$(command -v "${CUDACXX:-nvcc}" || { [[ -n ${CUDACXX:-} ]] || ls /usr/local/cuda/bin/nvcc 2>/dev/null; } || true)
if [[ -z $nvcc ]]; then
  echo "gpu_bundle: no nvcc at ${CUDACXX:-PATH or /usr/local/cuda/bin}; install the CUDA Toolkit, 12.4 or newer, and name its nvcc by CUDACXX" >&2
  exit 2
fi
toolkit=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
cublas=nvidia-cublas
[[ $toolkit != 12.* ]] || cublas=nvidia-cublas-cu12
build=$PWD/build/cuda${CUDACXX:+-$toolkit}
# The build has the options of scripts/test.sh, so that ccache has most of it.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
cmake --preset cuda -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DBATON_BENCH_UNCHECKED=ON -DBATON_CUDA_ARCHITECTURES="$architectures" \
  -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_FLAGS="-Werror all-warnings" >/dev/null
NINJA_STATUS='[%f/%t, %es] ' ninja -C "$build" "${programs[@]}" gpu_tests

rm -rf "$bundle" "$archive"
mkdir -p "$bundle"/{bin,lib,scripts,bench,tests/data/traces,own-glibc/{bin,lib,tests}}
for program in "${programs[@]}"; do cp "$build/bin/$program" "$bundle/bin/"; done
cp "$build"/tests/gpu_*_test "$bundle/tests/"
cp -r tests/data/tiny tests/data/arch "$bundle/tests/data/"
cp scripts/gpu_check.sh "$bundle/scripts/"
cp bench/compare_hugging_face.py "$bundle/bench/"
cp tests/data/traces/azure_conversation.csv "$bundle/tests/data/traces/"
cp LICENSE "$bundle/"
mkdir "$bundle/licenses.xgrammar"
cp "$(scripts/build_xgrammar.sh)"/{LICENSE,NOTICE,LICENSE.picojson} "$bundle/licenses.xgrammar/"
mkdir "$bundle/licenses.marked"
cp router/page/vendor/marked/LICENSE "$bundle/licenses.marked/"
cat >"$bundle/README.txt" <<EOF
Baton $("$build/bin/baton" --version), GPU code for $architectures.

  scripts/gpu_check.sh --out gpu_check    checks everything and measures it, in under 8 minutes
  bench/compare_hugging_face.py           decode and batching beside PyTorch and transformers, where they are installed
  bin/baton --help

Where glibc is older than $newest_glibc (\`ldd --version\`), use own-glibc/bin/baton and so on in place of bin/baton.

Needs an NVIDIA driver for CUDA $toolkit or newer (nvidia-smi shows the driver's). Without libcublasLt of a CUDA Toolkit ${toolkit%%.*}
or of Python's package $cublas prompts need up to twice the time. Everything else is in lib/.
EOF

# The driver's libraries are taken from the machine, and those of glibc with its loader if they are new enough.
machines_own='^(ld-linux.*|libc|libm|libmvec|libdl|librt|libpthread|libresolv|libutil|libanl|libnsl|libnss_.*|libcuda|libnvidia.*)\.so'
ldd "$bundle"/bin/* "$bundle"/tests/gpu_* | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
  while read -r library; do
    name=${library##*/}
    [[ $name =~ $machines_own ]] || cp -L "$library" "$bundle/lib/$name"
  done
for library in ld-linux-x86-64.so.2 lib{c,m}.so.6 libmvec.so.1 lib{dl,resolv}.so.2 lib{rt,util}.so.1 libpthread.so.0 libnss_{files,dns}.so.2; do
  cp -L "/lib/x86_64-linux-gnu/$library" "$bundle/own-glibc/lib/"
done
for program in "$bundle"/bin/* "$bundle"/tests/gpu_*; do
  launcher=$bundle/own-glibc/${program#"$bundle/"}
  cat >"$launcher" <<'EOF'
#!/bin/sh
# The program of the bundle, by the bundle's own loader and glibc: neither works with another version of the other.
own=$(cd "${0%/*}/.." && pwd)
program=${0##*/}
folder=${0%/*}
exec "$own/lib/ld-linux-x86-64.so.2" --library-path "$own/lib" --argv0 "$own/${folder##*/}/$program" "$own/../${folder##*/}/$program" "$@"
EOF
  chmod +x "$launcher"
done
strip --strip-unneeded "$bundle"/bin/* "$bundle"/tests/gpu_* "$bundle"/lib/*

tar -C "$bundle/.." --sort=name --owner=0 --group=0 -cf - baton-gpu |
  xz --lzma2=preset=1,dict=64MiB >"$archive"  # large enough to find one program's kernels again in the next
bytes=$(stat -c %s "$archive")
libraries=("$bundle"/lib/*)
echo "$archive: $((bytes / 1024)) KiB packed, $(du -sk "$bundle" | cut -f1) KiB unpacked, ${#libraries[@]} libraries"

# Tests the archive as on another machine: unpacked elsewhere and with an empty environment.
elsewhere=$(mktemp -d)
trap 'rm -rf "$elsewhere"' EXIT
tar -C "$elsewhere" -xf "$archive"
foreign=$(env -i /bin/sh -c "ldd '$elsewhere'/baton-gpu/bin/* '$elsewhere'/baton-gpu/tests/gpu_*" |
  awk '$2 == "=>"' | grep -v "=> $elsewhere/baton-gpu/" | awk '{ print $1, $2, $3, $4 }' | sort -u |
  grep -Ev "$machines_own" || true)
if [[ -n $foreign ]]; then
  printf 'gpu_bundle: not in the bundle:\n%s\n' "$foreign" >&2
  exit 1
fi
wanted=$(objdump -T "$elsewhere"/baton-gpu/{bin/*,lib/*,tests/gpu_*} 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
if [[ $(printf '%s\nGLIBC_%s\n' "$wanted" "$newest_glibc" | sort -V | tail -n 1) != "GLIBC_$newest_glibc" ]]; then
  echo "gpu_bundle: needs $wanted; GLIBC_$newest_glibc is the newest that it may" >&2
  exit 1
fi
for program in "$elsewhere"/baton-gpu/{,own-glibc/}bin/baton; do
  [[ $(env -i "$program" --version) == "$("$build/bin/baton" --version)" ]]
done
if ((bytes > limit_bytes)); then
  echo "gpu_bundle: $bytes bytes are more than 60 MiB" >&2
  exit 1
fi
