/* comm.c - the process group over MPI; mpi.h appears in this file only.
 *
 * Contents: shards; group; exchange; agreement on failures.
 *
 * A rank that fails stops calling collectives and goes to ff_dap_agree, which tells everybody with TAG_FAILED; ranks waiting
 * in an exchange look for that message while they wait, so nobody waits for ever. */
#include "dap/comm.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FF_HAVE_MPI
#include <mpi.h>
#endif

int64_t ff_shard_length(int64_t n, int rank, int size) { return n / size + (rank < n % size ? 1 : 0); }
int64_t ff_shard_first(int64_t n, int rank, int size) { return n / size * rank + (rank < n % size ? rank : n % size); }

struct ff_comm {
    int rank, size;
    bool agreed_failure; /* everybody knows that the run failed */
#ifdef FF_HAVE_MPI
    MPI_Comm mpi;
#endif
};

int ff_dap_rank(const ff_ctx *ctx) { return ctx->comm == NULL ? 0 : ctx->comm->rank; }
int ff_dap_size(const ff_ctx *ctx) { return ctx->comm == NULL ? 1 : ctx->comm->size; }

/* Number of ranks the launcher started, 0 when there is none. */
static int launched_ranks(void)
{
    const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "MPI_LOCALNRANKS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && atoi(value) > 0)
            return atoi(value);
    }
    return 0;
}

#ifndef FF_HAVE_MPI

ff_status ff_dap_init(ff_ctx *ctx, int *argc, char ***argv, int dap_size)
{
    (void)argc, (void)argv;
    ctx->comm = NULL;
    if (dap_size > 1 || launched_ranks() > 1)
        return FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "built without MPI: install libopenmpi-dev and build again, or run one process");
    return FF_OK;
}
void ff_dap_finalize(ff_ctx *ctx) { (void)ctx; }
ff_status ff_dap_agree(ff_ctx *ctx) { return ctx->status; }
ff_exchange_handle *ff_exchange_begin(ff_ctx *ctx, const ff_exchange *x)
{
    (void)ctx, (void)x;
    return NULL;
}
void ff_exchange_poll(ff_ctx *ctx, ff_exchange_handle *handle) { (void)ctx, (void)handle; }
ff_status ff_exchange_end(ff_ctx *ctx, ff_exchange_handle *handle)
{
    (void)handle;
    return ctx->status;
}

#else

enum { TAG_DATA = 1, TAG_OK, TAG_FAILED, CHUNK_BYTES = 1 << 30 };

static ff_status check(ff_ctx *ctx, int code, const char *what)
{
    if (code == MPI_SUCCESS)
        return FF_OK;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    return FF_FAIL(ctx, FF_ERR_COMM, "%s failed: %.*s", what, length, text);
}

