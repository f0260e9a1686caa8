# common.sh - what the job scripts share. Sourced after `jobs=` names this folder.
. "${FASTFOLD_SITE:-$jobs/site.sh}"
[ -n "$FASTFOLD_BIN" ] && PATH=$FASTFOLD_BIN:$PATH
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-${OMP_NUM_THREADS:-1}} OMP_PROC_BIND=${OMP_PROC_BIND:-close}

say() { echo "$(date -u +%FT%TZ) job ${SLURM_JOB_ID:-none}: $*"; }
die() { say "$*" >&2; exit 1; }

# usage N: the script's own first lines when fewer than N arguments were given
usage()
{
    sed -n '/^# usage:/,/^#$/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

# The memory Slurm gave this job, as --max-memory takes it; nothing when it set no limit.
memory_option()
{
    if [ "${SLURM_MEM_PER_NODE:-0}" -gt 0 ] 2>/dev/null; then
        echo "--max-memory ${SLURM_MEM_PER_NODE}M"
    elif [ "${SLURM_MEM_PER_CPU:-0}" -gt 0 ] 2>/dev/null; then
        echo "--max-memory $((SLURM_MEM_PER_CPU * ${SLURM_CPUS_ON_NODE:-1}))M"
    fi
}

model_options()
{
    [ -n "$FASTFOLD_WEIGHTS" ] && echo "--weights $FASTFOLD_WEIGHTS"
    [ -n "$FASTFOLD_PRESET" ] && echo "--preset $FASTFOLD_PRESET"
    echo "$FASTFOLD_INFER_OPTIONS"
}

# run COMMAND...: in the background, with TERM and USR1 passed on, so that the program can end cleanly.
# Sets `signalled` to the signal's name. The exit status is the program's.
run()
{
    signalled=
    "$@" &
    child=$!
    trap 'signalled=TERM; kill -TERM $child 2>/dev/null' TERM
    trap 'signalled=USR1; kill -USR1 $child 2>/dev/null' USR1
    status=0
    while :; do
        wait $child
        status=$?
        kill -0 $child 2>/dev/null || break # wait also returns when a signal comes
    done
    trap - TERM USR1
    return $status
}
