#include "train/training_page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "infer/json_writer.h"
#include "io/safe_file.h"

/* train/training_page.html as text; the build makes training_page.inc of it */
static const char page[] =
#include "training_page.inc"
    ;

enum { MOST_POINTS = 2000 };

typedef struct {
    const char *metrics, *title;
} page_source;

static bool is_train(const char *line)
{
    static const char begin[] = "{\"kind\": \"train\"";
    return strncmp(line, begin, sizeof begin - 1) == 0;
}

/* Lines of metrics as elements of an array: every validation, and of the training every so many. */
static void write_lines(FILE *in, FILE *out)
{
    char *line = NULL;
    size_t capacity = 0;
    int64_t count = 0, index = 0;
    ssize_t length;
    const char *comma = "";
    while ((length = getline(&line, &capacity, in)) > 0)
        count += is_train(line);
    const int64_t every = count / MOST_POINTS + 1;
    rewind(in);
    while ((length = getline(&line, &capacity, in)) > 0) {
        if (line[length - 1] != '\n' || (is_train(line) && index++ % every != 0))
            continue;
        fprintf(out, "%s%.*s", comma, (int)length - 1, line);
        comma = ",\n";
    }
    free(line);
}

static ff_status write_page(ff_ctx *ctx, FILE *out, const void *arg)
{
    const page_source *source = arg;
    const char *mark = strstr(page, "@DATA@");
    FILE *in = fopen(source->metrics, "r");
    ff_json j;
    if (in == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot read %s: %s", source->metrics, strerror(errno));
    fwrite(page, 1, (size_t)(mark - page), out);
    fputs("{\"title\":", out);
    ff_json_begin(&j, out, false);
    ff_json_text(&j, NULL, source->title);
    fputs(",\"lines\":[", out);
    write_lines(in, out);
    fputs("]}", out);
    fputs(mark + strlen("@DATA@"), out);
    fclose(in);
    return FF_OK;
}

ff_status ff_training_page_write(ff_ctx *ctx, const ff_run_folder *run, const char *title)
{
    char path[FF_RUN_PATH_BYTES];
    const page_source source = {run->metrics, title};
    return ff_safe_file_write(ctx, ff_run_folder_path(run, "training.html", path), write_page, &source);
}
