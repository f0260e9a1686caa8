/* status.h - result codes and the macros that pass them up.
 *
 * Every function that can fail returns ff_status; the message goes into the context where the failure is found, and
 * callers pass the status on without touching it. */
#ifndef FF_CORE_STATUS_H
#define FF_CORE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    FF_OK = 0,
    FF_ERR_ARG,         /* a wrong argument or option */
    FF_ERR_SHAPE,       /* shapes that do not fit together */
    FF_ERR_MEM,         /* out of memory, or over the memory budget */
    FF_ERR_IO,          /* the operating system refused (open, read, write) */
    FF_ERR_FORMAT,      /* a file's content is not what it should be */
    FF_ERR_UNSUPPORTED, /* not built, or not available on this machine */
    FF_ERR_DEVICE,      /* the accelerator failed */
    FF_ERR_COMM,        /* communication between ranks failed */
    FF_ERR_CANCELLED    /* stopped on request: a signal, ... */
} ff_status;

/** Short upper-case name of a code ("SHAPE"); never NULL. */
const char *ff_status_name(ff_status status);

/** Return the failing status of `call` at once; for places that hold nothing. */
#define FF_TRY(call)                                                                                                   \
    do {                                                                                                               \
        ff_status ff_try_status_ = (call);                                                                             \
        if (ff_try_status_ != FF_OK)                                                                                   \
            return ff_try_status_;                                                                                     \
    } while (0)

/** On failure set the local `status` and go to the label `done`, the function's single clean-up exit. */
#define FF_TRY_DONE(call)                                                                                              \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != FF_OK)                                                                                           \
            goto done;                                                                                                 \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
