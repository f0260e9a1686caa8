#!/bin/bash
# Searches on CPU nodes, then inference (on GPU nodes, where there are some), chained by a dependency.
# usage: jobs/search_then_infer.sh FASTA OUTPUT_DIR [sbatch options of the inference job]
#     FASTFOLD_SEARCH_OPTIONS='--uniref90 /db/uniref90.fasta --cache /scratch/cache' jobs/search_then_infer.sh a.fasta out --gres=gpu:1
# FASTA: one record. Prints the two job ids.
#
jobs=$(cd "$(dirname "$0")" && pwd)
. "$jobs/common.sh"
[ $# -ge 2 ] || usage
fasta=$1 output=$2
shift 2
mkdir -p "$output" || exit 1
features=$output/$(basename "$fasta" | sed 's/\.[^.]*$//').features.h5
search=$(sbatch --parsable --export=ALL,FASTFOLD_JOBS="$jobs" --output="$output/search-%j.log" "$jobs/search.sbatch" "$fasta" \
    "$features") || exit 1
infer=$(sbatch --parsable --export=ALL,FASTFOLD_JOBS="$jobs" --dependency="afterok:$search" --kill-on-invalid-dep=yes \
    --output="$output/infer-%j.log" "$@" "$jobs/infer_features.sbatch" "$features" "$output") || exit 1
echo "search $search infer $infer"