ff_status ff_dap_init(ff_ctx *ctx, int *argc, char ***argv, int dap_size)
{
    ctx->comm = NULL;
    const int launched = launched_ranks();
    if (dap_size <= 1 && launched <= 1)
        return FF_OK;
    if (dap_size > 1 && launched == 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "--dap %d needs %d processes: start with mpirun -np %d", dap_size, dap_size, dap_size);
    int provided = 0, started = 0;
    MPI_Initialized(&started);
    if (!started)
        FF_TRY(check(ctx, MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread"));
    ff_comm *comm = calloc(1, sizeof *comm);
    if (comm == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the process group");
    ctx->comm = comm;
    comm->size = 1;
    FF_TRY(check(ctx, MPI_Comm_dup(MPI_COMM_WORLD, &comm->mpi), "MPI_Comm_dup"));
    MPI_Comm_set_errhandler(comm->mpi, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm->mpi, &comm->rank);
    MPI_Comm_size(comm->mpi, &comm->size);
    if (comm->size != (dap_size < 1 ? 1 : dap_size))
        return FF_FAIL(ctx, FF_ERR_ARG, "started as %d processes, but --dap is %d: the two must be equal", comm->size, dap_size);
    return FF_OK;
}

/* After a failure messages may be left in flight: take them in until every rank has come here. */
static void drain(ff_comm *comm)
{
    MPI_Request barrier;
    int done = 0;
    if (MPI_Ibarrier(comm->mpi, &barrier) != MPI_SUCCESS)
        return;
    while (!done) {
        int waiting = 0, bytes = 0;
        MPI_Status status;
        if (MPI_Test(&barrier, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm->mpi, &waiting, &status);
        if (waiting) {
            MPI_Get_count(&status, MPI_BYTE, &bytes);
            void *sink = malloc((size_t)bytes + 1);
            if (sink == NULL)
                return;
            MPI_Recv(sink, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm->mpi, MPI_STATUS_IGNORE);
            free(sink);
        }
        sched_yield();
    }
}

void ff_dap_finalize(ff_ctx *ctx)
{
    ff_comm *comm = ctx->comm;
    int started = 0, ended = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    if (comm != NULL && started && !ended) {
        if (comm->agreed_failure)
            drain(comm);
        MPI_Comm_free(&comm->mpi);
        MPI_Finalize();
    }
    free(comm);
    ctx->comm = NULL;
}

/* ---- exchange ---- */

struct ff_exchange_handle {
    int count;
    MPI_Request requests[];
};

static int64_t chunks_of(size_t bytes) { return (int64_t)((bytes + CHUNK_BYTES - 1) / CHUNK_BYTES); }

ff_exchange_handle *ff_exchange_begin(ff_ctx *ctx, const ff_exchange *x)
{
    ff_comm *comm = ctx->comm;
    if (comm == NULL || ctx->status != FF_OK)
        return NULL;
    int64_t most = 0;
    for (int r = 0; r < comm->size; r++)
        most += r == comm->rank ? 0 : chunks_of(x->send_bytes[r]) + chunks_of(x->receive_bytes[r]);
    ff_exchange_handle *handle = malloc(sizeof *handle + (size_t)most * sizeof(MPI_Request));
    if (handle == NULL) {
        FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld messages", (long long)most);
        return NULL;
    }
    handle->count = 0;
    for (int step = 1; step < comm->size; step++) { /* neighbours first, different for every rank */
        const int from = (comm->rank - step + comm->size) % comm->size;
        for (size_t at = 0; at < x->receive_bytes[from]; at += CHUNK_BYTES) {
            const size_t left = x->receive_bytes[from] - at;
            (void)check(ctx, MPI_Irecv((char *)x->receive[from] + at, (int)(left < CHUNK_BYTES ? left : CHUNK_BYTES), MPI_BYTE,
                                       from, TAG_DATA, comm->mpi, &handle->requests[handle->count++]),
                        "MPI_Irecv");
        }
    }
    for (int step = 1; step < comm->size; step++) {
        const int to = (comm->rank + step) % comm->size;
        for (size_t at = 0; at < x->send_bytes[to]; at += CHUNK_BYTES) {
            const size_t left = x->send_bytes[to] - at;
            (void)check(ctx, MPI_Isend((const char *)x->send[to] + at, (int)(left < CHUNK_BYTES ? left : CHUNK_BYTES), MPI_BYTE, to,
                                       TAG_DATA, comm->mpi, &handle->requests[handle->count++]),
                        "MPI_Isend");
        }
    }
    const size_t own = x->send_bytes[comm->rank];
    assert(own == x->receive_bytes[comm->rank]);
    if (own > 0 && x->receive[comm->rank] != x->send[comm->rank])
        memcpy(x->receive[comm->rank], x->send[comm->rank], own);
    return handle;
}

/* A failure message from another rank ends the wait. */
static bool failed_elsewhere(ff_ctx *ctx)
{
    int waiting = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, TAG_FAILED, ctx->comm->mpi, &waiting, &status); /* left in place for ff_dap_agree */
    if (waiting)
        FF_FAIL(ctx, FF_ERR_COMM, "rank %d failed", status.MPI_SOURCE);
    return waiting != 0;
}

void ff_exchange_poll(ff_ctx *ctx, ff_exchange_handle *handle)
{
    int done = 0;
    if (handle != NULL && ctx->status == FF_OK)
        (void)check(ctx, MPI_Testall(handle->count, handle->requests, &done, MPI_STATUSES_IGNORE), "MPI_Testall");
}

ff_status ff_exchange_end(ff_ctx *ctx, ff_exchange_handle *handle)
{
    if (handle == NULL)
        return ctx->status;
    enum { LOOK_EVERY = 1024 };
    int done = 0;
    for (int64_t spins = 0; !done && ctx->status == FF_OK; spins++) {
        if (check(ctx, MPI_Testall(handle->count, handle->requests, &done, MPI_STATUSES_IGNORE), "MPI_Testall") != FF_OK)
            break;
        if (!done && spins % LOOK_EVERY == LOOK_EVERY - 1) {
            if (failed_elsewhere(ctx))
                break;
            sched_yield();
        }
    }
    if (!done) /* given up: receives are cancelled, sends are taken in by the others' drain */
        for (int i = 0; i < handle->count; i++)
            if (handle->requests[i] != MPI_REQUEST_NULL) {
                MPI_Cancel(&handle->requests[i]);
                MPI_Request_free(&handle->requests[i]);
            }
    free(handle);
    return ctx->status;
}

/* ---- agreement ---- */

typedef struct {
    int status;
    char message[FF_MESSAGE_BYTES];
} report;

ff_status ff_dap_agree(ff_ctx *ctx)
{
    ff_comm *comm = ctx->comm;
    if (comm == NULL || comm->size == 1 || comm->agreed_failure)
        return ctx->status;
    report mine = {ctx->status, ""}, other;
    memcpy(mine.message, ctx->message, sizeof mine.message);
    const int tag = ctx->status == FF_OK ? TAG_OK : TAG_FAILED;
    MPI_Request *sends = malloc((size_t)comm->size * sizeof *sends);
    if (sends == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the agreement of ranks");
    for (int r = 0; r < comm->size; r++)
        if (r == comm->rank)
            sends[r] = MPI_REQUEST_NULL;
        else
            MPI_Isend(&mine, (int)sizeof mine, MPI_BYTE, r, tag, comm->mpi, &sends[r]);
    /* The first failure that is not an echo of another rank's, lowest rank first. */
    int culprit = mine.status != FF_OK && mine.status != FF_ERR_COMM ? comm->rank : -1, any = mine.status != FF_OK;
    char text[FF_MESSAGE_BYTES] = "";
    ff_status code = FF_ERR_COMM;
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank)
            continue;
        MPI_Status status;
        int waiting = 0;
        while (!waiting) { /* either tag */
            MPI_Iprobe(r, TAG_OK, comm->mpi, &waiting, &status);
            if (!waiting)
                MPI_Iprobe(r, TAG_FAILED, comm->mpi, &waiting, &status);
            if (!waiting)
                sched_yield();
        }
        MPI_Recv(&other, (int)sizeof other, MPI_BYTE, r, status.MPI_TAG, comm->mpi, MPI_STATUS_IGNORE);
        if (other.status == FF_OK)
            continue;
        any = 1;
        if (other.status != FF_ERR_COMM && (culprit < 0 || r < culprit)) {
            culprit = r;
            code = (ff_status)other.status;
            memcpy(text, other.message, sizeof text);
        }
    }
    MPI_Waitall(comm->size, sends, MPI_STATUSES_IGNORE);
    free(sends);
    if (any) {
        comm->agreed_failure = true;
        if (culprit != comm->rank && culprit >= 0) {
            ff_context_clear(ctx);
            FF_FAIL(ctx, code, "rank %d: %.900s", culprit, text);
        } else if (ctx->status == FF_OK) {
            FF_FAIL(ctx, FF_ERR_COMM, "another rank failed");
        }
    }
    return ctx->status;
}

#endif

ff_status ff_exchange_run(ff_ctx *ctx, const ff_exchange *x)
{
    ff_exchange_handle *handle = ff_exchange_begin(ctx, x);
    return ff_exchange_end(ctx, handle);
}
