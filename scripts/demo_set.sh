#!/bin/sh
# demo_set.sh BUILD DATA OUT: the data sets of the demonstration weights: OUT/train.h5 and OUT/held_out.h5, of the chains in
# scripts/demo_set/*.txt, with alignments made by one run of MMseqs2. DATA has mmcif/, pdb/ and seqdb/uniprot_mini.fasta.
set -eu
build=$1 data=$2 out=$3
lists=$(dirname "$0")/demo_set
command -v mmseqs >/dev/null || { echo "demo_set.sh: mmseqs is missing (make deps)" >&2; exit 1; }
rm -rf "$out/search" "$out/alignments"
mkdir -p "$out/search" "$out/alignments"

# Some files of DATA are damaged on purpose, which makes the status 1; the sets are checked afterwards.
chains()
{
    "$build/bin/fastfold-data" chains "$data/mmcif" "$data/pdb" --chain-list "$lists/$1.txt" --assume-resolution 2.5 -o "$out/$1.h5" \
        --fasta "$out/$1.fasta" --msa-dir "$out/alignments" 2>"$out/$1.log" || true
}
for set in train held_out; do chains $set >/dev/null; done

cat "$out/train.fasta" "$out/held_out.fasta" >"$out/search/queries.fasta"
( cd "$out/search"
  mmseqs createdb "$data/seqdb/uniprot_mini.fasta" targets -v 1
  mmseqs createdb queries.fasta queries -v 1 --shuffle 0
  mmseqs search queries targets result tmp --threads 1 --num-iterations 3 -a -e 0.1 --max-seqs 10000 -s 8 -v 1
  mmseqs result2msa queries targets result a3m --threads 1 --msa-format-mode 6 --filter-msa 1 --filter-min-enable 1000 --diff 3000 \
      --qid 0.0,0.2,0.4,0.6,0.8,1.0 --qsc 0 --max-seq-id 0.95 -v 1
  mkdir unpacked
  mmseqs unpackdb a3m unpacked --unpack-name-mode 0 --unpack-suffix .a3m -v 1 )
for file in "$out"/search/unpacked/*.a3m; do
    name=$(sed -n '1s/^>\([^ \t]*\).*/\1/p' "$file")
    mv "$file" "$out/alignments/$name.a3m"
done
for set in train held_out; do chains $set; "$build/bin/fastfold-data" check "$out/$set.h5"; done
