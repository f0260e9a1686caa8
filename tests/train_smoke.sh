#!/bin/sh
# train_smoke.sh PROGRAM: fastfold-train as a user runs it: a run, stopping and going on, a full disk, a folder that takes no files,
# wrong usage. Last line: `N passed, N failed, N skipped`.
set -u
program=$1
here=$(dirname "$0")
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
chain=$here/data/structures/1a8o_161_184.pdb
common="--overfit $chain --threads 1 --crop 24 --num-recycle 1 --seed 3 --no-progress --checkpoint-every 2 --log-every 1"

good() { passed=$((passed + 1)); }
bad()
{
    failed=$((failed + 1))
    printf 'FAIL %s\n' "$1"
    [ -f "$work/out" ] && cat "$work/out"
}

# says NAME STATUS TEXT COMMAND...: the exit status, and that the output (both streams) holds the text
says()
{
    name=$1 want=$2 text=$3
    shift 3
    "$@" >"$work/out" 2>&1
    status=$?
    if [ $status -eq "$want" ] && grep -qF -- "$text" "$work/out"; then
        good
    else
        bad "$name: exit status $status, expected $want and \"$text\":"
    fi
}

# check NAME COMMAND...: it succeeds
check()
{
    name=$1
    shift
    if "$@"; then good; else bad "$name"; fi
}

# Last checkpoints of two runs have the same bytes: weights, average, moments, numbers.
same_end() { cmp "$1/checkpoint_0000000012.h5" "$work/whole/checkpoint_0000000012.h5"; }

