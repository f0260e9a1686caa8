#!/bin/sh
# infer_smoke.sh PROGRAM [DATA] - fastfold-infer from the outside, with random weights of the tiny preset: inputs and faults that users
# of such programs met (names, odd sequences, lengths, memory, disks, signals), what each writes and says, its exit status.
# DATA (../shared/data) adds real FASTA files, alignments, template hits and structures. Last line: N passed, N failed, N skipped
set -u
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
tools=$(dirname "$program")
demo=$(cd "$(dirname "$0")/../demo" && pwd)
data=${2:+$(cd "$2" && pwd)}
work=$(mktemp -d "${TMPDIR:-/tmp}/infer-XXXXXX")
trap 'umount "$work/small" 2>/dev/null; chmod -R u+w "$work"; rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
export OMP_NUM_THREADS=1
tiny="--preset tiny --random-weights"

result()
{
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $name: $2"
        tail -n 20 "$work/log" | cut -c1-400 | sed 's/^/    /'
    fi
}

# check NAME COMMAND...: the command succeeds
check()
{
    name=$1
    shift
    "$@" >"$work/said" 2>&1
    result $? "$(tail -n 3 "$work/said")"
}

# expect STATUS TEXT ARGUMENTS...: exit status, and a line that holds TEXT; never a sign of a crash
expect()
{
    name="$2 ($*)" want=$1 text=$2
    shift 2
    timeout 120 "$program" "$@" >"$work/log" 2>&1
    got=$?
    [ $got -eq "$want" ]
    result $? "exit status $got, wanted $want"
    grep -qF -- "$text" "$work/log"
    result $? "\"$text\" was not said"
}

# refuse STATUS TEXT ARGUMENTS...: the same, and nothing else is said than one line
refuse()
{
    expect "$@"
    name="one line: $2" && [ "$(grep -cv '^\[info\]' log)" -eq 1 ]
    result $? "$(grep -cv '^\[info\]' log) lines"
}

# whole FOLDER...: everything a finished prediction has, and numbers in it
whole()
{
    for folder in "$@"; do
        for file in status.json ranked_0.pdb ranked_0.cif confidence.json predicted_aligned_error.json ranking.json \
            timings.json report.html; do
            check "$folder/$file" test -s "$folder/$file"
        done
        check "$folder is finished" grep -q '"state": "finished"' "$folder/status.json"
        name="$folder has no NaN" && ! grep -qiE 'nan|inf ' "$folder/ranked_0.pdb"
        result $? "it has"
        name="$folder has nothing temporary" && [ -z "$(find "$folder" -name '*.tmp*')" ]
        result $? "$(ls "$folder")"
    done
}
# state FOLDER STATE TEXT
state() { check "$1 is $2: $3" sh -c "grep -q '\"state\": \"$2\"' '$1/status.json' && grep -qF -- '$3' '$1/status.json'"; }
length_is() { check "$1: $2 residues" test "$(grep -c '^ATOM.* CA ' "$1/ranked_0.pdb")" -eq "$2"; }
json_lines()
{
    if command -v jq >/dev/null 2>&1; then
        jq -e . "$1" >/dev/null
    else
        python3 -c 'import json, sys; [json.loads(x) for x in open(sys.argv[1], encoding="utf-8")]' "$1"
    fi
}

cd "$work" || exit 1
one=MAAHKGAEHHHKAAEHHEQAAKHHHAAAEHHEKGEHEQAAHHADTAYAHHKHAEEHAAQAAKHDAEHHAPKPH
printf '>one first\n%s\n' $one >one.fasta

