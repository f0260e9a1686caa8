#include "model/weights_fit.h"

#include <stdio.h>
#include <string.h>

#include "model/checkpoint.h"
#include "model/model.h"

/* How far the arrays `have` of a file are from those a model declares. */
static void match_names(const ff_parameters *declared, const ff_parameters *have, ff_weights_match *match)
{
    *match = (ff_weights_match){.surplus = have->count};
    for (int64_t k = 0; k < declared->count; k++) {
        const ff_parameter *want = &declared->items[k], *found = ff_parameters_find(have, want->name);
        if (found == NULL) {
            ff_weights_note_mismatch(match, &match->missing, want->name);
            continue;
        }
        match->surplus--;
        bool same = found->ndim == want->ndim;
        for (int d = 0; same && d < want->ndim; d++)
            same = found->shape[d] == want->shape[d];
        if (!same)
            ff_weights_note_mismatch(match, &match->misshapen, want->name);
    }
}

/* One preset; `have` is NULL for OpenFold's files. */
static ff_status match_preset(ff_ctx *ctx, const char *preset, const ff_parameters *have, const char *path,
                              ff_weights_match *match)
{
    ff_status status = FF_OK;
    ff_model_config config;
    ff_parameters declared;
    ff_parameters_init(&declared);
    FF_TRY_DONE(ff_model_config_preset(ctx, &config, preset));
    FF_TRY_DONE(ff_model_declare(ctx, &config, &declared));
    if (have == NULL)
        status = ff_openfold_match(ctx, &declared, path, match);
    else
        match_names(&declared, have, match);
done:
    ff_parameters_destroy(&declared);
    return status;
}

static void take(ff_weights_fit *fit, const char *preset, const ff_weights_match *match)
{
    const int64_t wrong = match->missing + match->misshapen, best = fit->match.missing + fit->match.misshapen;
    const bool first = fit->nearest == NULL;
    if (first || wrong < best || (wrong == best && match->surplus < fit->match.surplus)) {
        fit->nearest = preset;
        fit->match = *match;
        fit->num_fitting = 0;
    } else if (wrong > best || match->surplus > fit->match.surplus) {
        return;
    }
    if (wrong == 0 && fit->num_fitting < FF_FIT_PRESETS)
        fit->fitting[fit->num_fitting++] = preset;
}

/* The file's arrays; `openfold` says that they are not to be had (match_preset then takes NULL). */
static ff_status list_arrays(ff_ctx *ctx, const char *path, ff_parameters *have, bool *openfold)
{
    ff_weights_kind kind;
    FF_TRY(ff_weights_get_kind(ctx, path, &kind));
    *openfold = kind == FF_WEIGHTS_TORCH;
    return *openfold ? FF_OK : ff_weights_declare_as_in_file(ctx, have, path);
}

ff_status ff_weights_find_fit(ff_ctx *ctx, const char *path, ff_weights_fit *fit)
{
    ff_status status = FF_OK;
    bool openfold;
    ff_parameters have;
    memset(fit, 0, sizeof *fit);
    ff_parameters_init(&have);
    FF_TRY_DONE(list_arrays(ctx, path, &have, &openfold));
    for (int i = 0; ff_model_preset_name(i) != NULL; i++) {
        ff_weights_match match;
        FF_TRY_DONE(match_preset(ctx, ff_model_preset_name(i), openfold ? NULL : &have, path, &match));
        take(fit, ff_model_preset_name(i), &match);
    }
done:
    ff_parameters_destroy(&have);
    return status;
}

ff_status ff_weights_match_preset(ff_ctx *ctx, const char *path, const char *preset, ff_weights_match *match)
{
    bool openfold;
    ff_parameters have;
    ff_parameters_init(&have);
    ff_status status = list_arrays(ctx, path, &have, &openfold);
    if (status == FF_OK)
        status = match_preset(ctx, preset, openfold ? NULL : &have, path, match);
    ff_parameters_destroy(&have);
    return status;
}

void ff_weights_format_fit(const ff_weights_fit *fit, char *text, size_t bytes)
{
    const ff_weights_match *m = &fit->match;
    size_t n = 0;
    if (fit->num_fitting == 0) {
        snprintf(text, bytes, "none; nearest %s: %lld arrays missing, %lld of another shape, first %s", fit->nearest,
                 (long long)m->missing, (long long)m->misshapen, m->first);
        return;
    }
    for (int i = 0; i < fit->num_fitting && n < bytes; i++)
        n += (size_t)snprintf(text + n, bytes - n, "%s%s", i == 0 ? "" : ", ", fit->fitting[i]);
    if (m->surplus > 0 && n < bytes)
        snprintf(text + n, bytes - n, " (and %lld further arrays)", (long long)m->surplus);
}

/* ---- the preset of a file ---- */

/* The longest preset name that stands in a file's name as a whole word. */
static bool name_in_path(const char *path, char preset[FF_PRESET_NAME_BYTES])
{
    const char *slash = strrchr(path, '/'), *file = slash == NULL ? path : slash + 1;
    size_t best = 0;
    for (int i = 0; ff_model_preset_name(i) != NULL; i++) {
        const char *name = ff_model_preset_name(i);
        const size_t length = strlen(name);
        const char *at = strstr(file, name);
        if (at == NULL || length <= best || (at > file && at[-1] != '_' && at[-1] != '-' && at[-1] != '.'))
            continue;
        best = length;
        snprintf(preset, FF_PRESET_NAME_BYTES, "%s", name);
    }
    return best > 0;
}

static ff_status find_by_arrays(ff_ctx *ctx, const char *path, char preset[FF_PRESET_NAME_BYTES])
{
    ff_weights_fit fit;
    char text[512];
    FF_TRY(ff_weights_find_fit(ctx, path, &fit));
    if (fit.num_fitting == 0) {
        ff_weights_format_fit(&fit, text, sizeof text);
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s fits no preset (%s)", path, text);
    }
    snprintf(preset, FF_PRESET_NAME_BYTES, "%s", fit.fitting[0]);
    return FF_OK;
}

ff_status ff_weights_find_preset(ff_ctx *ctx, const char *path, char preset[FF_PRESET_NAME_BYTES])
{
    ff_weights_kind kind;
    ff_checkpoint_header header = {.step = 0};
    FF_TRY(ff_weights_get_kind(ctx, path, &kind));
    if (kind == FF_WEIGHTS_CHECKPOINT)
        FF_TRY(ff_checkpoint_read_header(ctx, path, &header));
    if (header.preset[0] != '\0') {
        snprintf(preset, FF_PRESET_NAME_BYTES, "%s", header.preset);
        return FF_OK;
    }
    if (name_in_path(path, preset)) {
        ff_weights_match match;
        FF_TRY(ff_weights_match_preset(ctx, path, preset, &match));
        if (match.missing + match.misshapen == 0)
            return FF_OK;
    }
    preset[0] = '\0';
    return find_by_arrays(ctx, path, preset);
}
