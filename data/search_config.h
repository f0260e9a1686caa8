/* search_config.h - databases and programs of a site in one file, instead of an option each:
 *
 *     # comment
 *     uniref90       = /data/uniref90/uniref90.fasta
 *     pdb70          = pdb70/pdb70            # relative to the folder of this file
 *     jackhmmer      = /opt/hmmer/bin/jackhmmer
 *     mmseqs-program = mmseqs                 # a name without "/" is looked for along PATH
 *
 * Names are those of the options. */
#ifndef FF_DATA_SEARCH_CONFIG_H
#define FF_DATA_SEARCH_CONFIG_H

#include "data/search.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    char *databases[FF_NUM_DBS]; /* NULL = not in the file */
    char *programs[FF_NUM_TOOLS];
} ff_search_config;

/** FF_ERR_IO; FF_ERR_FORMAT with file and line: no `name = value`, an unknown name, a name twice. */
ff_status ff_search_config_read(ff_ctx *ctx, ff_search_config *config, const char *path);
void ff_search_config_destroy(ff_search_config *config); /* {0} is fine */

/** Fill what `options` leaves open; the texts stay the config's. */
void ff_search_config_apply(const ff_search_config *config, ff_search_options *options);

#ifdef __cplusplus
}
#endif
#endif