# ---- wrong usage ----
refuse 2 "nothing to predict" $tiny
refuse 2 "unknown option --num-recycles; did you mean --num-recycle?" one.fasta --num-recycles 3
refuse 2 "there is no preset model_9; there are model_1" one.fasta --preset model_9
refuse 2 "params_model_1_ptm.npz, which is in https://" one.fasta
refuse 2 "stands for five models" one.fasta --preset monomer
refuse 2 "the model is named by --preset" one.fasta --preset multimer --model model_1
refuse 1 "multimer predicts complexes, which this version does not" one.fasta --preset multimer
refuse 1 "model_1_multimer_v3 predicts complexes, which this version does not" one.fasta --preset model_1_multimer_v3
refuse 2 "--dtype fp16 is not in this version" one.fasta $tiny --dtype fp16
refuse 2 "relaxation is not in this version" one.fasta $tiny --relax
refuse 2 "relaxation is not in this version" one.fasta $tiny --relax-time 60
refuse 2 "relaxation is not in this version" one.fasta $tiny --use_gpu_relax=true
refuse 2 "exclude each other" one.fasta $tiny --weights x.npz
refuse 2 "both inputs" --features x.h5 --batch y.h5 $tiny
refuse 2 "stand in place of INPUT" one.fasta --features x.h5 $tiny
refuse 1 "cannot read the weights none.npz" one.fasta --weights none.npz
refuse 1 "none.fasta" none.fasta $tiny
refuse 1 "none.h5" --features none.h5 $tiny
refuse 2 "--hhr needs --template-dir DIR" one.fasta $tiny --hhr x.hhr
refuse 1 "--uniref90: none.fasta: No such file" one.fasta $tiny --uniref90 none.fasta
refuse 1 "cuda backend is not built" one.fasta $tiny --backend cuda
mkdir empty
refuse 2 "has no files named *.fasta" empty $tiny
check "nothing was written so far" test ! -e predictions

# ---- names (FASTA headers become folders) ----
awk -v s=$one 'BEGIN {
    print ">T1078 Tsp1, Trichoderma virens, 138 residues|\n" s "\n>../x\n" s "A\n>a/b\n" s "AA\n>\n" s "AAA\n>con: 1|2\n" s "C"
    print ">same\n" s "\n>same\n" s "\n>names.tsv\n" s "\n>-rf\n" s
    printf ">"; for (i = 0; i < 4096; i++) printf "n"; print "\n" s }' >names.fasta
mkdir inside
expect 0 "10 finished, 0 failed" names.fasta $tiny --num-recycle 0 -o inside/names
check "names.tsv has a line each" test "$(grep -vc '^#' inside/names/names.tsv)" -eq 10
name="nothing outside the folder" && [ "$(find . -name ranked_0.pdb | wc -l)" -eq "$(find inside/names -mindepth 2 -maxdepth 2 -name ranked_0.pdb | wc -l)" ]
result $? "$(find . -name ranked_0.pdb)"
whole inside/names/T1078 inside/names/same inside/names/same_2 inside/names/unnamed

# ---- sequences ----
# sequence NAME TEXT STATUS SAID
sequence()
{
    printf ">$1\n$2\n" >"$1.fasta"
    expect "$3" "$4" "$1.fasta" $tiny --num-recycle 0 -o sequences
    if [ "$3" -eq 0 ]; then
        whole "sequences/$1"
    else
        state "sequences/$1" failed "$1.fasta:1"
    fi
}
sequence letters "MAXBZUOJMAAHKGAEHHH" 0 "5 of B Z U O J were made X"
sequence star 'MAAHKGAEHHHKAAE*' 0 "the '*' at the end was left out"
sequence star2 'MAAH*KGAEHHHKAAE' 1 "a stop inside the sequence"
sequence gap 'MAAH-KGAEHHHKAAE' 1 "is a gap, and a query has none"
sequence dot 'MAAH.KGAEHHHKAAE' 1 "is a gap, and a query has none"
sequence digit 'MAAH1KGAEHHHKAAE' 1 "is a digit; remove the numbering"
sequence crlf 'MAAHKGAEH\r\nHHKAAE\r' 0 "1 finished"
sequence tabs '\tMAAHKGAEH\t\n HHKAAE ' 0 "1 finished"
sequence lower 'maahkgaehhhk' 0 "12 lower-case letters were made upper case"
sequence complex 'MAAHKGAEH:\nMKVLAAGIVG' 1 "this program takes single chains"
sequence short9 'SPSYAYHQF:MAAHKGAEHHHKAAEHH' 1 "this program takes single chains"
for n in 1 2 9 15 16 17 33; do
    sequence "length$n" "$(printf %.${n}s $one)" 0 "confidence will be low; give an A3M file with --msa"
    length_is "sequences/length$n" $n
