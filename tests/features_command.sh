#!/bin/sh
# features_command.sh PROGRAM [DATA] - `PROGRAM features` from the outside: exit statuses, messages, batches with bad records,
# tools that crash, hang and are missing, a signal in the middle. Tools are shell scripts made here; DATA (../shared/data) adds
# runs on real alignments. Last line: N passed, N failed, N skipped
set -u
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
data=${2:+$(cd "$2" && pwd)}
work=$(mktemp -d "${TMPDIR:-/tmp}/features-XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
export TMPDIR="$work/tmp"
mkdir "$TMPDIR"

result()
{
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $name: $2"
        sed 's/^/    /' "$work/log"
    fi
}

# expect STATUS TEXT ARGUMENTS...: exit status, and a line that holds TEXT
expect()
{
    name=$2 want=$1 text=$2
    shift 2
    "$program" features "$@" >"$work/log" 2>&1
    got=$?
    [ $got -eq "$want" ]
    result $? "exit status $got, wanted $want"
    grep -qF -- "$text" "$work/log"
    result $? "\"$text\" was not said"
}

# there NAME..., absent NAME...: files of $work
there()
{
    for file in "$@"; do
        name="$file is there" && [ -s "$work/$file" ]
        result $? "it is not"
    done
}
absent()
{
    for file in "$@"; do
        name="$file is absent" && [ ! -e "$work/$file" ]
        result $? "it is there"
    done
}

printf '>one first record\nMKVLAAGIVG\n' >"$work/one.fasta"
printf '>db\nMKVLAAGIVGLCAKAYLEHL\n' >"$work/db.fasta"
cd "$work" || exit 1

# ---- wrong usage ----
expect 2 "one FASTA file is needed, 0 were given" -o x.h5
expect 2 "-o FILE is missing" one.fasta
expect 2 "--hhr needs --template-dir DIR" one.fasta --hhr x.hhr -o x.h5
expect 2 "a template database needs --template-dir DIR" one.fasta --pdb70 x -o x.h5
expect 2 "give one of them" one.fasta --pdb70 x --pdb-seqres y --template-dir . -o x.h5
expect 2 "did you mean --uniref90" one.fasta --uniref9 x -o x.h5
expect 2 "is no date like 2021-11-01" one.fasta --template-dir . --max-template-date 2021 -o x.h5
printf '>a\nMKVL\n>b\nMKVL\n' >two.fasta
expect 2 "use --msa-dir DIR" two.fasta --msa x.a3m -o x.h5

# ---- files that are missing ----
expect 1 "none.fasta" none.fasta -o x.h5
expect 1 "--uniref90: none.fasta: No such file or directory" one.fasta --uniref90 none.fasta -o x.h5
for part in a3m.ffdata a3m.ffindex hhm.ffdata hhm.ffindex cs219.ffindex; do echo x >"pdb70_$part"; done
expect 1 "--pdb70: pdb70_cs219.ffdata: No such file or directory" one.fasta --pdb70 pdb70 --template-dir . -o x.h5
expect 1 "no program at ./nothing" one.fasta --uniref90 db.fasta --jackhmmer ./nothing -o x.h5
expect 1 "none.a3m" one.fasta --msa none.a3m -o x.h5
expect 1 "cannot list folder nowhere" one.fasta --template-dir nowhere -o x.h5
expect 1 "no/such/folder" one.fasta -o no/such/folder/x.h5
absent x.h5

# ---- records and their files ----
expect 0 "one.h5: 10 residues, 1 MSA rows of 0 files, 0 templates" one.fasta -o one.h5
there one.h5
awk 'BEGIN {
    print ">../../x one\nMKVL\n>a/b\nMKVLA\n>\nMKVLAA\n>CON: 1|2\nMKVLAAG\n>same\nMKVL\n>same\nMKVL"
    printf ">"; for (i = 0; i < 4096; i++) printf "n"; print "\nMKVL" }' >names.fasta
mkdir inside
expect 0 "7 residues" names.fasta -o inside/names
name="odd names stay in their folder" && [ "$(find inside/names -name '*.h5' | wc -l)" -eq 7 ] && [ "$(find . -name '*.h5' | wc -l)" -eq 8 ]
result $? "$(find . -name '*.h5')"
there inside/names/same.h5 inside/names/same_2.h5

printf '>good\nMKVLAAGIVG\n>bad\nMKV4AAGIVG\n>empty\n>lower\nmkvlaagivg\n>pair\nMKVL:MKVL\n' >batch.fasta
expect 1 "3 of 5 failed" batch.fasta -o batch
grep -F "batch.fasta:3" log >/dev/null
name="the bad record is named by file and line"
result $? "it is not"
there batch/good.h5 batch/lower.h5
absent batch/bad.h5 batch/empty.h5 batch/pair.h5
expect 1 "4 of 5 failed" batch.fasta --alphafold-compatible -o strict
there strict/good.h5
absent strict/lower.h5

# ---- alignments ----
printf '>one\nMKVLAAGIVG\n>r\nMKVL--GIVG\n' >one.a3m
printf '# STOCKHOLM 1.0\none MKVLAAGIVG\ns MKVLAAGI-G\n//\n' >one.sto
gzip -c one.a3m >one.a3m.gz
expect 0 "3 MSA rows of 3 files" one.fasta --msa one.a3m --msa one.sto --msa one.a3m.gz -o one.h5
printf '>one\nMKVL\n' >short.a3m
expect 1 "short.a3m" one.fasta --msa short.a3m -o short.h5
mkdir -p alignments/msas/one
cp one.a3m alignments/msas/one/
expect 0 "2 MSA rows of 1 files" one.fasta --msa-dir alignments/msas -o one.h5
expect 1 "they lie one level deeper, in alignments/msas" one.fasta --msa-dir alignments -o deep.h5

