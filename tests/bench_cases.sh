#!/bin/sh
# bench_cases.sh BENCH [DATA]: the commands `data` and `train` of fastfold-bench at small sizes: every case is there, with a time and
# figures that fit each other; wrong options are refused. Last line: `N passed, N failed`.
set -u
bench=$1 data=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

verdict() # WHAT STATUS
{
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1"
    fi
}

# value FILE CASE KEY
value() { sed -n "s/.*\"case\": \"$2\".*\"$3\": \([-0-9.e+]*\).*/\1/p" "$1"; }

# holds WHAT EXPRESSION: of awk
holds()
{
    awk "BEGIN { exit !($2) }" 2>/dev/null
    verdict "$1: $2" $?
}

# timed FILE CASE...: each is there once, and its least time is not above its median
timed()
{
    file=$1
    shift
    for name in "$@"; do
        holds "time of $name" "$(value "$file" "$name" seconds_median) >= $(value "$file" "$name" seconds_min)"
        holds "$name takes time" "$(value "$file" "$name" seconds_min) > 0"
    done
}

# 4 rows, one of them twice; 6 columns
printf '>q\nACDEFG\n>a\nAC-EFG\n>b\nAC-EFG\n>c\nACkkDE-G\n' >"$work/a.a3m"
"$bench" data --a3m "$work/a.a3m" --num-chains 6 --num-samples 5 --num-steps 1 --repeat 1 --json >"$work/data" 2>"$work/err"
verdict "data ends well: $(cat "$work/err")" $?
timed "$work/data" a3m_to_features features_to_batch features_to_batch_crop_256 dataset_write loader_1_worker loader_2_workers \
    training_tiny_1_worker training_tiny_2_workers
holds "rows without the double" "$(value "$work/data" a3m_to_features rows) == 3"
holds "columns" "$(value "$work/data" a3m_to_features columns) == 6"
holds "share of waiting" "$(value "$work/data" training_tiny_1_worker wait_percent) <= 100"
if [ -n "$data" ]; then
    "$bench" data --a3m "$work/a.a3m" --data-dir "$data/mmcif" --num-chains 6 --num-samples 5 --num-steps 1 --repeat 1 --json \
        >"$work/more" 2>&1
    files=$(find "$data/mmcif" -name '*.cif' -o -name '*.cif.gz' | wc -l)
    holds "files" "$(value "$work/more" mmcif_read files) + $(value "$work/more" mmcif_read refused) == $files"
    holds "most are read" "$(value "$work/more" mmcif_read files) > 0.8 * $files"
fi
"$bench" data --a3m "$work/none.a3m" >/dev/null 2>&1
[ $? -eq 1 ]
verdict "an alignment that is not there" $?
"$bench" data --a3m "$work/a.a3m" --data-dir "$work/none" >/dev/null 2>&1
[ $? -eq 1 ]
verdict "a folder that is not there" $?

"$bench" train --blocks 1 --num-res 19 --num-seq 3 --num-steps 1 --presets tiny --repeat 1 --quick --json >"$work/train" 2>"$work/err"
verdict "train ends well: $(cat "$work/err")" $?
timed "$work/train" optimiser_step loss_fape_backbone loss_fape_sidechain loss_renaming loss_torsion loss_violation \
    loss_distogram loss_masked_msa loss_plddt loss_resolved loss_pae loss_total step_tiny
holds "parameters of one block" "$(value "$work/train" optimiser_step parameters) > 5e6"
holds "bytes of a step" "$(value "$work/train" optimiser_step gbytes_per_second) * $(value "$work/train" optimiser_step seconds_median) \
    / (44e-9 * $(value "$work/train" optimiser_step parameters)) - 1 < 1e-3"
holds "FLOP of a step" "$(value "$work/train" step_tiny flop) > 1e9"
"$bench" train --blocks 1 --num-res 5 --presets nothing --quick >/dev/null 2>&1
[ $? -eq 2 ]
verdict "a preset that is not there" $?

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
