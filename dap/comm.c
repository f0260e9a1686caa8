/* comm.c - the process group over MPI; mpi.h appears in this file only.
 *
 * Contents: shards; group; exchange; failure.
 *
 * Failure. Data and agreement travel on two communicators. A rank that fails sends TAG_FAILED to all in ff_dap_agree;
 * ranks that wait in an exchange look for that message meanwhile. Whoever knows of a failure drains once: it cancels its
 * receives, takes in whatever the others still send, and goes on until its own sends are taken in too and all ranks have
 * come. Buffers are in use until then, and nobody is left waiting. */
#include "dap/comm.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "tensor/plan.h"

#ifdef FF_HAVE_MPI
#include <mpi.h>
#include <sched.h>
#endif

int64_t ff_shard_length(int64_t n, int rank, int size) { return n / size + (rank < n % size ? 1 : 0); }
int64_t ff_shard_first(int64_t n, int rank, int size) { return n / size * rank + (rank < n % size ? rank : n % size); }

struct ff_comm {
    int rank, size;          /* of all processes: rank = data rank * dap_size + DAP rank */
    int data_size, dap_size; /* data_size * dap_size = size */
    bool planned;  /* from ff_dap_init_plan: there are no other ranks */
    bool own_only; /* see comm.h */
    double bytes_sent;
    ff_exchange_part *parts; /* [size] */
    bool blocking, narrow;
    double link_latency_s, link_bytes_per_s; /* 0 bytes per second = no artificial link */
    bool tracing;
    ff_dap_event *events;
    int64_t num_events, events_capacity;
#ifdef FF_HAVE_MPI
    MPI_Comm data, control;
    bool heard;   /* the failure of this rank only echoes another rank's */
    bool drained; /* everybody knows that the run failed, no message is under way */
    ff_exchange_handle *live, *spare; /* begun and not ended, newest first; for reuse */
    double link_free_s;               /* when the artificial link has sent what it has */
#endif
};

/* ---- group ---- */

int ff_dap_rank(const ff_ctx *ctx) { return ctx->comm == NULL ? 0 : ctx->comm->rank % ctx->comm->dap_size; }
int ff_dap_size(const ff_ctx *ctx) { return ctx->comm == NULL ? 1 : ctx->comm->dap_size; }
int ff_data_rank(const ff_ctx *ctx) { return ctx->comm == NULL ? 0 : ctx->comm->rank / ctx->comm->dap_size; }
int ff_data_size(const ff_ctx *ctx) { return ctx->comm == NULL ? 1 : ctx->comm->data_size; }
double ff_dap_bytes_sent(const ff_ctx *ctx) { return ctx->comm == NULL ? 0 : ctx->comm->bytes_sent; }
void ff_comm_set_own_only(ff_ctx *ctx, bool own_only) { ctx->comm->own_only = own_only; }
bool ff_comm_own_only(const ff_ctx *ctx) { return ctx->comm->own_only; }
ff_exchange_part *ff_exchange_parts(ff_ctx *ctx) { return ctx->comm->parts; }

ff_group ff_comm_group(const ff_ctx *ctx, ff_group_kind kind)
{
    const ff_comm *c = ctx->comm;
    if (c == NULL)
        return (ff_group){0, 1, 0, 1};
    const int dap_rank = c->rank % c->dap_size, data_rank = c->rank / c->dap_size;
    return kind == FF_GROUP_DAP    ? (ff_group){dap_rank, c->dap_size, data_rank * c->dap_size, 1}
           : kind == FF_GROUP_DATA ? (ff_group){data_rank, c->data_size, dap_rank, c->dap_size}
                                   : (ff_group){c->rank, c->size, 0, 1};
}

void ff_dap_set_link(ff_ctx *ctx, double latency_s, double bytes_per_s)
{
    if (ctx->comm == NULL)
        return;
    ctx->comm->link_latency_s = latency_s;
    ctx->comm->link_bytes_per_s = bytes_per_s;
}

