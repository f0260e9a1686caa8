#!/bin/sh
# demo.sh [BUILD] - what this version can show: the trunk against the numbers AlphaFold's own code gives for the same inputs and
# weights, then one Evoformer block of the published size, timed. (Sequences in and structures out come with the whole model.)
set -eu
build=${1:-build}
echo "1. The whole trunk, embeddings to last block, every output and gradient against AlphaFold's own code:"
"$build/bin/golden_check" --json --only embeddings_and_evoformer tests/golden |
    awk -F'"' '/"array"/ { n++; if ($0 ~ /"pass": true/) good++ } END { printf "   %d arrays compared, %d within tolerance\n", n, good; exit n == 0 || n != good }'
echo "2. Published sizes (one real case a module):"
for family in msa_attention triangle outer_product_mean transition evoformer_block template; do
    "$build/bin/golden_check" --only $family tests/golden | tail -n 1 | sed "s/^/   $family: /"
done
echo "3. One Evoformer block, 128 sequences x 256 residues, on this machine:"
"$build/bin/fastfold-bench" evoformer_block --pass inference --num-seq 128 --num-res 256 --repeat 3
