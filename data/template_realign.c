#include "data/template_realign.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/fasta.h"
#include "io/safe_file.h"
#include "io/subprocess.h"
#include "io/text_buffer.h"

enum { MIN_LENGTH = 6 }; /* of a sequence kalign takes */

/* Run kalign on IN in `folder`; its answer is OUT there. */
static ff_status run_kalign(ff_ctx *ctx, const char *kalign, const volatile sig_atomic_t *cancel, const char *folder,
                            const char *one, const char *two)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/in.fasta", folder);
    FILE *file = fopen(path, "wb");
    bool good = file != NULL && fprintf(file, ">sequence 1\n%s\n>sequence 2\n%s\n", one, two) > 0;
    if (file != NULL)
        good = fclose(file) == 0 && good;
    if (!good)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    ff_subprocess command;
    ff_subprocess_init(&command, kalign);
    ff_subprocess_add_words(&command, "-i in.fasta -o out.fasta -format fasta");
    command.folder = folder;
    command.time_limit_s = 600;
    const ff_status status = ff_subprocess_run(ctx, &command, cancel, NULL);
    ff_subprocess_destroy(&command);
    return status;
}

/* The two aligned sequences of OUT, in order, with a NUL after each. `second` is where the other one begins. */
static ff_status read_aligned(ff_ctx *ctx, const char *folder, ff_text_buffer *text, size_t *second)
{
    char path[4096];
    ff_fasta_reader *reader = NULL;
    ff_fasta_record record;
    ff_status status = FF_OK;
    int64_t lengths[2] = {0};
    snprintf(path, sizeof path, "%s/out.fasta", folder);
    FF_TRY(ff_fasta_open(ctx, &reader, path));
    for (int i = 0; i < 2; i++) {
        bool more;
        FF_TRY_DONE(ff_fasta_next(ctx, reader, &record, &more));
        lengths[i] = more ? record.length : -1;
        *second = text->size;
        if (more)
            FF_TRY_DONE(ff_text_buffer_put(ctx, text, record.sequence, (size_t)record.length + 1));
    }
    if (lengths[0] != lengths[1] || lengths[0] < 0)
        status = FF_FAIL(ctx, FF_ERR_FORMAT, "%s does not hold two aligned sequences", path);
done:
    ff_fasta_close(reader);
    return status;
}

/* to[i]: the residue of the new sequence beside residue i of the old one, or -1. @return how many residues are equal
 * */
static int64_t pair_residues(const char *old_aligned, const char *new_aligned, int32_t *to, int64_t num_old)
{
    int64_t i = 0, same = 0;
    int32_t j = 0;
    for (; *old_aligned != '\0' && i < num_old; old_aligned++, new_aligned++) {
        const bool has_old = *old_aligned != '-', has_new = *new_aligned != '-';
        same += has_old && *old_aligned == *new_aligned;
        if (has_old)
            to[i++] = has_new ? j : -1;
        j += has_new;
    }
    return same;
}

static ff_status align(ff_ctx *ctx, const char *kalign, const volatile sig_atomic_t *cancel, const char *old_sequence,
                       const char *new_sequence, int32_t *to, int64_t *same)
{
    char *folder;
    ff_text_buffer text = {0};
    size_t second = 0;
    FF_TRY(ff_make_temporary_folder(ctx, &folder));
    ff_status status = run_kalign(ctx, kalign, cancel, folder, old_sequence, new_sequence);
    if (status == FF_OK)
        status = read_aligned(ctx, folder, &text, &second);
    if (status == FF_OK)
        *same = pair_residues(text.data, text.data + second, to, (int64_t)strlen(old_sequence));
    ff_text_buffer_destroy(&text);
    ff_remove_folder(folder);
    free(folder);
    return status;
}

ff_status ff_template_realign(ff_ctx *ctx, const char *kalign, const volatile sig_atomic_t *cancel,
                              const char *old_sequence, const char *new_sequence, int32_t (*map)[2], int64_t *num_map,
                              bool *good, char *reason, size_t reason_size)
{
    const int64_t num_old = (int64_t)strlen(old_sequence), num_new = (int64_t)strlen(new_sequence);
    const int64_t shorter = num_old < num_new ? num_old : num_new;
    *good = false;
    if (shorter < MIN_LENGTH) {
        snprintf(reason, reason_size, "one of the sequences has %lld residues, too few for kalign",
                 (long long)shorter);
        return FF_OK;
    }
    int64_t same = 0, left = 0;
    int32_t *to = malloc((size_t)num_old * sizeof *to);
    if (to == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    for (int64_t i = 0; i < num_old; i++)
        to[i] = -1;
    if (align(ctx, kalign, cancel, old_sequence, new_sequence, to, &same) != FF_OK) {
        snprintf(reason, reason_size, "%s", ctx->message);
        ff_context_clear(ctx);
    } else if ((double)same / (double)shorter < 0.9) {
        snprintf(reason, reason_size, "%lld of %lld residues agree, fewer than nine tenths", (long long)same,
                 (long long)shorter);
    } else {
        for (int64_t k = 0; k < *num_map; k++)
            if (to[map[k][1]] >= 0) {
                map[left][0] = map[k][0];
                map[left++][1] = to[map[k][1]];
            }
        *num_map = left;
        *good = true;
    }
    free(to);
    return FF_OK;
}
