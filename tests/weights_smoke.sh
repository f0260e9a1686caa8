#!/bin/sh
# weights_smoke.sh PROGRAM: fastfold-weights as a user runs it: init, inspect, convert there and back, and what it refuses.
# Last line: `N passed, N failed`.
set -u
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# says NAME STATUS TEXT COMMAND...: the exit status, and that the output (both streams) holds the text
says()
{
    name=$1 want=$2 text=$3
    shift 3
    output=$("$@" 2>&1)
    status=$?
    if [ $status -eq "$want" ] && printf '%s\n' "$output" | grep -qF -- "$text"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAIL %s: exit status %s, expected %s and "%s":\n%s\n' "$name" $status "$want" "$text" "$output"
    fi
}

says init 0 "preset tiny, seed 1" "$program" init --preset tiny --seed 1 -o "$work/a.npz"
says "init again gives the same" 0 "" "$program" init --preset tiny --seed 1 -o "$work/b.npz"
says "the same bytes" 0 "" cmp "$work/a.npz" "$work/b.npz"
says "another seed" 0 "" "$program" init --preset tiny --seed 2 --overwrite -o "$work/b.npz"
says "other bytes" 1 "differ" cmp "$work/a.npz" "$work/b.npz"
says "an old file is kept" 2 "--overwrite replaces it" "$program" init --preset tiny -o "$work/a.npz"
says inspect 0 "preset      tiny" "$program" inspect "$work/a.npz"
says "inspect lists" 0 "evoformer/evoformer_iteration/msa_transition/transition1/weights" "$program" inspect "$work/a.npz"
says "inspect with values" 0 "largest" "$program" inspect "$work/a.npz" --values
says "the right preset" 0 "tiny" "$program" inspect "$work/a.npz" --preset tiny --no-list
says "a wrong preset" 1 "does not fit preset model_3" "$program" inspect "$work/a.npz" --preset model_3
says "to a checkpoint" 0 "preset tiny" "$program" convert "$work/a.npz" -o "$work/a.h5"
says "inspect a checkpoint" 0 "checkpoint  preset tiny, step 0" "$program" inspect "$work/a.h5"
says "and back" 0 "preset tiny" "$program" convert "$work/a.h5" -o "$work/c.npz"
says "the same bytes again" 0 "" cmp "$work/a.npz" "$work/c.npz"
says "OpenFold's tensors" 0 "ema/params/model.input_embedder.linear_tf_m.weight" \
    "$program" inspect tests/data/weights/openfold.pt
says "OpenFold's of no preset" 1 "fits no preset (none; nearest" \
    "$program" convert tests/data/weights/openfold.pt -o "$work/d.npz"
says "nothing was written" 1 "" test -e "$work/d.npz"
says "no such file" 1 "alphafold_params_2022-12-06.tar (licence CC BY 4.0)" "$program" inspect "$work/params_model_1.npz"
says "an unknown preset" 2 "there is no preset model_9" "$program" init --preset model_9 -o "$work/e.npz"
says "a family" 2 "stands for five models" "$program" init --preset monomer -o "$work/e.npz"
says "a multimer" 1 "predicts complexes" "$program" init --preset model_1_multimer_v3 -o "$work/e.npz"
says "an unknown ending" 2 "should end in .npz or .h5" "$program" init --preset tiny -o "$work/e.pt"
says "an unknown command" 2 "unknown command" "$program" explode
says "no command" 2 "say what to do" "$program"
says "a folder that is not there" 1 "cannot write" "$program" init --preset tiny -o "$work/none/a.npz"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
