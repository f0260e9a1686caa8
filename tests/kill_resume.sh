#!/bin/sh
# kill_resume.sh PROGRAM [KILLS [SEED]]: a training run that is killed (kill -9) KILLS times (20) at random moments and goes on each time
# ends with the same bytes as one that was left alone, and its metrics have every step once. Last line: `N passed, N failed`.
set -u
program=$1 kills=${2:-20} seed=${3:-1}
chain=$(dirname "$0")/data/structures/1a8o_161_184.pdb
steps=$((4 * kills + 4))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

train()
{
    "$program" --overfit "$chain" --threads 1 --crop 24 --seed "$seed" --no-progress --checkpoint-every 3 --log-every 1 \
        --validate-every 5 --steps $steps --resume --output-dir "$@" 2>>"$work/log"
}

echo "$kills kills, $steps steps, seed $seed"
begin=$(date +%s.%N)
train "$work/whole" || exit 1
end=$(date +%s.%N)
i=0 ended=0
while [ $i -lt "$kills" ]; do
    i=$((i + 1))
    train "$work/killed" &
    # the moments spread over what is left, start-up included
    sleep "$(awk -v seed="$seed" -v i=$i -v all="$begin $end" -v kills="$kills" \
        'BEGIN { split(all, t, " "); srand(1000 * seed + i); print 0.1 + rand() * 3 * (t[2] - t[1]) / kills }')"
    pid=$(ps -o pid= --ppid $! 2>/dev/null | tr -d ' ')
    kill -9 ${pid:-$!} 2>/dev/null || ended=$((ended + 1))
    wait $! 2>/dev/null
    echo "kill $i: $(ls "$work/killed" 2>/dev/null | grep '^checkpoint_.*h5$' | tail -n 1)"
done
train "$work/killed" || failed=1
last=$(printf 'checkpoint_%010d.h5' $steps)
cmp "$work/whole/$last" "$work/killed/$last" || failed=1
grep -o '"kind": "train", "step": [0-9]*' "$work/killed/metrics.jsonl" | grep -o '[0-9]*$' >"$work/steps"
seq $steps | cmp - "$work/steps" || failed=1
[ $failed -ne 0 ] && tail -n 20 "$work/log"
echo "$ended of the kills came after the end"
echo "$((1 - failed)) passed, $failed failed"
[ $failed -eq 0 ]
