/* golden_case.h - one case of a reference file: what goes in, what is wanted, and what a program produced.
 *
 * Contents: arrays; the case; getters; results; parameters; the runner; reading and judging.
 *
 * main_golden_check.c reads cases (golden_case.c), golden_run (golden_ops.c) computes them, golden_judge.c compares. A
 * runner looks up inputs, parameters and cotangents, and stores results by the names of the reference arrays:
 *
 *     const golden_array *msa = golden_input(ctx, c, "msa");
 *     golden_store_output(c, "out", ff_data(out), out->ndim, out->shape);
 *     golden_store_grad_input(c, "msa", ff_data(grad), grad->ndim, grad->shape);
 *     golden_store_parameter_grads(c, "", &parameters);
 *
 * Everything a case holds is in host memory, float32; integer arrays are converted. */
#ifndef FF_TESTS_GOLDEN_CASE_H
#define FF_TESTS_GOLDEN_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/context.h"
#include "tensor/parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- arrays ---- */

typedef struct {
    char *name; /* path below its group: "msa", "attention/query_w" */
    int ndim;   /* 0 = a single number */
    int64_t shape[FF_MAX_DIMS];
    int64_t size; /* elements; 1 for ndim 0 */
    float *data;  /* [size], 64-byte aligned, owned by the case */
    bool integer; /* the file holds integers */
} golden_array;

typedef struct {
    golden_array *items;
    int64_t count, capacity;
} golden_list;

typedef struct {
    char *name;
    char *text;   /* NULL for a number */
    double value; /* first element of a numeric attribute */
} golden_attribute;

/* ---- the case ---- */

typedef struct golden_case {
    char *file;   /* as given on the command line */
    char *family; /* root attribute `family` */
    char *name;   /* group name: "row_tiny" */
    char *op;     /* attribute `op` */
    golden_attribute *attributes;
    int64_t num_attributes;

    golden_list inputs, params, cotangents; /* from the file, for the runner */
    golden_list want_outputs;               /* output/ */
    golden_list want_grads;                 /* grad/ with its prefix: "input/msa", "param/..." */
    golden_list want_reduced;               /* grad_reduced/: "param/.../sum_axis0", "param/.../l2" */
    golden_list got_outputs;                /* stored by the runner; names may carry a variant "inference:msa" */
    golden_list got_grads;                  /* "input/msa", "param/..." */
    char *variant;                          /* golden_set_variant; NULL = the first run */
    const char *weights;                    /* --weights: a weight file for cases without parameters; NULL = none */
    char *no_gradients;                     /* golden_lack_gradients: why; NULL = gradients are there */
    bool out_of_memory;                     /* a store failed; the judge reports it */
} golden_case;

/* ---- getters ---- */

/** NULL when the list has no array of this name. */
const golden_array *golden_list_find(const golden_list *list, const char *name);

/** An array that has to be there: NULL and FF_ERR_FORMAT in ctx (naming file, case and array) when it is not. */
const golden_array *golden_input(ff_ctx *ctx, const golden_case *c, const char *name);
const golden_array *golden_param(ff_ctx *ctx, const golden_case *c, const char *name);
/** NULL when absent, without an error: an output without a cotangent is an intermediate value. */
const golden_array *golden_cotangent(const golden_case *c, const char *name);
/** NULL when absent, without an error. */
const golden_array *golden_find_input(const golden_case *c, const char *name);
const golden_array *golden_find_param(const golden_case *c, const char *name);
/** Whether the file has this output, or this gradient ("input/msa", in full or as sums). */
bool golden_wants_output(const golden_case *c, const char *name);
bool golden_wants_grad(const golden_case *c, const char *name);

/** Attributes of the case. */
bool golden_has_attribute(const golden_case *c, const char *name);
double golden_number(const golden_case *c, const char *name, double fallback);
int64_t golden_int(const golden_case *c, const char *name, int64_t fallback);
const char *golden_text(const golden_case *c, const char *name, const char *fallback);

/* ---- results ---- */

/* Each copies `shape`'s worth of floats at once. A name the file does not have is kept and not judged. Every array the file
 * has under output/ and grad/ must be stored (intermediate values too), or it counts as failed; the one exception is
 * output/torsion_well_conditioned, a marker for the judge. */
void golden_store_output(golden_case *c, const char *name, const float *data, int ndim, const int64_t *shape);
void golden_store_grad_input(golden_case *c, const char *name, const float *data, int ndim, const int64_t *shape);
void golden_store_grad_param(golden_case *c, const char *name, const float *data, int ndim, const int64_t *shape);

/** From here on results belong to a second way of computing the same case ("inference", "checkpointed"): whatever is
 * stored again is judged again, under the same rules; what is not, is not missed. NULL = back to the first. */
void golden_set_variant(golden_case *c, const char *variant);

/** The backend has no backward for this case (`reason` names the table entry): its gradients count as the judge counts
 * unknown operations. */
void golden_lack_gradients(golden_case *c, const char *reason);

/* ---- parameters ---- */

/**
 * All of param/ as one block with gradients, by the names below `scope` ("" = as in the file; "evoformer" puts that in
 * front). The caller destroys it with ff_parameters_destroy.
 */
ff_status golden_build_parameters(ff_ctx *ctx, const golden_case *c, const char *scope, ff_parameters *p);
/** Store the gradient of every parameter of `p` (built with `scope`) under its name in the file. */
void golden_store_parameter_grads(golden_case *c, const char *scope, const ff_parameters *p);

/* ---- the runner: golden_ops.c ---- */

/**
 * Compute outputs and gradients of a case with ctx's kernels, pool and communicator; the runner makes its own tape.
 * Random numbers are off. Under DAP every rank stores the whole result (gathered, parameter gradients summed).
 * @return FF_OK; FF_ERR_UNSUPPORTED for a family, an operation or a table entry that does not exist (the caller decides
 *         whether that is a failure); any other code is a failed case.
 */
ff_status golden_run(ff_ctx *ctx, const char *family, const char *op, golden_case *c);

/* ---- reading: golden_case.c ---- */

/** Names of the cases of a file, in the file's order by name. `names` and its strings are freed by golden_names_free. */
typedef struct {
    char *family; /* root attribute */
    char **names;
    int64_t count;
} golden_names;

/** @return FF_ERR_IO (missing), FF_ERR_FORMAT (truncated, not HDF5, no root attribute `family`): one clear line in ctx. */
ff_status golden_names_read(ff_ctx *ctx, golden_names *names, const char *path);
void golden_names_free(golden_names *names);
ff_status golden_case_read(ff_ctx *ctx, golden_case *c, const char *path, const char *family, const char *name);
/** Free whatever the case holds; a zeroed case is fine. */
void golden_case_free(golden_case *c);

/** Add a copy of an array (data NULL = zeros) to a list: for the reader and for tests that make cases by hand. */
ff_status golden_list_add(golden_list *list, const char *name, int ndim, const int64_t *shape, const float *data);
void golden_list_free(golden_list *list);
ff_status golden_add_number(golden_case *c, const char *name, double value);
ff_status golden_add_text(golden_case *c, const char *name, const char *text);

#ifdef __cplusplus
}
#endif
#endif