done
check "the note is in the results too" grep -q "no alignment: predicted from the single sequence" sequences/length9/confidence.json
check "and in the report" grep -q "no alignment: predicted from the single sequence" sequences/length9/report.html

# ---- several records, one bad; running again ----
printf '>good\n%s\n>bad\nMKV4AAG\n>none\n>pair\nMK:VL\n>last\nMKVLAAGIVG\n' $one >several.fasta
expect 1 "2 finished, 3 failed" several.fasta $tiny -o several
whole several/good several/last
state several/bad failed "is a digit"
state several/none failed "has no residues"
state several/pair failed "single chains"
before=$(stat -c %y several/good/ranked_0.pdb)
expect 1 "0 finished, 3 failed, 2 finished before" several.fasta $tiny -o several
check "what was finished is left alone" test "$before" = "$(stat -c %y several/good/ranked_0.pdb)"
expect 1 "holds the finished result of another sequence or other options; use --overwrite" several.fasta $tiny --seed 3 -o several
check "a refusal leaves a finished result" test "$before" = "$(stat -c %y several/good/ranked_0.pdb)"
expect 1 "2 finished, 3 failed" several.fasta $tiny --seed 3 --overwrite -o several
check "--overwrite replaces it" test "$before" != "$(stat -c %y several/good/ranked_0.pdb)"
check "names stay mapped" grep -q '^good	73	several.fasta:1	good$' several/names.tsv
mkdir mine linked && echo precious >mine/notes.txt && mkdir -p mine/one && echo precious >mine/one/notes.txt
expect 1 "holds files that are not ours" one.fasta $tiny -o mine
check "foreign files stay" test -s mine/one/notes.txt
ln -s "$work/mine" linked/one
expect 1 "is a link, where a folder is to be" one.fasta $tiny -o linked
check "nothing was written through the link" test ! -e mine/status.json

# ---- where sequences come from ----
name="standard input" && "$program" - $tiny -o stdin <one.fasta >log 2>&1
result $? "exit status $?"
whole stdin/one
mkdir folder && cp one.fasta folder/ && printf '>second\nMKVLAAGIVG\n' >folder/second.fa && printf 'no record\n' >folder/bad.fasta
printf '# comment\n>third x\nMKVLAAGIVG\n>r\nMKVL--GIVG\n' >folder/third.a3m
gzip -c one.fasta >folder/packed.fasta.gz
expect 1 "4 finished, 1 failed" folder $tiny -o folders
whole folders/one folders/one_2 folders/second folders/third
state folders/bad.fasta failed "stands before the first"
check "rows of the A3M file count" grep -q '"num_msa": 2' folders/third/confidence.json
expect 1 "1 finished, 1 failed" one.fasta none.fasta $tiny -o two
state two/none.fasta failed "No such file"

