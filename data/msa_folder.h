/* msa_folder.h - alignment files that are there already: which belong to a chain, and reading one of any kind. */
#ifndef FF_DATA_MSA_FOLDER_H
#define FF_DATA_MSA_FOLDER_H

#include "data/msa.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ff_text_list msas; /* paths, in the order of their rows: uniref90*, then bfd* and uniclust* and uniref30*, then
                          mgnify*, then the others by name */
    char *hits;        /* template hits: .hhr, or hmmsearch's Stockholm (pdb_hits.sto, hmm_output.sto); NULL = none */
} ff_msa_files;

/**
 * Find the files of a chain: FOLDER/NAME/... (AlphaFold's and OpenFold's layout) or FOLDER/NAME.a3m,
 * FOLDER/NAME.x.sto.gz and so on. uniprot_hits.* are left out, as the monomer pipeline does.
 *
 * @return FF_OK also when there are none; FF_ERR_IO: the folder cannot be read
 */
ff_status ff_msa_files_find(ff_ctx *ctx, ff_msa_files *files, const char *folder, const char *name);
void ff_msa_files_destroy(ff_msa_files *files); /* empty afterwards, as {0} */

/** Why a chain has no files in a folder, in one line: names the layout that is expected, and what is there instead
 * when the files lie one level deeper or directly in the folder. @return `text` */
const char *ff_msa_folder_explain(const char *folder, const char *name, char *text, size_t size);

typedef enum { FF_FILE_UNKNOWN, FF_FILE_A3M, FF_FILE_STOCKHOLM, FF_FILE_HHR } ff_file_kind;

/** What a file (plain or gzip) is, told by its first line that is not blank; an empty file is unknown. */
ff_status ff_msa_file_kind(ff_ctx *ctx, const char *path, ff_file_kind *kind);

/** Read an alignment, A3M or Stockholm. FF_ERR_FORMAT: neither; errors of the readers. */
ff_status ff_msa_file_read(ff_ctx *ctx, ff_msa *msa, const char *path, const ff_msa_options *options);

/** Rows AlphaFold reads of a file of that name: 10,000 of uniref90*, 501 of mgnify*, else 0 (all). */
int64_t ff_msa_file_max_seq(const char *path);

#ifdef __cplusplus
}
#endif
#endif