void ff_dap_trace(ff_ctx *ctx, bool on)
{
    if (ctx->comm == NULL)
        return;
    ctx->comm->tracing = on;
    if (on)
        ctx->comm->num_events = 0;
}

void ff_dap_set_blocking(ff_ctx *ctx, bool blocking)
{
    if (ctx->comm != NULL)
        ctx->comm->blocking = blocking;
}

void ff_dap_set_wire(ff_ctx *ctx, ff_dtype dtype)
{
    if (ctx->comm != NULL)
        ctx->comm->narrow = dtype == FF_DTYPE_BF16;
}

bool ff_comm_narrow(const ff_ctx *ctx) { return ctx->comm->narrow; }
bool ff_comm_blocking(const ff_ctx *ctx) { return ctx->comm->blocking; }
int64_t ff_dap_num_events(const ff_ctx *ctx) { return ctx->comm == NULL ? 0 : ctx->comm->num_events; }
const ff_dap_event *ff_dap_get_event(const ff_ctx *ctx, int64_t index) { return &ctx->comm->events[index]; }

double ff_dap_event_exposed(const ff_dap_event *e)
{
    const double from = e->wait_s > e->posted_s ? e->wait_s : e->posted_s;
    return e->end_s > from ? e->end_s - from : 0;
}

static void destroy(ff_ctx *ctx)
{
    free(ctx->comm->events);
    free(ctx->comm->parts);
    free(ctx->comm);
    ctx->comm = NULL;
}

static ff_status create(ff_ctx *ctx, int rank, int data_size, int dap_size)
{
    const int size = data_size * dap_size;
    ff_comm *comm = calloc(1, sizeof *comm);
    if (comm != NULL)
        comm->parts = calloc((size_t)size, sizeof *comm->parts);
    if (comm == NULL || comm->parts == NULL) {
        free(comm);
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a group of %d processes", size);
    }
    comm->rank = rank;
    comm->size = size;
    comm->data_size = data_size;
    comm->dap_size = dap_size;
    ctx->comm = comm;
    return FF_OK;
}

ff_status ff_dap_init_plan(ff_ctx *ctx, int rank, int size)
{
    if (size < 1 || rank < 0 || rank >= size)
        return FF_FAIL(ctx, FF_ERR_ARG, "there is no rank %d among %d", rank, size);
    FF_TRY(create(ctx, rank, 1, size));
    ctx->comm->planned = true;
    return FF_OK;
}

/* How many processes the launcher started; 0 when there is none, -1 when it does not say. */
static int launched_processes(void)
{
    const char *const counts[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const char *value = getenv(counts[i]);
        if (value != NULL && atoi(value) > 0)
            return atoi(value);
    }
    if (getenv("PMIX_RANK") == NULL && getenv("PMI_RANK") == NULL)
        return 0;
    const char *step = getenv("SLURM_STEP_NUM_TASKS"); /* srun with PMIx */
    return step != NULL && atoi(step) > 0 ? atoi(step) : -1;
}

/* What every exchange does before messages: count and record. */
static void count_bytes(ff_ctx *ctx, const ff_group *group, const char *name, bool backward, double bytes_moved)
{
    ff_comm *comm = ctx->comm;
    double sent = 0;
    for (int r = 0; r < group->size; r++)
        sent += r == group->rank ? 0 : (double)comm->parts[r].send_bytes;
    ff_plan_add(ctx, name, backward, 0, bytes_moved, 0, sent);
    if (ff_computing(ctx))
        comm->bytes_sent += sent;
}

ff_status ff_dap_init(ff_ctx *ctx, int *argc, char ***argv, int dap_size)
{
    return ff_dap_init_grid(ctx, argc, argv, 1, dap_size);
}

#ifndef FF_HAVE_MPI