# ---- alignments ----
printf '>one\n%s\n>r\n%s\n' $one "$(printf %s $one | tr H -)" >one.a3m
expect 0 "1 finished" one.fasta $tiny --msa one.a3m -o msa
check "no word about a missing alignment" sh -c '! grep -q "no alignment" log msa/one/confidence.json'
printf '>one\nMKVL\n' >short.a3m
expect 1 "short.a3m" one.fasta $tiny --msa short.a3m -o msa_short
state msa_short/one failed short.a3m
printf '>one\n%s\n' "$(printf %s $one | tr A G)" >other.a3m
expect 0 "its first row differs from the query in" one.fasta $tiny --msa other.a3m -o msa_other
refuse 2 "--msa-dir DIR serves several" several.fasta $tiny --msa one.a3m -o msa_several
mkdir -p msas/good && cp one.a3m msas/good/
expect 1 "2 finished, 3 failed" several.fasta $tiny --msa-dir msas -o msa_dir
check "the alignment of one is found" grep -q '"num_msa": 2' msa_dir/good/confidence.json
check "the lack of the other is said" grep -q "^\[warning\] several.fasta:8: --msa-dir: " log

# ---- features and batches ----
"$tools/fastfold-data" features one.fasta --msa one.a3m -o one.h5 >log 2>&1
expect 0 "1 finished" --features one.h5 $tiny -o features
whole features/one
check "a feature file gives what its sequence gives" cmp features/one/ranked_0.pdb msa/one/ranked_0.pdb
"$tools/fastfold-data" process one.h5 --preset tiny -o batch.h5 >log 2>&1
check "fastfold-data process makes a batch" test -s batch.h5
expect 0 "1 finished" --batch batch.h5 $tiny -o batch
whole batch/batch
length_is batch/batch 73
expect 0 "1 finished" --batch batch.h5:/ $tiny -o batch_root
refuse 1 "batch.h5 has no group /nothing" --batch batch.h5:/nothing $tiny -o x
refuse 1 "holds no batch" --batch one.h5 $tiny -o x
refuse 1 "holds no raw features" --features batch.h5 $tiny -o x
refuse 1 "one.fasta" --features one.fasta $tiny -o x

# ---- what is written ----
expect 0 "10 finished before" names.fasta $tiny --num-recycle 0 -o inside/names
expect 0 "1 finished" one.fasta $tiny --msa one.a3m --num-seeds 2 --save-raw --b-factor 100-plddt --no-mmcif -o raw
check "two ranks" test -s raw/one/ranked_1.pdb -a -s raw/one/result.h5 -a -s raw/one/result_1.h5
check "the remark says what the B column holds" grep -q '^REMARK   6 .*100 - pLDDT' raw/one/ranked_0.pdb
check "and what pLDDT is" grep -q '^REMARK   6 The B-factor column holds pLDDT' msa/one/ranked_0.pdb
check "no mmCIF when none is wanted" test ! -e raw/one/ranked_0.cif
check "random weights are labelled" grep -q "random weights: this structure means nothing" msa/one/ranked_0.pdb msa/one/report.html
expect 0 "1 finished" one.fasta $tiny --msa one.a3m -o again
check "run again, bit for bit" cmp again/one/ranked_0.pdb msa/one/ranked_0.pdb
expect 0 "1 finished" one.fasta $tiny --msa one.a3m --dtype bf16 -o bf16
for category in _ma_qa_metric _ma_qa_metric_local _ma_model_list _ma_software_group _ma_protocol_step _ma_target_entity; do
    check "mmCIF has $category" grep -q "^$category\\." msa/one/ranked_0.cif
done
if command -v gemmi >/dev/null 2>&1; then
    check "gemmi reads the mmCIF file" gemmi convert msa/one/ranked_0.cif from_cif.pdb
    check "gemmi reads the PDB file" gemmi convert msa/one/ranked_0.pdb from_pdb.cif
    check "both hold the same atoms" test "$(grep '^ATOM' from_cif.pdb | cut -c1-66)" = "$(grep '^ATOM' msa/one/ranked_0.pdb | cut -c1-66)"
    check "mmCIF is well formed" gemmi validate msa/one/ranked_0.cif
else
    skipped=$((skipped + 4))
fi
if command -v TMalign >/dev/null 2>&1; then
    TMalign msa/one/ranked_0.pdb msa/one/ranked_0.pdb >log 2>&1
    check "TM-align reads all residues of a prediction" grep -q "Aligned length= *73, RMSD= *0.00" log
