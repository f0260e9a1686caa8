#!/bin/sh
# reader_table.sh PROGRAM DATA - every file of DATA/fasta, DATA/msa and DATA/hits through `PROGRAM parse`: a table line each,
# read or refused with one clear line; then what parse and inspect say and write. Last line: N passed, N failed
set -u
program=$1 data=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0

check() # WHAT COMMAND...: succeeds
{
    what=$1
    shift
    if "$@" >/dev/null 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL $what"; fi
}

exits() # STATUS COMMAND...: ends with this status
{
    wanted=$1
    shift
    "$@" >"$folder/out" 2>"$folder/err" </dev/null
    [ $? -eq "$wanted" ]
}

table() # KIND FILES...: the table, and a check for each file
{
    kind=$1
    shift
    (cd "$data" && "$program" parse --as "$kind" --query fasta/smbp73.fasta "$@" 2>"$folder/err.$kind") >"$folder/table"
    cat "$folder/table"
    for file in "$@"; do
        lines=$(grep -c "^[a-z]*  *$file  $kind: " "$folder/table")
        if ! line=$(grep "^[a-z]*  *$file  $kind: " "$folder/table" | head -n 1) || [ "$lines" -ne 1 ]; then
            check "$file: $lines lines about it" false
        elif is_refused "$kind" "$file"; then # a file and a line, unless the file is empty
            check "$file: refused" sh -c "echo '$(echo "$line" | tr -d "\"'\`")' | grep -Eq '^refused .*$file(:[0-9]+:| holds no)'"
        else
            check "$file: read" sh -c "echo '$(echo "$line" | tr -d "\"'\`")' | grep -Eq '^read .*: [0-9]+ '"
        fi
    done
}

# AlphaFold refuses these too, but for the queries of this program's own rules
is_refused() # KIND FILE
{
    case $1:$2 in
    fasta:*/no_header.fasta | fasta:*/semicolon_comment.fasta) true ;;
    hhr:*/bio_2uvo_hhblits.hhr | hhr:*/bio_allx.hhr) true ;;
    query:*/no_header.fasta | query:*/semicolon_comment.fasta | query:*/digits.fasta | query:*/gaps.fasta | query:*/nul_byte.fasta | \
        query:*/only_header.fasta | query:*/star_inside.fasta | query:*/utf8_bad.fasta | query:*/empty*.fasta) true ;;
    *) false ;;
    esac
}

files() { (cd "$data" && find "$@" -type f | LC_ALL=C sort); }

# names of the files of DATA hold no blanks
# shellcheck disable=SC2046
{
    table fasta $(files fasta msa/made_here/queries.fasta)
    table query $(files fasta)
    table a3m $(files msa -name '*.a3m' -o -type f -name '*.a3m.gz' -o -type f -name '*.a2m.gz')
    table sto $(files msa -name '*.sto' -o -type f -name '*.sto.gz' -o -type f -name '*.sth')
    table hhr $(files hits -name '*.hhr')
    table hmmsearch $(files hits -name '*hmmsearch*.sto')
    table tblout $(files hits -name '*.tblout')
}
count=$(files fasta msa hits | wc -l)
echo "$count files in $data/fasta, msa and hits"
grep -q 'lower-case letters were made upper case' "$folder/err.query"
check "notes about queries are logged" [ $? -eq 0 ]

# what is written, and read again
one=$data/fasta/one.fasta out=$folder/one.h5
check "parse -o" exits 0 "$program" parse --as fasta "$one" -o "$out"
check "inspect" exits 0 "$program" inspect "$out"
check "inspect lists aatype_0" grep -q '^aatype_0 .*integer32  \[73\]' "$folder/out"
check "inspect shows attributes" grep -q '@format  *fasta' "$folder/out"
check "inspect --json" exits 0 "$program" inspect --json "$out"
check "JSON has the array" grep -q '"name": "aatype_0", "type": "integer", "element_bytes": 4, "shape": \[73\]' "$folder/out"
"$program" parse --as fasta - <"$one" >"$folder/out" 2>&1
check "standard input" grep -q '^read     -  fasta: 1 sequences, 73 characters' "$folder/out"

# what fails, and how
check "a bad file among good ones: exit 1" exits 1 "$program" parse --as fasta "$one" "$data/fasta/no_header.fasta" "$one"
check "the good ones are read" [ "$(grep -c '^read' "$folder/out")" -eq 2 ]
check "one line on stderr" [ "$(wc -l <"$folder/err")" -eq 1 ]
check "no such file: exit 1" exits 1 "$program" parse --as fasta "$folder/none" -o "$folder/none.h5"
check "it is named" grep -q "none: No such file" "$folder/err"
check "nothing is written" [ ! -e "$folder/none.h5" ]
check "a folder: exit 1" exits 1 "$program" parse --as fasta "$folder"
check "inspect goes on after a bad file: exit 1" exits 1 "$program" inspect "$one" "$out"
check "the good one is shown" grep -q '^aatype_0' "$folder/out"
check "the bad one is listed at the end" sh -c "tail -n 1 '$folder/err' | grep -q one.fasta"
check "output in a folder that is not there: exit 1" exits 1 "$program" parse --as fasta "$one" -o "$folder/no/x.h5"
check "no kind: exit 2" exits 2 "$program" parse "$one"
check "unknown kind: exit 2" exits 2 "$program" parse --as fastq "$one"
check "no file: exit 2" exits 2 "$program" parse --as fasta
check "two files for one output: exit 2" exits 2 "$program" parse --as fasta "$one" "$one" -o "$out"
check "unknown option: exit 2" exits 2 "$program" parse --az fasta "$one"
check "unknown command: exit 2" exits 2 "$program" prase
check "no command: exit 2" exits 2 "$program"
for command in $("$program" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
    check "$command --help" exits 0 "$program" "$command" --help
    check "$command --help has a usage line" grep -q "^Usage: fastfold-data $command " "$folder/out"
done
if [ -w /dev/full ]; then
    "$program" --help >/dev/full 2>/dev/null
    "$program" parse --as fasta "$one" >/dev/full 2>/dev/null
    check "a full disk under standard output: exit 1" [ $? -eq 1 ]
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
