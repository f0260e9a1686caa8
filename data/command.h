/* command.h - the sub-commands of fastfold-data: what one is, and what they share.
 *
 * A new command is a file data/command_NAME.c with one `const ff_command ff_command_NAME`, a line below and a line in
 * the table of main_data.c. The frame reads its options, serves --help, prints the message `run` leaves and ends with
 * its exit status: 0 done, 1 failed, 2 wrong usage. */
#ifndef FF_DATA_COMMAND_H
#define FF_DATA_COMMAND_H

#include "core/options.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_EXIT_DONE = 0, FF_EXIT_FAILED = 1, FF_EXIT_USAGE = 2 };

typedef struct {
    const char *name;    /* "parse" */
    const char *summary; /* a phrase for the list of commands */
    ff_program program;  /* its own name is "fastfold-data parse" */
    size_t options_bytes; /* of the struct its table fills */
    /** @return the exit status. A message left in ctx is printed by the frame, as one line. */
    int (*run)(ff_ctx *ctx, const void *options, const ff_arguments *args);
} ff_command;

extern const ff_command ff_command_parse;
extern const ff_command ff_command_inspect;
extern const ff_command ff_command_process;
extern const ff_command ff_command_features;
extern const ff_command ff_command_chains;
extern const ff_command ff_command_merge;
extern const ff_command ff_command_check;

/** Leave a message about wrong usage in ctx. @return FF_EXIT_USAGE */
int ff_command_usage(ff_ctx *ctx, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- batches: go on after a bad record, list the bad ones at the end ---- */

typedef struct {
    int64_t good, bad;
    char **messages; /* [bad] */
} ff_batch;

/** Count one that went well. */
void ff_batch_good(ff_batch *batch);
/** Take the message of ctx (made to name file and line): a warning now, and an error in the list at the end. Clears
 * ctx. */
void ff_batch_bad(ff_batch *batch, ff_ctx *ctx);
/** Log the list of bad ones when there was more than one record; frees the batch. @return the exit status */
int ff_batch_finish(ff_batch *batch, ff_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