else
    skipped=$((skipped + 1))
fi

# ---- the log ----
printf '>b\351ta \303\251 "x" <y>\n%s\n>bad\nMK4\n' $one >odd.fasta
"$program" odd.fasta $tiny --json-log -o json >said 2>log
got=$?
name="--json-log: exit status" && [ $got -eq 1 ]
result $? "$got"
check "--json-log: every line is JSON" json_lines log
for event in run_begin target_begin pass target_end run_end; do
    check "--json-log: $event" grep -q "\"event\": \"$event\"" log
done
"$program" none.fasta $tiny --json-log -o json >said 2>log
check "--json-log: failures are JSON as well" json_lines log
for file in json/b_ta/status.json json/b_ta/confidence.json json/b_ta/timings.json json/b_ta/ranking.json json/b_ta/predicted_aligned_error.json; do
    check "$file is JSON" json_lines "$file"
done

# ---- memory ----
awk -v s=$one 'BEGIN { printf ">long5500\n"; for (i = 0; i < 76; i++) print substr(s, 1, 73); }' >long.fasta
expect 0 "long5500, model_1_ptm: 5548 residues" long.fasta --plan --dtype bf16 --max-memory 100G
expect 1 "try" long.fasta --plan --dtype bf16 --max-memory 20G
check "the plan says what is needed and allowed" grep -qE "5548 residues need [0-9.]+ GiB .*--max-memory allows 20.00 GiB; try .* residues would fit" log
printf '>tiny\nMKVLAAGIVG\n' | cat long.fasta - >mixed.fasta
expect 1 "1 finished, 1 failed" mixed.fasta $tiny --max-memory 1G -o memory
state memory/long5500 failed "residues need"
whole memory/tiny
expect 0 "one, tiny: 73 residues, 1 MSA rows" one.fasta $tiny --plan -o planned
check "a plan writes nothing" test ! -e planned

# ---- disks ----
if [ "$(id -u)" -ne 0 ]; then
    mkdir locked && chmod 500 locked
    refuse 1 "locked" one.fasta $tiny -o locked/out
    skipped=$((skipped + 3))
else
    expect 1 "/proc" one.fasta $tiny -o /proc/fastfold
    mkdir small && if mount -t tmpfs -o size=96k tmpfs small 2>/dev/null; then
        expect 1 "No space left on device" one.fasta $tiny -o small
        name="a full disk leaves no partial file" && [ -z "$(find small -name '*.tmp*')" ]
        result $? "$(find small)"
        check "nothing on it is said to be finished" sh -c "! grep -q finished small/one/status.json"
        mount -o remount,size=8M small
        expect 0 "1 finished" one.fasta $tiny -o small
        whole small/one
        mount -o remount,ro small
        expect 0 "1 finished before" one.fasta $tiny -o small
        expect 1 "Read-only file system" several.fasta $tiny -o small/several
        umount small
    else
        skipped=$((skipped + 1))
    fi
fi

# ---- told to end ----
awk -v s=$one 'BEGIN { print ">quick\nMKVLAAGIVG\n>slow"; for (i = 0; i < 6; i++) print s; print ">later"; for (i = 0; i < 7; i++) print s }' >slow.fasta
for signal in INT TERM; do
    rm -f log
    env --default-signal=INT,TERM "$program" slow.fasta $tiny --num-recycle 100 -o told$signal >log 2>&1 &
    pid=$!
    for i in $(seq 100); do grep -qs "slow tiny_seed_0 recycle 0" log && break || sleep 0.2; done
    kill -$signal $pid
    begin=$(date +%s)
    wait $pid
    got=$?
    name="SIG$signal ends the run" && [ $got -eq 1 ] && [ $(($(date +%s) - begin)) -lt 20 ]
    result $? "exit status $got after $(($(date +%s) - begin)) s"
    check "SIG$signal: the message" grep -q "stopped by signal .*; the same command goes on where it was" log
    whole told$signal/quick
    state told$signal/slow failed "stopped on request"
    check "SIG$signal: what was not begun has no folder" test ! -e told$signal/later
    check "SIG$signal leaves nothing temporary" test -z "$(find told$signal -name '*.tmp*')"
