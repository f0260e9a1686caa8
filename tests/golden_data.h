/* golden_data.h - reference files of the data side (families data_parsers, data_raw, data_transforms, data_random): what a
 * runner gets, and how arrays are compared. One runner per kind of group; golden_check calls golden_data_run.
 *
 *     static ff_status run_fasta(golden_data *g, const char *group)            // group "fasta/one.fasta", `|` for `/`
 *     {
 *         read the file golden_data_path(g, ...), fill an ff_array_set `got`;
 *         golden_data_compare(g, group, &got, 0);                             // every data set below the group
 *     }
 */
#ifndef FF_TESTS_GOLDEN_DATA_H
#define FF_TESTS_GOLDEN_DATA_H

#include "io/arrays.h"
#include "tests/golden_judge.h"

typedef struct {
    ff_ctx *ctx;
    ff_hdf5_file *file;
    const char *data_root; /* folder of the input files, "../shared/data" */
    golden_report_fn report;
    void *report_arg;
    const char *path; /* of the file: other reference files lie next to it */
} golden_data;

/* A kind of group: `prefix` "fasta" serves fasta/one.fasta; a prefix without files below (depth 0) serves itself. */
typedef struct {
    const char *family, *prefix;
    int depth; /* 1: one case per group below the prefix; 0: the prefix itself is the case; -1: every group of the file */
    ff_status (*run)(golden_data *g, const char *group);
} golden_data_kind;

/* One table per source file, ended by a NULL family. */
extern const golden_data_kind golden_data_parser_kinds[];    /* golden_data_parsers.c: fasta, a3m, sto, hhr, ... */
extern const golden_data_kind golden_data_structure_kinds[]; /* golden_data_structures.c: mmcif, pdb */
extern const golden_data_kind golden_data_transform_kinds[]; /* golden_data_transforms.c: data_transforms, data_random */
extern const golden_data_kind golden_data_label_kinds[];     /* golden_data_labels.c */
extern const golden_data_kind golden_data_raw_kinds[];       /* golden_data_raw.c */

/** Whether the family is one of these. */
bool golden_data_knows(const char *family);
/** The cases ("fasta/one.fasta", ...) of an open file, in order; visit is called for each. Groups no kind serves are reported
 * as GOLDEN_UNKNOWN. */
ff_status golden_data_each_case(golden_data *g, const char *family, ff_hdf5_visit_fn visit, void *arg);
/** Run and judge one case. A failure that is not a comparison comes back as a status with its message in the context. */
ff_status golden_data_run(golden_data *g, const char *family, const char *group);

/* ---- for runners ---- */

/** The path of an input file: "a3m|x.a3m" below data_root ('|' for '/'). */
void golden_data_path(const golden_data *g, const char *name, char *path, size_t size);
/** An attribute of a group or a fallback. */
double golden_data_number(golden_data *g, const char *group, const char *name, double fallback);
/** Text attribute as a string the caller frees; NULL when absent. */
char *golden_data_text(golden_data *g, const char *group, const char *name);

/**
 * Compare every data set below `group` of the file with the array of that relative name in `got`: integers and texts exactly,
 * floats |got - want| <= tolerance * max(1, |want|); one report an array; a missing array or another shape fails.
 */
void golden_data_compare(golden_data *g, const char *group, const ff_array_set *got, double tolerance);
/** The same for one array (NULL = missing); integers are compared as numbers whatever their width. */
void golden_data_compare_array(golden_data *g, const char *group, const char *name, const ff_array *got, double tolerance);
/** Report a plain check. `format` says what was wrong. */
void golden_data_check(golden_data *g, const char *what, bool good, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
