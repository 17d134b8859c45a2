#!/usr/bin/env bash
# Trains the cases of benches/training.rs on a GPU with pytree and with JAX in turn, and prints a table: the ratio of the times,
# the memory and the first step.
#
#   benches/gpu.sh                                  all cases in f32 and bf16 on an NVIDIA GPU
#   benches/gpu.sh --cases "C1 C4" --dtypes bf16    some of them
#   benches/gpu.sh --gpt2                           GPT-2: a training step with 8 x 512 tokens, and a token with a cache, in bf16
#   benches/gpu.sh --plugin PATH                    pytree on the device of another plugin, JAX on the CPU
#
# Needs Rust, Python 3.12 or later, and the driver of the GPU. Installs JAX with the libraries of CUDA, about 5 GB, into
# target/gpu once. `--cuda 12` uses CUDA 12 instead of 13. `--rounds N` runs each program N times; the default is 3. The lines
# that the programs print are kept in target/gpu/results.jsonl.
#
# On a machine without network or Rust, `--python PATH` takes a Python that has JAX for CUDA and optax, and `--program PATH` the
# program that `cargo bench --no-run --features models,pjrt --bench training` (or `language`) has built on another machine.
#
# The times of f32 are those of exact products in both: JAX uses TF32 on a GPU unless it is told not to.
set -euo pipefail
cd "$(dirname "$0")/.."

# The versions of the comparison on CPUs.
version() { sed -n "s/^$1==//p" benches/comparison/requirements.txt; }
jax=$(version jax)
optax=$(version optax)
plugin="" cuda=13 rounds=3 interpreter="" program="" dtypes="f32 bf16" cases="C1 C2 C3 C4 mlp4096 transformer1024"
bench=training
while [ $# -gt 0 ]; do
  case "$1" in
    --gpt2)
      bench=language dtypes=bf16 cases="train token"
      shift
      continue
      ;;
    --plugin) plugin=$2 ;;
    --cuda) cuda=$2 ;;
    --rounds) rounds=$2 ;;
    --dtypes) dtypes=$2 ;;
    --cases) cases=$2 ;;
    --python) interpreter=$2 ;;
    --program) program=$2 ;;
    *)
      echo "gpu.sh: expected --gpt2, or --plugin, --cuda, --rounds, --dtypes, --cases, --python or --program with a value, found $1" >&2
      exit 2
      ;;
  esac
  shift 2
done

# The environment of JAX.
extra=""
[ -n "$plugin" ] || extra="[cuda$cuda]"
environment=$PWD/target/gpu/python-$jax${extra:+-cuda$cuda}
if [ -z "$interpreter" ] && ! "$environment/bin/python" -c 'import jax, optax' 2>/dev/null; then
  python=""
  for candidate in "${PYTHON:-}" python3.13 python3.12 python3.14 python3 "$HOME"/.pyenv/versions/3.1[2-9]*/bin/python; do
    if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
      python=$candidate
      break
    fi
  done
  [ -n "$python" ] || { echo "gpu.sh: expected Python 3.12 or later; set PYTHON to its path" >&2; exit 1; }
  rm -rf "$environment"
  "$python" -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check "jax$extra==$jax" "optax==$optax"
fi
: "${interpreter:=$environment/bin/python}"

# The plugin of JAX itself, which finds the libraries of CUDA beside it.
packages=$("$interpreter" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
if [ -z "$plugin" ]; then
  plugin=$packages/jax_plugins/xla_cuda$cuda/xla_cuda_plugin.so
  [ -f "$plugin" ] || { echo "gpu.sh: the package jax-cuda$cuda-pjrt has no $plugin" >&2; exit 1; }
  # XLA reads ptxas and libdevice from here. JAX passes the path itself.
  for folder in "$packages/nvidia/cu13" "$packages/nvidia/cuda_nvcc"; do
    if [ -d "$folder" ]; then export CUDA_ROOT=$folder XLA_FLAGS="${XLA_FLAGS:-} --xla_gpu_cuda_data_dir=$folder"; fi
  done
fi
export PYTREE_PJRT_PLUGIN=$plugin

[ -n "$program" ] || program=$(cargo bench --quiet --locked --features models,pjrt --bench $bench --no-run --message-format json |
  "$interpreter" -c 'import json, sys; print([it["executable"] for it in map(json.loads, sys.stdin) if it.get("executable")][-1])')
mkdir -p target/gpu
results=target/gpu/results.jsonl
: > "$results"

# Adds the dtype to each line.
record() { sed "s/^{/{\"dtype\":\"$1\",/" >> "$results"; }
sizes() {
  case "$bench $1" in
    "language train") echo --batch 8 --length 512 ;;
    "language token") echo --length 512 ;;
  esac
}
ours() { "$program" --pjrt $2 $(sizes "$1") "$1"; }
theirs() { "$interpreter" "benches/jax_$bench.py" $2 $(sizes "$1") "$1"; }

card=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo "no NVIDIA GPU")
echo "$card; $("$interpreter" -m pip list 2>/dev/null | grep -iE '^(jax|optax)' | tr -s ' ' | paste -sd ';')"

for round in $(seq "$rounds"); do
  for case in $cases; do
    for dtype in $dtypes; do
      if [ "$dtype" = f32 ]; then
        export JAX_DEFAULT_MATMUL_PRECISION=highest option=""
      else
        unset JAX_DEFAULT_MATMUL_PRECISION
        option=--$dtype
      fi
      echo "round $round of $rounds: $case, $dtype" >&2
      # Each case in a process of its own, so that the memory is that of the case.
      if [ $((round % 2)) = 1 ]; then
        ours "$case" "$option" | record "$dtype"
        theirs "$case" "$option" | record "$dtype"
      else
        theirs "$case" "$option" | record "$dtype"
        ours "$case" "$option" | record "$dtype"
      fi
    done
  done
done
"$interpreter" benches/training_table.py "$results" "$card"