done

# ---- searches ----
printf '#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = -A ] && out=$2; shift; done\necho call >>%s\nprintf "# STOCKHOLM 1.0\\nquery %s\\nr %s\\n//\\n" >$out\n' \
    "$work/calls" $one "$(printf %s $one | tr H -)" >jackhmmer
printf '#!/bin/sh\necho no luck >&2\nexit 3\n' >broken
chmod +x jackhmmer broken
printf '>db\n%s\n' $one >db.fasta
expect 0 "jackhmmer uniref90 of one" one.fasta $tiny --uniref90 db.fasta --jackhmmer ./jackhmmer -o searched
check "its rows count" grep -q '"num_msa": 2' searched/one/confidence.json
expect 0 "from the cache" one.fasta $tiny --uniref90 db.fasta --jackhmmer ./jackhmmer --seed 1 --overwrite -o searched
check "searched once in two runs" test "$(wc -l <calls)" -eq 1
expect 1 "no luck" one.fasta $tiny --uniref90 db.fasta --jackhmmer ./broken -o unlucky
state unlucky/one failed "no luck"
expect 0 "1 finished" one.fasta $tiny --uniref90 db.fasta --jackhmmer ./broken --allow-failed-searches -o unlucky
expect 0 "one, tiny: 73 residues" one.fasta $tiny --uniref90 db.fasta --jackhmmer ./broken --plan
check "a plan searches nothing" test ! -e predictions
mkdir stuck && printf '#!/bin/sh\nsleep 300\n' >hang && chmod +x hang
env --default-signal=INT,TERM "$program" one.fasta $tiny --uniref90 db.fasta --jackhmmer ./hang -o stuck >log 2>&1 &
pid=$!
sleep 1
kill -TERM $pid
wait $pid
got=$?
name="SIGTERM ends a search" && [ $got -eq 1 ]
result $? "exit status $got"
check "a search that was ended is no failure of ours to explain twice" test "$(grep -c 'stopped by signal' log)" -eq 1

# ---- every byte: memory errors and leaks, and a machine without AVX-512 (valgrind has none) ----
if command -v valgrind >/dev/null 2>&1 && ! ldd "$program" | grep -q libasan; then
    printf '>v\nMKVLAAGIVG\n' >v.fasta
    for file in v.fasta several.fasta; do
        [ $file = several.fasta ] && more="--plan --max-memory 64M" || more="--num-recycle 0 --save-raw"
        # shellcheck disable=SC2086
        valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,indirect "$program" $file $tiny $more \
            -o checked >log 2>&1
        got=$?
        name="valgrind: $file" && [ $got -lt 2 ] && ! grep -q '^==' log
        result $? "exit status $got"
    done
    whole checked/v
else
    skipped=$((skipped + 1))
fi

