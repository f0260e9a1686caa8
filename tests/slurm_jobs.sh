#!/bin/bash
# slurm_jobs.sh BIN SHARED: the job scripts on a private one-machine Slurm (SHARED/slurm/local-slurm): an array with one bad record, a
# training job that gets its signal, writes a checkpoint, requeues and ends with the weights of an uninterrupted run, a
# cancelled run that goes on. Minutes, not seconds. Last line: `N passed, N failed[, N skipped]`.
set -u
bin=$1 shared=$2
slurm=$shared/slurm/local-slurm
if [ ! -x "$slurm" ] || ! command -v slurmctld >/dev/null 2>&1 && [ ! -x /usr/sbin/slurmctld ]; then
    echo "no Slurm here (slurm-wlm, munge): skipped"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
work=$(mktemp -d)
export LOCAL_SLURM_DIR=$work/slurm LOCAL_SLURM_PORT=${LOCAL_SLURM_PORT:-17817}
passed=0 failed=0
check() # NAME COMMAND...
{
    name=$1
    shift
    if "$@" >>"$work/log" 2>&1; then passed=$((passed + 1)); echo "ok    $name"; else failed=$((failed + 1)); echo "FAIL  $name"; fi
}
finish()
{
    "$slurm" stop >/dev/null 2>&1
    [ $failed -eq 0 ] && rm -rf "$work" || echo "see $work"
    echo "$passed passed, $failed failed"
    [ $failed -eq 0 ]
    exit
}
"$slurm" start >"$work/start.log" 2>&1 || { echo "Slurm does not start:"; cat "$work/start.log"; failed=1; finish; }
eval "$("$slurm" env)"
export FASTFOLD_BIN=$bin FASTFOLD_JOBS=$PWD/jobs FASTFOLD_INFER_OPTIONS="--preset tiny --random-weights" OMP_NUM_THREADS=1

# wait_for JOB SECONDS: until it has left the queue
wait_for()
{
    for _ in $(seq $(($2 * 2))); do
        [ -z "$(squeue -h -j "$1" 2>/dev/null)" ] && return 0
        sleep 0.5
    done
    return 1
}

# ---- an array of three, one bad ----
mkdir "$work/fasta"
printf '>good one\nMKTAYIAKQRQISFVKSHFSRQ\n' >"$work/fasta/a.fasta"
printf '>bad 2\nMKTAY1AKQR\n' >"$work/fasta/b.fasta"
printf '>third\nGSHMKTAYIAKQRQISF\n' >"$work/fasta/c.fasta"
ls "$work"/fasta/*.fasta >"$work/list"
job=$(sbatch --parsable --array=0-2 -c 1 --output="$work/array-%a.log" jobs/infer_array.sbatch "$work/pred" "$work/list")
check "array of three ends" wait_for "$job" 120
check "first record has a structure" test -s "$work/pred/good/ranked_0.pdb"
check "third record has a structure" test -s "$work/pred/third/ranked_0.pdb"
check "the bad record has none" test ! -e "$work/pred/bad/ranked_0.pdb"
check "its log says why" grep -q 'is a digit' "$work/array-1.log"

# ---- training: cut off by a signal, requeued, the same weights ----
structure=$shared/data/mmcif/1A8O.cif
steps=400 # long enough to be interrupted on a fast machine
train() { echo "--overfit $structure --steps $steps --checkpoint-every 1000 --threads 1"; }
# shellcheck disable=SC2046
"$bin/fastfold-train" --output-dir "$work/whole" $(train) >"$work/whole.log" 2>&1
check "an uninterrupted run ends" test $? -eq 0
# shellcheck disable=SC2046
job=$(sbatch --parsable -c 1 --output="$work/train.log" jobs/train.sbatch "$work/run" $(train))
for _ in $(seq 120); do grep -q 'step' "$work/train.log" 2>/dev/null && break; sleep 0.5; done
sleep 3
check "the time-limit signal is sent" scancel -b -s USR1 "$job"
for _ in $(seq 120); do
    scontrol show job "$job" 2>/dev/null | grep -q 'Restarts=1' && break
    sleep 0.5
done
check "the job was requeued" sh -c "scontrol show job $job | grep -q Restarts=1"
scontrol update JobId="$job" StartTime=now >/dev/null 2>&1
check "the requeued job ends" wait_for "$job" 240
newest() { ls -t "$1"/*.h5 "$1"/checkpoints/*.h5 2>/dev/null | head -n 1; }
same_weights()
{
    "$bin/fastfold-weights" convert "$(newest "$1")" --overwrite -o "$work/1.npz" && "$bin/fastfold-weights" convert "$(newest "$2")" --overwrite -o "$work/2.npz" &&
        cmp "$work/1.npz" "$work/2.npz"
}
check "its weights are those of the uninterrupted run" same_weights "$work/whole" "$work/run"

# ---- scancel leaves a run that goes on ----
# shellcheck disable=SC2046
job=$(sbatch --parsable -c 1 --output="$work/cancel.log" jobs/train.sbatch "$work/cancelled" $(train))
for _ in $(seq 120); do grep -q 'step' "$work/cancel.log" 2>/dev/null && break; sleep 0.5; done
sleep 3
scancel "$job"
check "a cancelled job ends" wait_for "$job" 60
# shellcheck disable=SC2046
check "its run goes on and ends" "$bin/fastfold-train" --output-dir "$work/cancelled" --resume $(train)
check "with the same weights" same_weights "$work/whole" "$work/cancelled"
finish
