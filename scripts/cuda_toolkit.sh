#!/usr/bin/env bash
# Prints what the build of a release needs to know of the CUDA Toolkit in a folder, such as /usr/local/cuda.
#   scripts/cuda_toolkit.sh FOLDER version    its version, such as 13.0
#   scripts/cuda_toolkit.sh FOLDER cublaslt   the path of its library cuBLASLt
#   scripts/cuda_toolkit.sh FOLDER licence    the path of NVIDIA's licence, which goes with every copy of its libraries
#   scripts/cuda_toolkit.sh FOLDER            nothing
# Ends with 2, and names what is missing, if the folder does not have all that a release needs.
set -euo pipefail

toolkit=${1:?cuda_toolkit: name the folder of a CUDA Toolkit}

# first FIND_TEST...: prints the file for which the test of find(1) holds; of several the one that is least deep.
first() {
  [[ ! -d $toolkit ]] || find -L "$toolkit" -maxdepth 6 -not -path '*/stubs/*' \( "$@" \) -printf '%d %p\n' | sort -n |
    sed -n '1s/^[0-9]* //p'
}
need() {
  [[ -n $2 ]] || {
    echo "cuda_toolkit: $toolkit has no $1, so it is no complete CUDA Toolkit (12.4 or newer)" >&2
    exit 2
  }
}

nvcc=$toolkit/bin/nvcc
[[ -x $nvcc ]] || nvcc=
need bin/nvcc "$nvcc"
need cublasLt.h "$(first -name cublasLt.h)"
need libcudart_static.a "$(first -name libcudart_static.a)"
cublaslt=$(first -regex '.*/libcublasLt\.so\.[0-9]+')
need libcublasLt.so "$cublaslt"
licence=$(first -type f \( -iname 'eula*' -o -iname 'license*' \))
need "file EULA or LICENSE" "$licence"

case ${2:-} in
  version) "$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p' ;;
  cublaslt) echo "$cublaslt" ;;
  licence) echo "$licence" ;;
esac