# ---- the demonstration's files, and comparing structures ----
expect 0 "1 finished" "$demo/1cih_A.fasta" $tiny --msa "$demo/1cih_A.a3m" --hhr "$demo/1cih_A.hits.sto" --template-dir "$demo/templates" -o demo
whole demo/1cih_A
check "10 rows" grep -q '"num_msa": 10' demo/1cih_A/confidence.json
expect 0 "1 finished" "$demo/1cih_A.a3m" $tiny -o demo_a3m
check "the template makes a difference" sh -c '! cmp -s demo/1cih_A/ranked_0.pdb demo_a3m/1cih_A/ranked_0.pdb'
# compare STATUS TEXT ARGUMENTS...
compare()
{
    name="compare: $2" want=$1 text=$2
    shift 2
    "$tools/fastfold-compare" "$@" >log 2>&1
    got=$?
    [ $got -eq "$want" ] && grep -qF -- "$text" log
    result $? "exit status $got"
}
truth=$demo/1cih_A.experiment.pdb.gz
compare 0 "108 of 108 resolved" demo/1cih_A/ranked_0.pdb "$truth"
compare 0 '"lddt_ca": 1.0, "tm_score": 1.0, "gdt_ts": 1.0, "gdt_ha": 1.0, "rmsd_ang": 0.0' "$truth" "$truth" --json
check "compare: a JSON object" json_lines log
compare 0 "103 of 108 resolved in chain (no id) compared, 60.2 % of them identical" "$demo/templates/2pcb_B.pdb.gz" "$truth"
compare 0 "108 of 108" demo/1cih_A/ranked_0.cif demo/1cih_A/ranked_0.pdb
gzip -dc "$truth" | awk '/^ATOM/ { printf "%s%8.3f%8.3f%8.3f%s\n", substr($0, 1, 30), -substr($0, 39, 8) + 5, substr($0, 31, 8), substr($0, 47, 8) - 9, substr($0, 55) }' >turned.pdb
compare 0 '"tm_score": 1.0' turned.pdb "$truth" --json # turned by a right angle and moved
gzip -dc "$truth" | awk '/^ATOM/ && substr($0, 23, 4) + 0 > 20' >part.pdb
compare 0 "of 108 resolved in chain (no id) compared, 100.0 % of them identical" part.pdb "$truth"
compare 2 "the model has no chain Q; there are A" demo/1cih_A/ranked_0.pdb "$truth" --model-chain Q
compare 2 "a model and an experimental structure are needed, 1 files were given" "$truth"
compare 1 "none.pdb" none.pdb "$truth"
compare 2 "did you mean --json?" "$truth" "$truth" --jso
if command -v TMalign >/dev/null 2>&1; then
    gzip -dc "$demo/templates/2pcb_B.pdb.gz" >2pcb.pdb && gzip -dc "$truth" >1cih.pdb
    ours=$("$tools/fastfold-compare" 2pcb.pdb 1cih.pdb --json | sed 's/.*"tm_score": \([0-9.]*\).*/\1/')
    theirs=$(TMalign 2pcb.pdb 1cih.pdb | awk '/^TM-score=.*Chain_1/ { print $2 }') # of the 104 residues of chain 1; ours of 103 compared
    check "compare: TM-score as TM-align has it ($ours, $theirs)" awk "BEGIN { d = $ours * 103 / 104 - $theirs; exit !(d * d < 0.01 * 0.01) }"
else
    skipped=$((skipped + 1))
fi

# ---- real files ----
if [ -z "$data" ]; then
    echo "$passed passed, $failed failed, $((skipped + 1)) skipped"
    [ "$failed" -eq 0 ]
    exit
fi
while read -r file status text; do
    mkdir -p fasta
    expect "$status" "$text" "$data/fasta/$file" $tiny --num-recycle 0 -o "fasta/$file"
