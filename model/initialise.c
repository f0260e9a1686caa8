#include "model/initialise.h"

#include <math.h>
#include <string.h>

#include "core/random.h"

/* Standard deviation of a standard normal cut at -2 and 2. */
static const double TRUNCATED_STDDEV = 0.87962566103423978;

typedef enum { CONSTANT, TRUNCATED_NORMAL, NORMAL, UNIFORM } distribution;

typedef struct {
    distribution kind;
    double value; /* of the constant; of the others the standard deviation */
} rule;

/* Whether the word of `length` bytes at `text` is in a NULL-terminated list. */
static bool in_list(const char *const *list, const char *text, size_t length)
{
    for (; *list != NULL; list++)
        if (strlen(*list) == length && memcmp(*list, text, length) == 0)
            return true;
    return false;
}

/* Arrays of these scopes have the block as leading axis. */
static bool is_stacked(const char *name)
{
    return strstr(name, "evoformer_iteration/") != NULL || strstr(name, "extra_msa_stack/") != NULL ||
           strstr(name, "/__layer_stack_no_") != NULL;
}

/* Product of the first `n` lengths. */
static double product(const int64_t *shape, int n)
{
    double result = 1;
    for (int i = 0; i < n; i++)
        result *= (double)shape[i];
    return result;
}

/* Weights of a linear layer [fan_in, output] in the scope `layer`. */
static rule linear_rule(const char *layer, size_t length, double fan_in)
{
    static const char *const zero[] = {
        "transition2", "output_projection", "left_gate",    "right_gate",  "gating_linear", "gate", "affine_update",
        "resblock2",   "resblock2_1",       "transition_2", "half_logits", "logits",        NULL};
    static const char *const before_relu[] = {"transition1",
                                              "transition",
                                              "transition_1",
                                              "resblock1",
                                              "resblock1_1",
                                              "act_0",
                                              "act_1",
                                              "template_single_embedding",
                                              "template_projection",
                                              "embedding2d",
                                              NULL};
    if (in_list(zero, layer, length))
        return (rule){CONSTANT, 0};
    return (rule){TRUNCATED_NORMAL, sqrt((in_list(before_relu, layer, length) ? 2 : 1) / fan_in)};
}

/* The rule of an array by its name; false when there is none. */
static bool find_rule(const ff_parameter *p, rule *r)
{
    static const char *const zero[] = {"offset", "gating_w", "output_w", "output_b", NULL};
    static const char *const one[] = {"scale", "gating_b", NULL};
    static const char *const projection[] = {"query_w", "key_w", "value_w", NULL};
    static const char *const open_gate[] = {"left_gate", "right_gate", "gating_linear", "gate", NULL};
    const int lead = is_stacked(p->name) ? 1 : 0, ndim = p->ndim - lead;
    const int64_t *shape = p->shape + lead;
    const char *slash = strrchr(p->name, '/'), *leaf = slash == NULL ? p->name : slash + 1;
    const char *layer = slash == NULL ? p->name : slash;
    while (layer > p->name && layer[-1] != '/')
        layer--;
    const size_t length = slash == NULL ? 0 : (size_t)(slash - layer), leaf_length = strlen(leaf);
    if (in_list(zero, leaf, leaf_length)) {
        *r = (rule){CONSTANT, 0};
    } else if (in_list(one, leaf, leaf_length)) {
        *r = (rule){CONSTANT, 1};
    } else if (strcmp(leaf, "trainable_point_weights") == 0) {
        *r = (rule){CONSTANT, log(exp(1.0) - 1)}; /* softplus gives 1 */
    } else if (strcmp(leaf, "bias") == 0) {
        *r = (rule){CONSTANT, in_list(open_gate, layer, length) ? 1 : 0};
    } else if (strcmp(leaf, "feat_2d_weights") == 0 && ndim == 2) {
        *r = (rule){NORMAL, sqrt(1 / (double)shape[0])};
    } else if (in_list(projection, leaf, leaf_length) && ndim >= 2) {
        const double field = product(shape, ndim - 2);
        *r = (rule){UNIFORM, sqrt(2 / (field * (double)(shape[ndim - 2] + shape[ndim - 1])))};
    } else if (strcmp(leaf, "weights") == 0 && ndim == 2) {
        *r = linear_rule(layer, length, (double)shape[0]);
    } else {
        return false;
    }
    return true;
}

/* FNV-1a: the stream of an array hangs on its name only. */
static uint64_t hash(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return h;
}

static float draw(const rule *r, ff_random_key key, uint64_t i, uint64_t size)
{
    if (r->kind == UNIFORM) /* variance (2 a)^2 / 12 */
        return (float)(r->value * sqrt(3.0) * (2 * (double)ff_random_uniform(key, i) - 1));
    float x = ff_random_normal(key, i);
    if (r->kind == NORMAL)
        return (float)(r->value * x);
    for (uint64_t again = 1; fabsf(x) > 2; again++)
        x = ff_random_normal(key, i + again * size);
    return (float)(r->value / TRUNCATED_STDDEV * x);
}

ff_status ff_model_initialise(ff_ctx *ctx, ff_parameters *parameters, uint64_t seed)
{
    for (int64_t k = 0; k < parameters->count; k++) {
        const ff_parameter *p = &parameters->items[k];
        float *values = parameters->values + p->offset;
        const ff_random_key key = {seed, ff_random_stream(0, hash(p->name))};
        rule r;
        if (!find_rule(p, &r))
            return FF_FAIL(ctx, FF_ERR_ARG, "no rule says how array %s starts", p->name);
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < p->size; i++)
            values[i] = r.kind == CONSTANT ? (float)r.value : draw(&r, key, (uint64_t)i, (uint64_t)p->size);
    }
    return FF_OK;
}