ff_status ff_dap_init_grid(ff_ctx *ctx, int *argc, char ***argv, int data_size, int dap_size)
{
    (void)argc, (void)argv;
    ctx->comm = NULL;
    if (data_size > 1 || dap_size > 1 || launched_processes() > 1)
        return FF_FAIL(ctx, FF_ERR_UNSUPPORTED,
                       "several processes need MPI, which this program was built without: install libopenmpi-dev and build again");
    return FF_OK;
}

void ff_dap_finalize(ff_ctx *ctx)
{
    if (ctx->comm != NULL)
        destroy(ctx);
}

ff_status ff_dap_agree(ff_ctx *ctx) { return ctx->status; }

ff_exchange_handle *ff_exchange_begin(ff_ctx *ctx, const ff_group *group, const char *name, bool backward, double bytes_moved)
{
    if (ctx->status != FF_OK)
        return NULL;
    count_bytes(ctx, group, name, backward, bytes_moved);
    if (ff_computing(ctx))
        FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "a group for plan mode cannot exchange anything");
    return NULL;
}

void ff_dap_poll(ff_ctx *ctx) { (void)ctx; }

ff_status ff_exchange_end(ff_ctx *ctx, ff_exchange_handle *handle)
{
    (void)handle;
    return ctx->status;
}

#else

enum { TAG_DATA = 1, TAG_STAMP, TAG_OK, TAG_FAILED };
enum { CHUNK_BYTES = 1 << 30 }; /* MPI counts are ints */

struct ff_exchange_handle {
    ff_exchange_handle *next;
    int num_receives, count, capacity;
    int num_stamps;   /* 0, or the members of the group: when each began; stamps lie behind the requests */
    bool done, timed; /* all messages are through; done_s is known */
    ff_dap_event event;
    MPI_Request requests[]; /* receives, then sends */
};

static double *stamps_of(ff_exchange_handle *h)
{
    return (double *)(h->requests + h->capacity + h->capacity % 2); /* requests are pointers or ints: even many keep it aligned */
}

static ff_status check(ff_ctx *ctx, int code, const char *what)
{
    if (code == MPI_SUCCESS)
        return FF_OK;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    return FF_FAIL(ctx, FF_ERR_COMM, "%s failed: %.*s", what, length, text);
}

