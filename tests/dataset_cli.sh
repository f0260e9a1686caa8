#!/bin/sh
# dataset_cli.sh PROGRAM DATA - the sub-commands chains, merge and check on the structure files of DATA, and on bad input.
# Last line: N passed, N failed
set -u
program=$1 data=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# expect WHAT STATUS PATTERN COMMAND...: the exit status, and a line of the output that matches
expect()
{
    what=$1 status=$2 pattern=$3
    shift 3
    "$@" >"$work/out" 2>&1
    got=$?
    if [ $got -eq "$status" ] && grep -qE -- "$pattern" "$work/out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $what: exit status $got, wanted $status; no line like \"$pattern\" in:"
        head -n 8 "$work/out" | sed 's/^/    /'
    fi
}

run() { "$program" "$@"; }

cd "$data" || exit 1
expect "every file" 1 '^.*316 chains of 68641 residues written, 90 with an alignment' \
    run chains mmcif pdb --msa-dir msa/made_here -o "$work/all.h5"
expect "bad ones are listed" 1 '^\[error\]   mmcif/1A8O_truncated.cif: line 703' \
    run chains mmcif pdb --msa-dir msa/made_here -o "$work/all.h5"
expect "a whole set is good" 0 '316 records, 68641 residues' run check "$work/all.h5"
expect "homodimers keep their own coordinates" 0 '2 chains' run chains mmcif/3u8v.cif -o "$work/dimer.h5"
expect "one chain" 0 '1 chains of 70 residues' run chains mmcif/1A8O.cif --chain A -o "$work/one.h5"
expect "a chain that is not there" 1 'mmcif/1A8O.cif: no protein chain Q; the first one is A' \
    run chains mmcif/1A8O.cif --chain Q -o "$work/none.h5"
expect "nothing is written then" 0 'nothing' sh -c "test ! -e '$work/none.h5' && echo nothing"
printf '2GTL_m\n1a8o_A\n9XYZ_A\n' >"$work/list"
expect "a chain list in any case" 1 '2 chains of 287 residues' \
    run chains mmcif/2gtl.cif.gz mmcif/1A8O.cif --chain-list "$work/list" -o "$work/list.h5"
expect "a listed chain that is nowhere" 1 ':3: chain 9xyz_a is in none of the files' \
    run chains mmcif/2gtl.cif.gz mmcif/1A8O.cif --chain-list "$work/list" -o "$work/list.h5"
expect "release dates" 0 '1 chains .*2 released too late, 1 undated' \
    run chains mmcif/1A8O.cif mmcif/1A7G.cif mmcif/3u8v.cif --max-release-date 2005-01-01 -o "$work/date.h5"
expect "undated ones allowed" 0 '2 chains .*2 released too late, 0 undated' \
    run chains mmcif/1A8O.cif mmcif/1A7G.cif mmcif/3u8v.cif --max-release-date 2005-01-01 --allow-undated -o "$work/date.h5"
expect "no date" 2 'no date like' run chains mmcif/1A8O.cif --max-release-date yesterday -o "$work/date.h5"
expect "assumed resolution" 0 '1 records.* 0 of unknown and 1 of assumed' \
    sh -c "'$program' chains mmcif/2crb.cif.gz --assume-resolution 2.5 -o '$work/nmr.h5' && '$program' check '$work/nmr.h5'"
expect "clusters" 0 'pass 3 in 2 clusters' \
    sh -c "echo 3u8v_A 3U8V_b >'$work/c' && '$program' chains mmcif/3u8v.cif mmcif/1A8O.cif --clusters '$work/c' -o '$work/c.h5' &&
        '$program' check '$work/c.h5'"
expect "append" 0 '3 records in all' run chains mmcif/3u8v.cif --append -o "$work/one.h5"
expect "merge" 0 '4 records of 2 files' run merge "$work/one.h5" "$work/nmr.h5" -o "$work/merged.h5"
expect "merged sets are good" 0 '4 records, 353 residues' run check --list "$work/merged.h5"
expect "the same name twice" 1 'record 1A8O_A is in .* already' run merge "$work/one.h5" "$work/list.h5" -o "$work/twice.h5"
expect "nothing is written then" 0 'nothing' sh -c "test ! -e '$work/twice.h5' && echo nothing"
head -c 20000 "$work/merged.h5" >"$work/cut.h5"
expect "truncated" 1 'cut.h5 is a damaged or truncated HDF5 file' run check "$work/cut.h5"
expect "foreign" 1 'no data set of ours' run check features/openfold_features.h5
expect "not HDF5" 1 'is not an HDF5 file' run merge mmcif/1A8O.cif -o "$work/x.h5"
expect "an empty folder" 1 'no structure file in this folder' run chains hits -o "$work/x.h5"
expect "no such file" 1 'cannot open .*nowhere.cif' run chains nowhere.cif -o "$work/x.h5"
expect "no output" 2 'needs the name' run chains mmcif/1A8O.cif
expect "no input" 2 'no structure file' run chains -o "$work/x.h5"
expect "a folder that is not there" 1 'cannot write' run chains mmcif/1A8O.cif -o "$work/nowhere/x.h5"
expect "a full disk" 1 'the disk is full or failed' \
    sh -c "trap '' XFSZ; ulimit -f 1000; '$program' chains pdb -o '$work/full.h5'"
expect "nothing is written then" 0 'nothing' sh -c "test ! -e '$work/full.h5' && echo nothing"
expect "no temporary files are left" 0 '^0$' sh -c "ls '$work' | grep -c tmp | grep '^0$'"
printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
