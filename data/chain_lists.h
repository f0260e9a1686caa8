/* chain_lists.h - lists of chain names in files: which chains to take, and which belong together. Names count in any
 * case. */
#ifndef FF_DATA_CHAIN_LISTS_H
#define FF_DATA_CHAIN_LISTS_H

#include "io/name_table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Chain names in lower case, and for each the line (chain list) or the cluster it stands in. Start with {0}. */
typedef struct {
    ff_name_table names;
    int64_t *numbers; /* [names] line number, or index of its cluster */
    int64_t capacity;
    ff_text_list clusters; /* the first name of each cluster, as it stands in the file */
} ff_chain_list;

/** Read names, any number on a line, `#` begins a comment. FF_ERR_FORMAT: none in it. Errors of ff_text_open. */
ff_status ff_chain_list_read(ff_ctx *ctx, ff_chain_list *list, const char *path);
/** Read one cluster a line, names separated by blanks. FF_ERR_FORMAT with file and line: a name stands in two
 * clusters. */
ff_status ff_cluster_list_read(ff_ctx *ctx, ff_chain_list *list, const char *path);
void ff_chain_list_destroy(ff_chain_list *list);

/** Index of a name in any case; -1 = not in the list. */
int64_t ff_chain_list_find(const ff_chain_list *list, const char *name);
/** The cluster of a name; "" = none. */
const char *ff_chain_list_cluster(const ff_chain_list *list, const char *name);

#ifdef __cplusplus
}
#endif
#endif