static ff_status join(ff_ctx *ctx)
{
    ff_comm *comm = ctx->comm;
    comm->data = comm->control = MPI_COMM_NULL;
    FF_TRY(check(ctx, MPI_Comm_dup(MPI_COMM_WORLD, &comm->data), "MPI_Comm_dup"));
    FF_TRY(check(ctx, MPI_Comm_dup(MPI_COMM_WORLD, &comm->control), "MPI_Comm_dup"));
    MPI_Comm_set_errhandler(comm->data, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(comm->control, MPI_ERRORS_RETURN);
    return FF_OK;
}

ff_status ff_dap_init_grid(ff_ctx *ctx, int *argc, char ***argv, int data_size, int dap_size)
{
    ctx->comm = NULL;
    if (data_size < 1 || dap_size < 1)
        return FF_FAIL(ctx, FF_ERR_ARG, "a grid of %d x %d processes cannot be", data_size, dap_size);
    const int launched = launched_processes(), wanted = data_size * dap_size;
    if (wanted == 1 && launched >= 0 && launched <= 1)
        return FF_OK;
    if (launched == 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "%d x %d (data parallel x DAP) needs %d processes: start with mpirun -np %d", data_size,
                       dap_size, wanted, wanted);
    int provided = 0, started = 0, rank = 0, size = 1;
    MPI_Initialized(&started);
    if (!started)
        FF_TRY(check(ctx, MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread"));
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const bool fits = size == wanted;
    FF_TRY(create(ctx, rank, fits ? data_size : 1, fits ? dap_size : size));
    FF_TRY(join(ctx));
    if (!fits)
        return FF_FAIL(ctx, FF_ERR_ARG, "started as %d processes, but %d x %d (data parallel x DAP) are %d: the two must be equal",
                       size, data_size, dap_size, wanted);
    return FF_OK;
}

void ff_dap_finalize(ff_ctx *ctx)
{
    ff_comm *comm = ctx->comm;
    int ended = 0;
    if (comm == NULL)
        return;
    if (!comm->planned) {
        (void)ff_dap_agree(ctx); /* nobody leaves while another rank could wait for it */
        MPI_Finalized(&ended);
        if (!ended) {
            if (comm->data != MPI_COMM_NULL)
                MPI_Comm_free(&comm->data);
            if (comm->control != MPI_COMM_NULL)
                MPI_Comm_free(&comm->control);
            MPI_Finalize();
        }
        assert(comm->live == NULL);
        while (comm->spare != NULL) {
            ff_exchange_handle *next = comm->spare->next;
            free(comm->spare);
            comm->spare = next;
        }
    }
    destroy(ctx);
}

/* ---- exchange ---- */

static int64_t chunks_of(size_t bytes) { return (int64_t)((bytes + CHUNK_BYTES - 1) / CHUNK_BYTES); }

/* A spare handle with room for `capacity` messages, or a new one. */
static ff_exchange_handle *get_handle(ff_ctx *ctx, int64_t capacity)
{
    ff_comm *comm = ctx->comm;
    ff_exchange_handle **at = &comm->spare, *handle;
    while (*at != NULL && (*at)->capacity < capacity)
        at = &(*at)->next;
    handle = *at;
    if (handle != NULL) {
        *at = handle->next;
    } else {
        handle = malloc(sizeof *handle + (size_t)(capacity + 1) * sizeof(MPI_Request) + (size_t)comm->size * sizeof(double));
        if (handle == NULL) {
            FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld messages", (long long)capacity);
            return NULL;
        }
        handle->capacity = (int)capacity;
    }
    handle->count = handle->num_receives = handle->num_stamps = 0;
    handle->done = handle->timed = false;
    handle->next = comm->live;
    comm->live = handle;
    return handle;
}

static void put_handle(ff_comm *comm, ff_exchange_handle *handle)
{
    ff_exchange_handle **at = &comm->live;
    while (*at != handle)
        at = &(*at)->next;
    *at = handle->next;
    handle->next = comm->spare;
    comm->spare = handle;
}

static void post_receives(ff_ctx *ctx, ff_exchange_handle *handle, const ff_group *group, int member)
{
    const ff_exchange_part *part = &ctx->comm->parts[member];
    const int from = group->first + member * group->stride;
    for (size_t at = 0; at < part->receive_bytes && ctx->status == FF_OK; at += CHUNK_BYTES) {
        const size_t left = part->receive_bytes - at;
        if (check(ctx, MPI_Irecv((char *)part->receive + at, (int)(left < CHUNK_BYTES ? left : CHUNK_BYTES), MPI_BYTE, from,
                                 TAG_DATA, ctx->comm->data, &handle->requests[handle->count]),
                  "MPI_Irecv") == FF_OK)
            handle->num_receives = ++handle->count;
    }
}

static void post_sends(ff_ctx *ctx, ff_exchange_handle *handle, const ff_group *group, int member)
{
    const ff_exchange_part *part = &ctx->comm->parts[member];
    const int to = group->first + member * group->stride;
    for (size_t at = 0; at < part->send_bytes && ctx->status == FF_OK; at += CHUNK_BYTES) {
        const size_t left = part->send_bytes - at;
        if (check(ctx, MPI_Isend((const char *)part->send + at, (int)(left < CHUNK_BYTES ? left : CHUNK_BYTES), MPI_BYTE, to,
                                 TAG_DATA, ctx->comm->data, &handle->requests[handle->count]),
                  "MPI_Isend") == FF_OK)
            handle->count++;
    }
}

/* Receives before anything is sent, sends after: when this rank began. */
static void post_stamps(ff_ctx *ctx, ff_exchange_handle *handle, const ff_group *group, bool send)
{
    double *stamps = stamps_of(handle);
    for (int m = 0; m < group->size && ctx->status == FF_OK; m++) {
        const int process = group->first + m * group->stride;
        MPI_Request *request = &handle->requests[handle->count];
        if (m == group->rank)
            continue;
        const int code = send ? MPI_Isend(&stamps[group->rank], 1, MPI_DOUBLE, process, TAG_STAMP, ctx->comm->data, request)
                              : MPI_Irecv(&stamps[m], 1, MPI_DOUBLE, process, TAG_STAMP, ctx->comm->data, request);
        if (check(ctx, code, "a time stamp") == FF_OK)
            handle->count++;
    }
    handle->num_receives = send ? handle->num_receives : handle->count;
}

static void begin_event(ff_comm *comm, ff_exchange_handle *handle, const ff_group *group, const char *name, bool backward)
{
    handle->event = (ff_dap_event){.name = name, .backward = backward, .begin_s = ff_clock_s()};
    for (int r = 0; r < group->size; r++)
        if (r != group->rank) {
            handle->event.bytes_sent += (double)comm->parts[r].send_bytes;
            handle->event.bytes_received += (double)comm->parts[r].receive_bytes;
        }
    handle->num_stamps = group->size;
    stamps_of(handle)[group->rank] = handle->event.begin_s;
}

ff_exchange_handle *ff_exchange_begin(ff_ctx *ctx, const ff_group *group, const char *name, bool backward, double bytes_moved)
{
    ff_comm *comm = ctx->comm;
    if (ctx->status != FF_OK)
        return NULL;
    if (comm->drained) {
        FF_FAIL(ctx, FF_ERR_COMM, "the ranks have agreed on a failure before");
        return NULL;
    }
    count_bytes(ctx, group, name, backward, bytes_moved);
    if (!ff_computing(ctx))
        return NULL;
    if (comm->planned) {
        FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "a group for plan mode cannot exchange anything");
        return NULL;
    }
    int64_t capacity = 0;
    const int size = group->size, rank = group->rank;
    for (int r = 0; r < size; r++)
        capacity += chunks_of(comm->parts[r].send_bytes) + chunks_of(comm->parts[r].receive_bytes);
    const bool timed = comm->tracing || comm->link_bytes_per_s > 0;
    ff_exchange_handle *handle = get_handle(ctx, capacity + (timed ? 2 * size : 0));
    if (handle == NULL)
        return NULL;
    if (timed) {
        begin_event(comm, handle, group, name, backward);
        post_stamps(ctx, handle, group, false);
    }
    for (int step = 1; step < size; step++)
        post_receives(ctx, handle, group, (rank - step + size) % size);
    for (int step = 1; step < size; step++) /* every rank begins with another one */
        post_sends(ctx, handle, group, (rank + step) % size);
    if (timed)
        post_stamps(ctx, handle, group, true);
    const ff_exchange_part *own = &comm->parts[rank];
    assert(own->send_bytes == own->receive_bytes);
    if (own->send_bytes > 0 && own->receive != own->send)
        memcpy(own->receive, own->send, own->send_bytes);
    return handle;
}

/* ---- failure ---- */

/* Take in one message that nobody waits for any more. */
static void take_in(ff_comm *comm)
{
    int waiting = 0, bytes = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm->data, &waiting, &status);
    if (!waiting)
        return;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    void *sink = malloc((size_t)bytes + 1);
    if (sink == NULL)
        return; /* tried again: other ranks give memory back meanwhile */
    MPI_Recv(sink, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm->data, MPI_STATUS_IGNORE);
    free(sink);
}

static bool all_complete(ff_comm *comm)
{
    bool all = true;
    for (ff_exchange_handle *h = comm->live; h != NULL; h = h->next) {
        int done = 0;
        MPI_Testall(h->count, h->requests, &done, MPI_STATUSES_IGNORE);
        all = all && done;
    }
    return all;
}

/* See the head of this file. Handles stay live until their ff_exchange_end, with nothing left to wait for. */
static void drain(ff_comm *comm)
{
    if (comm->drained)
        return;
    comm->drained = true;
    for (ff_exchange_handle *h = comm->live; h != NULL; h = h->next)
        for (int i = 0; i < h->num_receives; i++)
            if (h->requests[i] != MPI_REQUEST_NULL)
                MPI_Cancel(&h->requests[i]);
    MPI_Request barrier = MPI_REQUEST_NULL;
    for (int entered = 0, done = 0; !done;) {
        take_in(comm);
        if (!entered && all_complete(comm)) {
            entered = 1;
            if (MPI_Ibarrier(comm->data, &barrier) != MPI_SUCCESS)
                return;
        }
        if (entered && MPI_Test(&barrier, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        sched_yield();
    }
}

/* A failure message from another rank ends the wait. It is left in place for ff_dap_agree. */
static bool failed_elsewhere(ff_ctx *ctx)
{
    int waiting = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, TAG_FAILED, ctx->comm->control, &waiting, &status);
    if (waiting) {
        ctx->comm->heard = true;
        FF_FAIL(ctx, FF_ERR_COMM, "rank %d failed", status.MPI_SOURCE);
    }
    return waiting != 0;
}

/* Whether all messages are through; sets the times of the event once they are. Older exchanges go first on the link. */
static bool test(ff_ctx *ctx, ff_exchange_handle *h)
{
    int done = h->done;
    if (!done)
        (void)check(ctx, MPI_Testall(h->count, h->requests, &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    h->done = done;
    if (h->next != NULL && !h->next->timed && h->num_stamps > 0)
        (void)test(ctx, h->next);
    if (!done || h->num_stamps == 0 || h->timed)
        return done;
    const bool linked = ctx->comm->link_bytes_per_s > 0;
    if (linked && h->next != NULL && h->next->num_stamps > 0 && !h->next->timed)
        return true;
    for (int m = 0; m < h->num_stamps; m++)
        h->event.posted_s = stamps_of(h)[m] > h->event.posted_s ? stamps_of(h)[m] : h->event.posted_s;
    h->event.done_s = ff_clock_s();
    if (linked) {
        const double start = h->event.posted_s > ctx->comm->link_free_s ? h->event.posted_s : ctx->comm->link_free_s;
        ctx->comm->link_free_s = start + h->event.bytes_received / ctx->comm->link_bytes_per_s;
        h->event.done_s = ctx->comm->link_free_s + ctx->comm->link_latency_s;
    }
    h->timed = true;
    return true;
}

/* The same, and the artificial link has brought it too. */
static bool arrived(ff_ctx *ctx, ff_exchange_handle *h)
{
    if (!test(ctx, h))
        return false;
    return h->num_stamps == 0 || ctx->comm->link_bytes_per_s <= 0 || (h->timed && ff_clock_s() >= h->event.done_s);
}

void ff_dap_poll(ff_ctx *ctx)
{
    if (ctx->comm == NULL || ctx->status != FF_OK)
        return;
    for (ff_exchange_handle *h = ctx->comm->live; h != NULL && ctx->status == FF_OK; h = h->next)
        (void)test(ctx, h);
}

static void keep_event(ff_ctx *ctx, const ff_dap_event *event)
{
    ff_comm *comm = ctx->comm;
    if (comm->num_events == comm->events_capacity) {
        const int64_t capacity = comm->events_capacity == 0 ? 1024 : 2 * comm->events_capacity;
        ff_dap_event *grown = realloc(comm->events, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the trace of exchanges");
            return;
        }
        comm->events = grown;
        comm->events_capacity = capacity;
    }
    comm->events[comm->num_events++] = *event;
}

ff_status ff_exchange_end(ff_ctx *ctx, ff_exchange_handle *handle)
{
    enum { LOOK_EVERY = 256 }; /* tests between two looks for failures: a look costs about as much as a test */
    if (handle == NULL)
        return ctx->status;
    bool done = false;
    handle->event.wait_s = handle->num_stamps > 0 ? ff_clock_s() : 0;
    for (int64_t spins = 1; !done; spins++) {
        if (ctx->status == FF_OK)
            done = arrived(ctx, handle);
        if (ctx->status != FF_OK) { /* failed since the begin: the others must know before this rank waits for them */
            (void)ff_dap_agree(ctx);
            break;
        }
        if (done || spins % LOOK_EVERY != 0)
            continue;
        if (failed_elsewhere(ctx)) {
            drain(ctx->comm);
            break;
        }
        sched_yield();
    }
    if (done && handle->num_stamps > 0 && ctx->comm->tracing) {
        handle->event.end_s = ff_clock_s();
        keep_event(ctx, &handle->event);
    }
    put_handle(ctx->comm, handle);
    return ctx->status;
}

typedef struct {
    int status, echo; /* echo: the rank has only heard of another one's failure */
    char message[FF_MESSAGE_BYTES];
} report;

/* Receive a rank's report when it has come. */
static bool get_report(ff_comm *comm, int from, report *r)
{
    int waiting = 0;
    MPI_Status status;
    MPI_Iprobe(from, MPI_ANY_TAG, comm->control, &waiting, &status);
    if (waiting)
        MPI_Recv(r, (int)sizeof *r, MPI_BYTE, from, status.MPI_TAG, comm->control, MPI_STATUS_IGNORE);
    return waiting != 0;
}

/* Wait for a report of every other rank. `worst` becomes that of the lowest rank that failed by itself.
 * @return that rank, comm->size when there is none */
static int collect_reports(ff_comm *comm, bool *come, report *worst)
{
    report other;
    int culprit = worst->status != FF_OK && !worst->echo ? comm->rank : comm->size;
    for (int missing = comm->size - 1; missing > 0; sched_yield())
        for (int r = 0; r < comm->size; r++) {
            if (r == comm->rank || come[r] || !get_report(comm, r, &other))
                continue;
            come[r] = true;
            missing--;
            if (other.status == FF_OK)
                continue;
            drain(comm); /* others may be in theirs, waiting for this rank */
            if (!other.echo && r < culprit) {
                culprit = r;
                *worst = other;
            }
        }
    return culprit;
}

ff_status ff_dap_agree(ff_ctx *ctx)
{
    ff_comm *comm = ctx->comm;
    if (comm == NULL || comm->size == 1 || comm->planned || comm->control == MPI_COMM_NULL)
        return ctx->status;
    if (comm->drained && !comm->heard)
        return ctx->status; /* agreed before */
    MPI_Request *sends = malloc((size_t)comm->size * (sizeof *sends + sizeof(bool)));
    if (sends == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the agreement of %d ranks", comm->size);
    bool *come = memset(sends + comm->size, 0, (size_t)comm->size * sizeof(bool));
    report mine = {.status = ctx->status, .echo = comm->heard};
    memcpy(mine.message, ctx->message, sizeof mine.message);
    for (int r = 0; r < comm->size; r++) {
        sends[r] = MPI_REQUEST_NULL;
        if (r != comm->rank)
            MPI_Isend(&mine, (int)sizeof mine, MPI_BYTE, r, mine.status == FF_OK ? TAG_OK : TAG_FAILED, comm->control,
                      &sends[r]);
    }
    if (mine.status != FF_OK)
        drain(comm);
    report worst = mine;
    const int culprit = collect_reports(comm, come, &worst);
    MPI_Waitall(comm->size, sends, MPI_STATUSES_IGNORE);
    free(sends);
    comm->heard = false;
    if (culprit < comm->size && culprit != comm->rank) {
        ff_context_clear(ctx); /* an echo, or a failure of a higher rank */
        FF_FAIL(ctx, (ff_status)worst.status, "rank %d: %.*s", culprit, FF_MESSAGE_BYTES - 1, worst.message);
    } else if (comm->drained) {
        FF_FAIL(ctx, FF_ERR_COMM, "communication failed"); /* keeps what is there */
    }
    return ctx->status;
}

#endif
