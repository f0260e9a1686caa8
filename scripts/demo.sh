#!/bin/sh
# demo.sh [BUILD] - from a sequence to a structure and its report, on real input that lies in demo/: what `make demo` runs.
# Weights are demo/weights*.npz if there are any, else random numbers, which is said.
set -eu
build=${1:-build}
out=$build/demo
rm -rf "$out"
mkdir -p "$build"

echo "1. The model's trunk against numbers of AlphaFold's own code, every output and gradient:"
if [ -x "$build/bin/golden_check" ]; then
    "$build/bin/golden_check" --json --only embeddings_and_evoformer tests/golden |
        awk -F'"' '/"array"/ { n++; if ($0 ~ /"pass": true/) good++ }
            END { printf "   %d arrays compared, %d within tolerance\n", n, good; exit n == 0 || n != good }'
else
    echo "   golden_check was not built (HDF5 is missing): make deps"
fi

weights="--preset tiny --random-weights"
for file in demo/weights*.npz; do
    [ -f "$file" ] && weights="--weights $file"
done
echo "2. Cytochrome c of baker's yeast from its sequence, an alignment of 10 rows and a template ($weights):"
# shellcheck disable=SC2086
"$build/bin/fastfold-infer" demo/1cih_A.fasta --msa demo/1cih_A.a3m --hhr demo/1cih_A.hits.sto --template-dir demo/templates $weights \
    --output-dir "$out" 2>&1 | sed 's/^/   /'
[ -s "$out/1cih_A/ranked_0.pdb" ]

echo "3. The prediction against the experimental structure, 1CIH:"
"$build/bin/fastfold-compare" "$out/1cih_A/ranked_0.pdb" demo/1cih_A.experiment.pdb.gz | sed 's/^/   /'
case $weights in *random*) echo "   Random weights: these numbers show what no knowledge gives. Published weights: README.md, \"Weights\"." ;; esac

echo "4. What was written ($out/1cih_A; open report.html in any browser, ranked_0.cif in PyMOL or ChimeraX):"
(cd "$out/1cih_A" && wc -c -- *) | sed 's/^/   /'