printf '>nine\nSPSYAYHQF\n' >nine.fasta
mkdir empty
expect 0 "nine.h5: 9 residues, 1 MSA rows of 0 files, 0 templates" nine.fasta --template-dir empty -o nine.h5
name="process reads a short chain with no template"
"$program" process nine.h5 -o batch.h5 >log 2>&1
result $? "process failed"

# ---- tools ----
tool()
{
    printf '#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = -A ] && out=$2; shift; done\n%s\n' "$2" >"$1"
    chmod +x "$1"
}
tool good 'echo call >>calls; printf "# STOCKHOLM 1.0\\nquery MKVLAAGIVG\\nr MKVLAAGIV-\\n#=GC RF xxxxxxxxxx\\n//\\n" >$out'
tool crash 'echo "Fatal exception: no luck" >&2; kill -SEGV $$'
tool hang 'echo waiting for ever >&2; sleep 300 & echo $! >child; wait'
expect 0 "2 MSA rows of 1 files" one.fasta --uniref90 db.fasta --jackhmmer ./good -o one.h5
expect 0 "jackhmmer uniref90 of one: 0." one.fasta --uniref90 db.fasta --jackhmmer ./good --cache cache -o one.h5
expect 0 "jackhmmer uniref90 of one: from the cache" one.fasta --uniref90 db.fasta --jackhmmer ./good --cache cache -o one.h5
printf 'uniref90 = db.fasta\njackhmmer = ./good\n' >site.conf
expect 0 "uniref90 of one: from the cache" one.fasta --databases site.conf --cache cache -o one.h5
name="two calls in four runs" && [ "$(wc -l <calls)" -eq 2 ]
result $? "$(wc -l <calls) calls"
expect 1 "ended by signal 11 (Segmentation fault)" one.fasta --uniref90 db.fasta --jackhmmer ./crash -o crash.h5
expect 1 "Fatal exception: no luck" one.fasta --uniref90 db.fasta --jackhmmer ./crash -o crash.h5
absent crash.h5
expect 0 "1 MSA rows of 0 files" one.fasta --uniref90 db.fasta --jackhmmer ./crash --allow-failed-searches -o crash.h5
expect 1 "ended by us at its time limit after 0." one.fasta --uniref90 db.fasta --jackhmmer ./hang --time-limit 0.3 -o hang.h5
expect 1 "waiting for ever" one.fasta --uniref90 db.fasta --jackhmmer ./hang --time-limit 0.3 -o hang.h5
absent hang.h5

# ---- told to end ----
gone() { [ ! -d "/proc/$1" ] || grep -q '^State:.*Z' "/proc/$1/status"; }
for signal in INT TERM; do
    rm -f child
    begin=$(date +%s)
    # a shell makes its background programs deaf to SIGINT; env --default-signal undoes that
    env --default-signal=INT,TERM "$program" features one.fasta --uniref90 db.fasta --jackhmmer ./hang --cache cache2 -o told.h5 \
        >log 2>&1 &
    pid=$!
    for i in 1 2 3 4 5 6 7 8 9 10; do [ -s child ] || sleep 0.3; done
    kill -$signal $pid
    wait $pid
    got=$?
    name="SIG$signal ends the run" && [ $got -eq 1 ] && [ $(($(date +%s) - begin)) -lt 20 ]
    result $? "exit status $got after $(($(date +%s) - begin)) s"
    name="SIG$signal ends the tool and its children" && gone "$(cat child)"
    result $? "$(cat child) still runs"
    name="SIG$signal leaves nothing temporary" && [ -z "$(find cache2 -type f)$(ls cache2 | grep work)" ]
    result $? "$(find cache2)"
    absent told.h5
done
name="nothing is left in TMPDIR" && [ -z "$(ls -A "$TMPDIR")" ]
result $? "$(ls -A "$TMPDIR")"

# ---- the disk ----
if [ "$(id -u)" -ne 0 ]; then
    mkdir locked && chmod 500 locked
    expect 1 "cannot write" one.fasta -o locked/x.h5
else
    skipped=$((skipped + 1)) # root may write everywhere
fi

# ---- real alignments and templates ----
if [ -d "$data/msa/made_here" ]; then
    expect 0 "1AE5A.h5: 223 residues" "$data/msa/made_here/queries.fasta" --msa-dir "$data/msa/made_here" -o made_here
    name="a file for each record" && [ "$(ls made_here | wc -l)" -eq "$(grep -c '>' "$data/msa/made_here/queries.fasta")" ]
    result $? "$(ls made_here | wc -l) files"
    expect 0 "73 residues, 1136 MSA rows of 3 files, 7 templates" "$data/fasta/smbp73.fasta" \
        --msa "$data/msa/smbp73/uniref90_hits.sto" --msa "$data/msa/smbp73/bfd_uniclust_hits.a3m.gz" \
        --msa "$data/msa/smbp73/mgnify_hits.sto" --hhr "$data/hits/smbp73_pdb70_hits.hhr" --template-dir "$data/mmcif" \
        --max-template-date 2021-01-01 -o smbp73.h5
    expect 0 "2 templates" "$data/fasta/smbp73.fasta" --hhr "$data/hits/made_smbp73_hmmsearch.sto" \
        --template-dir "$data/mmcif" --max-templates 2 -o smbp73.h5
    name="process reads what features writes"
    "$program" process smbp73.h5 -o batch.h5 >log 2>&1 && "$program" process one.h5 -o batch.h5 >log 2>&1
    result $? "process failed"
else
    skipped=$((skipped + 1))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
