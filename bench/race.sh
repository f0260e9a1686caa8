#!/bin/sh
# race.sh - our block and pair stack against the PyTorch, OpenFold and JAX programs, in turn, in one run.
#
#   bench/race.sh PEERS_DIR PYTHON [OPENFOLD_SRC]
#
# PEERS_DIR holds evoformer_torch.py, evoformer_jax.py, evoformer_openfold.py (../shared/peers), PYTHON has their
# requirements, OPENFOLD_SRC is an unpacked openfold source. Peers run with the allocator settings that are best for them.
# Wants a quiet machine. Prints one line per contest: seconds of each and how many times faster we are.
set -eu
peers=${1:-../shared/peers}
python=${2:-python3}
openfold=${3:-}
bench=$(dirname "$0")/../build/bin/fastfold-bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=34359738368 MALLOC_TOP_PAD_=268435456

ours() { # op pass dtype num_seq num_res
    "$bench" "$1" --pass "$2" --dtype "$3" --num-seq "$4" --num-res "$5" --repeat 5 --json >>"$work/ours.json"
}
peer() { # file arguments...
    (cd "$peers" && "$python" "$@") >>"$work/peers.json" 2>>"$work/peers.err" || echo "  (did not run: $*)" >&2
}

ours evoformer_block inference f32 128 256
peer evoformer_torch.py --onednn --dtype float32 --sizes 128x256 --what fwd,fwdbwd
ours evoformer_block both f32 128 256
peer evoformer_torch.py --onednn --attn math --dtype float32 --sizes 128x256 --what fwd
ours evoformer_block inference bf16 128 256
peer evoformer_torch.py --dtype bfloat16 --sizes 128x256 --what fwd,fwdbwd
ours evoformer_block both bf16 128 256
peer evoformer_jax.py --sizes 128x256 --what fwd,fwdbwd
ours pair_stack inference f32 128 512
peer evoformer_torch.py --onednn --dtype float32 --what pair
[ -z "$openfold" ] || peer evoformer_openfold.py --src "$openfold" --sizes 128x256 --what fwd,fwdbwd

"$python" - "$work" <<'PY'
import json, sys
work = sys.argv[1]
ours, peers = {}, {}
for line in open(work + '/ours.json'):
    if line.startswith('{'):
        r = json.loads(line)
        ours[(r['op'], r['pass'], r['dtype'])] = r['seconds_median']
names = {'block_fwd': ('evoformer_block', 'inference'), 'block_fwdbwd': ('evoformer_block', 'both'),
         'pair_stack_fwd': ('pair_stack', 'inference')}
for line in open(work + '/peers.json'):
    if not line.startswith('{'):
        continue
    r = json.loads(line)
    if r['op'] not in names:
        continue
    key = names[r['op']] + ('bf16' if r['dtype'] == 'bfloat16' else 'f32',)
    peers.setdefault(key, []).append((r['sec'], r['peer']))
print('%-18s %-10s %-5s %10s %10s %8s  %s' % ('operation', 'pass', 'dtype', 'ours s', 'peer s', 'faster', 'best peer'))
for key, seconds in ours.items():
    if key in peers:
        best, name = min(peers[key])
        print('%-18s %-10s %-5s %10.3f %10.3f %7.2fx  %s' % (*key, seconds, best, best / seconds, name))
        for sec, other in sorted(peers[key])[1:]:
            print('%-18s %-10s %-5s %10s %10.3f %7.2fx  %s' % ('', '', '', '', sec, sec / seconds, other))
PY