done <<'TABLE'
P54025.fasta 0 sp_P54025_RL41_METJA: 38 residues
blank_lines.fasta 0 1 finished
crlf.fasta 0 1 finished
digits.fasta 1 "1" at position 1 of "digits and punctuation (bad)" is a digit
dna.fasta 0 it looks like nucleotides; amino acids are expected
duplicate_names.fasta 0 target 1/2 A_2: 30 residues
empty.fasta 1 has no sequences; a FASTA record is a line
empty_middle.fasta 1 2 finished, 1 failed
gaps.fasta 1 "-" at position 5
inner_space.fasta 0 1 blanks inside were left out
long_header.fasta 0 target 1/1 very: 73 residues
lower.fasta 0 73 lower-case letters were made upper case
mixed_case.fasta 0 30 lower-case letters were made upper case
multi.fasta 0 3 finished
no_final_newline.fasta 0 1 finished
no_header.fasta 1 stands before the first '>'
nul_byte.fasta 1 "\0" at position 6 of "nul" is no amino-acid letter
one.fasta 0 1 finished
one.fasta.gz 0 1 finished
only_header.fasta 1 "nothing follows" has no residues
semicolon_comment.fasta 1 stands before the first '>'
single_residue.fasta 0 target 1/1 one: 1 residues
smbp73.fasta 0 1 finished
spaces.fasta 0 1 finished
star_end.fasta 0 the '*' at the end was left out
star_inside.fasta 1 is a stop inside the sequence
utf8.fasta 0 1 finished
utf8_bad.fasta 1 "É" at position 6
xbzuoj.fasta 0 5 of B Z U O J were made X
TABLE
expect 0 "2_700, tiny: 2700 residues" "$data/fasta/long_2700.fasta" $tiny --plan
expect 0 "HBA_AILME, tiny: 141 residues" "$data/fasta/globins45.fa" $tiny --plan

smbp="$data/fasta/smbp73.fasta"
expect 0 "hit 1HF9_B is left out: no structure file" "$smbp" $tiny --hhr "$data/hits/smbp73_pdb70_hits.hhr" --template-dir "$data/mmcif" \
    --msa "$data/msa/smbp73/uniref90_hits.sto" --msa "$data/msa/smbp73/bfd_uniclust_hits.a3m.gz" --msa "$data/msa/smbp73/mgnify_hits.sto" \
    -o real
whole real/query
check "all rows of three files count" grep -q '"num_msa": 1136' real/query/confidence.json
expect 0 "1 finished" "$smbp" $tiny --msa "$data/msa/smbp73/uniref90_hits.sto" --msa "$data/msa/smbp73/bfd_uniclust_hits.a3m.gz" \
    --msa "$data/msa/smbp73/mgnify_hits.sto" -o real_no_templates
check "templates make a difference" sh -c '! cmp -s real/query/ranked_0.pdb real_no_templates/query/ranked_0.pdb'
expect 0 "itself holds alignments of other names" "$smbp" $tiny --msa-dir "$data/msa" -o deep
printf ' OBSOLETE\nOBSLTE    01-JAN-00 1HF9     1HFA\nOBSLTE    01-JAN-00 1HFA     1HF9\n' >cycle.dat
expect 0 "1HF9" "$smbp" $tiny --hhr "$data/hits/smbp73_pdb70_hits.hhr" --template-dir "$data/mmcif" --obsolete cycle.dat -o cycle
awk '/^>1gbt_A/ { print; getline; print }' "$data/msa/made_here/queries.fasta" >1gbt.fasta
expect 0 "1 finished" 1gbt.fasta $tiny --hhr "$data/hits/made_1gbt_hhsearch_pdbmini.hhr" --template-dir "$data/mmcif" \
    --msa-dir "$data/msa/made_here" -o gbt # insertion codes, alternate locations
whole gbt/1gbt_A
for hits in bio_2uvo_hhblits_emptytable.hhr made_smbp73_hmmsearch.sto; do
    expect 0 "1 finished" "$smbp" $tiny --hhr "$data/hits/$hits" --template-dir "$data/mmcif" -o "hits_$hits"
done
expect 0 "1 finished" --features "$data/features/openfold_alphafold_feature_dict.h5" $tiny -o alphafold_features
if command -v jackhmmer >/dev/null 2>&1 && command -v hhsearch >/dev/null 2>&1; then
    expect 0 "hhsearch pdb70 of query" "$smbp" $tiny --uniref90 "$data/seqdb/uniprot_mini.fasta" --pdb70 "$data/seqdb/hh_pdbmini/pdbmini" \
        --template-dir "$data/mmcif" -o from_search
    whole from_search/query
else
    skipped=$((skipped + 1))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