# shellcheck disable=SC2086
{
    says "a whole run" 0 "step 12 validation of 1 chains" "$program" $common --steps 12 --output-dir "$work/whole"
    check "its files" test -s "$work/whole/config.ini" -a -s "$work/whole/run.json" -a -s "$work/whole/training.html" \
        -a -s "$work/whole/best.h5"
    check "a line of metrics a step" test "$(grep -c '"kind": "train"' "$work/whole/metrics.jsonl")" -eq 12
    check "the page holds the metrics" grep -q '"step": 12' "$work/whole/training.html"
    check "three checkpoints are kept" test "$(ls "$work/whole" | grep -c '^checkpoint_')" -eq 3
    says "a folder with a run is not taken for another" 2 "holds a run already" \
        "$program" $common --steps 12 --output-dir "$work/whole"
    says "the same from its configuration" 0 "" "$program" --config "$work/whole/config.ini" --output-dir "$work/again"
    check "the same end" same_end "$work/again"

    says "half a run" 0 "" "$program" $common --steps 12 --decay-start 0 --output-dir "$work/other"
    says "a resumed run needs no options" 0 "resume at step 12 of 14" "$program" --output-dir "$work/other" --resume --steps 14

    # ended by a signal, at any step
    "$program" $common --steps 12 --output-dir "$work/term" >"$work/out" 2>&1 &
    pid=$!
    while kill -0 $pid 2>/dev/null && ! [ -s "$work/term/metrics.jsonl" ]; do sleep 0.02; done
    kill -USR1 $pid 2>/dev/null
    wait $pid
    status=$?
    check "SIGUSR1 ends it with status 0, not $status" test $status -eq 0
    says "it goes on" 0 "" "$program" $common --steps 12 --output-dir "$work/term" --resume
    check "to the same end" same_end "$work/term"

    # a full disk: no file may grow beyond 3 MB; the signal is ignored, so that writing fails
    says "a run of four steps" 0 "" "$program" $common --steps 12 --decay-start 6 --output-dir "$work/full" --steps 4 --violation-from 8 \
        --decay-every 1
    cp "$work/full/checkpoint_0000000004.h5" "$work/four.h5"
    says "a full disk" 1 "checkpoint_0000000008.h5" sh -c \
        "trap '' XFSZ; ulimit -f 3000; exec \"\$@\"" sh "$program" --output-dir "$work/full" --resume --steps 8
    check "the checkpoint before is whole" cmp "$work/full/checkpoint_0000000004.h5" "$work/four.h5"
    check "nothing half written is left" test "$(ls -A "$work/full" | grep -cv \
        '^checkpoint_000000000[24].h5$\|^lock$\|^best.h5$\|^config.ini$\|^run.json$\|^metrics.jsonl$\|^training.html$')" -eq 0
    says "with room again it goes on" 0 "resume at step 4" "$program" --output-dir "$work/full" --resume --steps 12
    check "to the same end" same_end "$work/full"

    # damaged
    printf 'x' | dd of="$work/full/checkpoint_0000000012.h5" bs=1 seek=30000 conv=notrunc 2>/dev/null
    says "a damaged checkpoint" 0 "the checkpoint before it is taken" "$program" --output-dir "$work/full" --resume --steps 12
    check "to the same end" same_end "$work/full"

    # a folder that takes no files
    mkdir "$work/locked"
    chmod 500 "$work/locked"
    if [ "$(id -u)" -ne 0 ]; then
        says "a locked folder" 1 "locked" "$program" $common --output-dir "$work/locked"
    elif command -v setpriv >/dev/null 2>&1 && setpriv --reuid 65534 --clear-groups test -x "$program"; then
        chmod 755 "$work"
        says "a locked folder" 1 "locked" setpriv --reuid 65534 --clear-groups "$program" $common --output-dir "$work/locked"
    else
        skipped=$((skipped + 1))
    fi
    : >"$work/file"
    says "a file in place of the folder" 1 "file" "$program" $common --output-dir "$work/file"

    # data sets: training, distillation, validation; one with a damaged stretch
    mkdir "$work/pdb"
    for i in 1 2 3 4 5 6 7 8 9 10 11 12; do cp "$chain" "$work/pdb/c$i.pdb"; done
    data=$(dirname "$program")/fastfold-data
    "$data" chains "$work/pdb" -o "$work/set.h5" >"$work/out" 2>&1 || bad "no data set"
    says "a run of data sets" 0 "validation of 12 chains" "$program" --data "$work/set.h5" --distillation "$work/set.h5" \
        --validation "$work/set.h5" --threads 1 --crop 16 --num-recycle 0 --batch-size 2 --steps 4 --no-progress --output-dir "$work/set"
    says "bf16" 0 "validation of 12 chains" "$program" --data "$work/set.h5" --validation "$work/set.h5" --threads 1 --crop 16 \
        --dtype bf16 --num-recycle 0 --steps 30 --no-progress --log-every 1 --output-dir "$work/bf16"
    check "no step of bf16 was skipped" test "$(grep -c '"skipped": 0' "$work/bf16/metrics.jsonl")" -eq 30
    at=2000
    while [ $at -lt 60000 ]; do
        cp "$work/set.h5" "$work/bad.h5"
        printf '\377\377\377\377\377\377\377\377' | dd of="$work/bad.h5" bs=1 seek=$at conv=notrunc 2>/dev/null
        n=$("$data" check --list "$work/bad.h5" 2>/dev/null | grep -c ' BAD$')
        [ "$n" -gt 0 ] && [ "$n" -lt 12 ] && break
        at=$((at + 1000))
    done
    says "damaged records are left out" 0 "is left out:" "$program" --data "$work/bad.h5" --threads 1 --crop 16 --num-recycle 0 \
        --steps 12 --log-every 12 --no-progress --output-dir "$work/bad"
    check "and counted" grep -q '"bad_samples": [1-9]' "$work/bad/metrics.jsonl"
    says "no data set at all" 1 "set.log" "$program" --data "$work/set.log" --output-dir "$work/x"
    says "no such chain in it" 2 "set.h5 has no chain q; it has 12, as c1_A" \
        "$program" --data "$work/set.h5" --overfit q --output-dir "$work/x"

    says "no data" 2 "--data FILE is missing" "$program" --output-dir "$work/x"
    says "no folder" 2 "--output-dir RUN is missing" "$program" --overfit "$chain"
    says "no such chain" 2 "has no chain Q" "$program" --overfit "$chain:Q" --output-dir "$work/x"
    says "a fault in a configuration" 2 "bad.ini:2: unknown option stepz; did you mean --steps?" sh -c \
        "printf '[Run]\nstepz = 3\n' >\"\$1/bad.ini\"; \"\$2\" --config \"\$1/bad.ini\" --output-dir \"\$1/x\"" sh "$work" "$program"
    says "a plan" 0 "recomputed    31 of 48 Evoformer blocks" "$program" --preset initial --plan --max-memory 20G
    says "what does not fit" 1 "--max-memory allows" "$program" --preset initial --plan --max-memory 3G
}
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
