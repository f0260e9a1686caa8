/* machine.cpp - the scheduler of emulate.h: fibers, barriers, warp collectives, shared memory, traps.
 *
 * Contents
 *   1. the state of one OS thread's machine
 *   2. traps
 *   3. fibers: switching, choosing the next one
 *   4. barriers, warp collectives
 *   5. asynchronous copies
 *   6. launching
 *
 * ThreadSanitizer sees the kernels only: what the scheduler does on behalf of several CUDA threads is marked FF_NO_TSAN,
 * and calls nothing that TSan intercepts (memcpy, memset) on memory of more than one of them. */
#include "kernels/emulate/emulate.h"

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <new>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/emulate/control.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define FF_TSAN    1
#define FF_NO_TSAN __attribute__((noinline, no_sanitize("thread")))
#else
#define FF_TSAN 0
#define FF_NO_TSAN
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define FF_ASAN 1
#else
#define FF_ASAN 0
#endif
#if defined(__x86_64__) && !defined(FF_EMULATE_UCONTEXT)
#define FF_ASM_SWITCH 1
#else
#include <ucontext.h>
#define FF_ASM_SWITCH 0
#endif

namespace ff_emulate
{

__thread Thread *self;

namespace
{

/* ---- 1. the state of one OS thread's machine ---- */

enum {
    MAX_THREADS = 1024, /* per block, as on every GPU */
    MAX_MASKS = 8,      /* different masks of one warp's collectives within one block */
    MAX_COPIES = 256    /* asynchronous copies of one thread on their way */
};

constexpr size_t STACK_BYTES = 256 << 10;
/* Stacks lie this far apart: valgrind takes a jump of the stack pointer for a change of stacks beyond 2 MB only. */
constexpr size_t STACK_SPACING = 4 << 20;
constexpr size_t MAX_SHARED_BYTES = 227 << 10; /* opt-in limit of sm_90 */
constexpr size_t SHARED_ALIGNMENT = 128;
constexpr size_t GUARD_BYTES = 512;          /* written and checked next to shared memory */
constexpr size_t NO_ACCESS_BYTES = 16 << 20; /* around that */
constexpr uint32_t GUARD_WORD = 0xffa5ffa5;  /* a NaN in float32 and in bf16 */

struct Copy {
    char *shared;
    const char *global;
    bool valid;
    int64_t group;
};

enum Wait { RUNNABLE, AT_BARRIER, IN_COLLECTIVE, DONE };

struct Fiber {
    Thread thread; /* first: self points here */
    int index, warp;
    Wait wait;
    Site site; /* where it waits */
    char *stack;
#if FF_ASM_SWITCH
    void *stack_pointer;
#else
    ucontext_t context;
#endif
    void *tsan_fiber, *asan_fake_stack;
    Copy copies[MAX_COPIES];
    int num_copies;
    int64_t group; /* number of groups committed so far */
};

struct Meeting {
    uint32_t mask; /* 0 = free */
    uint32_t arrived;
    unsigned generation;
    Operation operation;
    Site site;
    Words words
        [2]
        [32]; /* by parity of the generation: a lane may be one collective ahead of a reader, not two */
};

struct Warp {
    uint32_t exist, alive;
    Meeting meetings[MAX_MASKS];
};

struct Machine {
    uint64_t seed, num_launches, random;
    bool last_first; /* order: the most recently released thread runs first */
    const Launch *launch;
    void (*body)(void *);
    void *argument;
    dim3 block_index;

    Fiber *fibers[MAX_THREADS];
    Warp *warps[MAX_THREADS / 32];
    Fiber *current;
    Fiber host; /* the context that called launch */
    int runnable[MAX_THREADS];
    int num_threads, num_runnable, num_alive, num_at_barrier;

    char *pages; /* no access, pages that hold shared memory at their end, no access */
    size_t pages_bytes;
    char *shared;
    void *signal_stack;
    char tsan_start, tsan_end, tsan_barrier; /* addresses TSan orders fibers by */
};

__thread Machine *machine;
__thread uint64_t next_seed;

const char *operation_name(Operation operation)
{
    static const char *const names[] = {
        "__syncwarp",       "__shfl_sync", "__shfl_xor_sync", "__shfl_up_sync",
        "__shfl_down_sync", "ldmatrix",    "ldmatrix.trans",  "mma"};
    return names[operation];
}

/* ---- 2. traps ---- */

FF_NO_TSAN void report_place(Site site)
{
    const Machine *m = machine;
    if (m == nullptr || m->launch == nullptr) {
        fprintf(stderr, "emulate: ");
        return;
    }
    const dim3 b = m->block_index;
    fprintf(stderr, "emulate: kernel %s, block (%u, %u, %u)", m->launch->kernel, b.x, b.y, b.z);
    if (m->current != nullptr) {
        const dim3 t = m->current->thread.thread_index;
        fprintf(stderr, ", thread (%u, %u, %u)", t.x, t.y, t.z);
    }
    if (site.file != nullptr)
        fprintf(stderr, ", %s:%d", site.file, site.line);
    fprintf(stderr, ": ");
}

} /* namespace */

[[noreturn]] FF_NO_TSAN void trap(Site site, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    report_place(site);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    fflush(stderr);
    abort();
}

namespace
{

struct sigaction previous_action;

/* Memory without access was touched: say whose. Any other fault is left to the handler that was there before. */
FF_NO_TSAN void on_fault(int signal, siginfo_t *info, void *)
{
    const Machine *m = machine;
    const char *address = static_cast<const char *>(info->si_addr);
    if (m != nullptr && m->launch != nullptr && m->current != nullptr) {
        if (address >= m->pages && address < m->pages + m->pages_bytes)
            trap({nullptr, 0}, "access to byte %td of the block's %zu bytes of shared memory",
                 address - m->shared, m->launch->shared_bytes);
        const char *end = m->current->stack + STACK_SPACING;
        if (address >= m->current->stack && address < end)
            trap({nullptr, 0}, "stack overflow: more than %zu bytes of local variables",
                 STACK_BYTES);
    }
    sigaction(signal, &previous_action, nullptr);
}

pthread_once_t handler_once = PTHREAD_ONCE_INIT;

void install_handler()
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous_action);
}

void *map_or_trap(size_t bytes, int protection)
{
    void *address =
        mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED)
        trap({nullptr, 0}, "cannot map %zu bytes", bytes);
    return address;
}

/* Gives the machine back when its OS thread ends. */
struct Owner {
    bool used;
    ~Owner()
    {
        Machine *m = machine;
        if (m == nullptr)
            return;
        for (Fiber *fiber : m->fibers)
            if (fiber != nullptr) {
#if FF_TSAN
                if (fiber->tsan_fiber != nullptr)
                    __tsan_destroy_fiber(fiber->tsan_fiber);
#endif
                munmap(fiber->stack, STACK_SPACING);
                delete fiber;
            }
        for (Warp *warp : m->warps)
            delete warp;
        munmap(m->pages, m->pages_bytes);
        stack_t off;
        memset(&off, 0, sizeof(off));
        off.ss_flags = SS_DISABLE;
        sigaltstack(&off, nullptr);
        munmap(m->signal_stack, STACK_BYTES);
        delete m;
        machine = nullptr;
    }
};

thread_local Owner owner;

Machine *get_machine()
{
    if (machine != nullptr)
        return machine;
    owner.used = true;
    Machine *m = new Machine();
    m->seed = next_seed;
    const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inner =
        (MAX_SHARED_BYTES + GUARD_BYTES + page_bytes - 1) / page_bytes * page_bytes;
    m->pages_bytes = inner + 2 * NO_ACCESS_BYTES;
    m->pages = static_cast<char *>(map_or_trap(m->pages_bytes, PROT_NONE));
    mprotect(m->pages + NO_ACCESS_BYTES, inner, PROT_READ | PROT_WRITE);
    m->signal_stack = map_or_trap(STACK_BYTES, PROT_READ | PROT_WRITE);
    stack_t stack;
    memset(&stack, 0, sizeof(stack));
    stack.ss_sp = m->signal_stack;
    stack.ss_size = STACK_BYTES;
    sigaltstack(&stack, nullptr);
    pthread_once(&handler_once, install_handler);
    machine = m;
    return m;
}

/* ---- 3. fibers ---- */

#if FF_ASM_SWITCH
/* Save the callee-saved registers on the running stack, store its pointer, and go on on the other stack. */
extern "C" void ff_emulate_switch(void **save, void *to);
asm(R"(
    .pushsection .text
    .globl ff_emulate_switch
    .hidden ff_emulate_switch
    .type ff_emulate_switch, @function
ff_emulate_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
    .size ff_emulate_switch, .-ff_emulate_switch
    .popsection
)");
#endif

FF_NO_TSAN void switch_fiber(Fiber *from, Fiber *to, bool for_good)
{
    Machine *m = machine;
    m->current = to == &m->host ? nullptr : to;
    self = &to->thread;
#if FF_TSAN
    __tsan_switch_to_fiber(to->tsan_fiber, __tsan_switch_to_fiber_no_sync);
#endif
#if FF_ASAN
    if (to == &m->host)
        __sanitizer_start_switch_fiber(for_good ? nullptr : &from->asan_fake_stack, to->stack,
                                       static_cast<size_t>(to->group));
    else
        __sanitizer_start_switch_fiber(for_good ? nullptr : &from->asan_fake_stack,
                                       to->stack + STACK_SPACING - STACK_BYTES, STACK_BYTES);
#endif
    (void)for_good;
#if FF_ASM_SWITCH
    ff_emulate_switch(&from->stack_pointer, to->stack_pointer);
#else
    swapcontext(&from->context, &to->context);
#endif
#if FF_ASAN
    __sanitizer_finish_switch_fiber(from->asan_fake_stack, nullptr, nullptr);
#endif
}

FF_NO_TSAN uint64_t draw(Machine *m) /* xorshift64 */
{
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return m->random >> 16;
}

FF_NO_TSAN void make_runnable(Machine *m, Fiber *fiber)
{
    fiber->wait = RUNNABLE;
    m->runnable[m->num_runnable++] = fiber->index;
}

[[noreturn]] FF_NO_TSAN void trap_deadlock(Machine *m)
{
    const Fiber *barrier = nullptr, *collective = nullptr;
    int num_collective = 0;
    for (int i = 0; i < m->num_threads; i++) {
        const Fiber *f = m->fibers[i];
        if (f->wait == AT_BARRIER)
            barrier = f;
        if (f->wait == IN_COLLECTIVE) {
            collective = f;
            num_collective++;
        }
    }
    trap(collective != nullptr ? collective->site : barrier->site,
         "deadlock: %d threads wait in __syncthreads (line %d), %d in a warp collective (line %d), "
         "%d have returned",
         m->num_at_barrier, barrier != nullptr ? barrier->site.line : 0, num_collective,
         collective != nullptr ? collective->site.line : 0, m->num_threads - m->num_alive);
}

/* The thread to run next; the host when all have returned. */
FF_NO_TSAN Fiber *choose(Machine *m)
{
    if (m->num_runnable == 0) {
        if (m->num_alive == 0)
            return &m->host;
        trap_deadlock(m);
    }
    const int last = m->num_runnable - 1;
    const int at =
        m->last_first ? last : static_cast<int>(draw(m) % static_cast<uint64_t>(m->num_runnable));
    const int index = m->runnable[at];
    m->runnable[at] = m->runnable[last];
    m->num_runnable = last;
    return m->fibers[index];
}

FF_NO_TSAN void wait_here(Machine *m, Fiber *fiber)
{
    Fiber *next = choose(m);
    if (next != fiber)
        switch_fiber(fiber, next, false);
}

inline void order_after(void *address)
{
#if FF_TSAN
    __tsan_acquire(address);
#else
    (void)address;
#endif
}

inline void order_before(void *address)
{
#if FF_TSAN
    __tsan_release(address);
#else
    (void)address;
#endif
}

/* ---- 4. barriers, warp collectives ---- */

FF_NO_TSAN void open_barrier_if_full(Machine *m)
{
    if (m->num_at_barrier == 0 || m->num_at_barrier < m->num_alive)
        return;
    m->num_at_barrier = 0;
    for (int i = 0; i < m->num_threads; i++)
        if (m->fibers[i]->wait == AT_BARRIER)
            make_runnable(m, m->fibers[i]);
}

FF_NO_TSAN void wait_at_barrier(Site site)
{
    Machine *m = machine;
    Fiber *fiber = m->current;
    if (m->num_at_barrier > 0)
        for (int i = 0; i < m->num_threads; i++) {
            const Fiber *other = m->fibers[i];
            if (other->wait != AT_BARRIER)
                continue;
            if (other->site.line != site.line || other->site.file != site.file)
                trap(site, "divergent __syncthreads: thread %d waits at line %d", i,
                     other->site.line);
            break; /* those who wait agree */
        }
    fiber->wait = AT_BARRIER;
    fiber->site = site;
    m->num_at_barrier++;
    open_barrier_if_full(m);
    wait_here(m, fiber);
}

FF_NO_TSAN const Words *meet(uint32_t mask, Operation operation, Site site, const uint32_t *words,
                             int num_words)
{
    Machine *m = machine;
    Fiber *fiber = m->current;
    Warp *warp = m->warps[fiber->warp];
    const int lane = fiber->thread.lane;
    if (!(mask >> lane & 1))
        trap(site, "%s: the mask %08x has not the calling lane %d", operation_name(operation), mask,
             lane);
    if (mask & ~warp->exist)
        trap(site, "%s: the mask %08x names lanes the block does not have",
             operation_name(operation), mask);
    if (mask & ~warp->alive)
        trap(site, "%s: the mask %08x names lanes that have returned (%08x are left)",
             operation_name(operation), mask, warp->alive);
    Meeting *meeting = nullptr;
    for (Meeting &candidate : warp->meetings)
        if (candidate.mask == mask || candidate.mask == 0) {
            meeting = &candidate;
            break;
        }
    if (meeting == nullptr)
        trap(site, "more than %d different masks in one warp", MAX_MASKS);
    if (meeting->arrived != 0 &&
        (meeting->operation != operation || meeting->site.line != site.line ||
         meeting->site.file != site.file))
        trap(site, "divergent warp collective: this lane is in %s, others are in %s at line %d",
             operation_name(operation), operation_name(meeting->operation), meeting->site.line);
    meeting->mask = mask;
    meeting->operation = operation;
    meeting->site = site;
    Words *all = meeting->words[meeting->generation & 1];
    for (int i = 0; i < num_words; i++) {
        all[lane].word[i] = words[i];
        asm volatile("" ::: "memory"); /* not a memcpy */
    }
    meeting->arrived |= 1u << lane;
    fiber->wait = IN_COLLECTIVE;
    fiber->site = site;
    if (meeting->arrived == mask) {
        meeting->arrived = 0;
        meeting->generation++;
        for (int l = 0; l < 32; l++)
            if (mask >> l & 1)
                make_runnable(m, m->fibers[fiber->warp * 32 + l]);
    }
    wait_here(m, fiber);
    return all;
}

FF_NO_TSAN void leave()
{
    Machine *m = machine;
    Fiber *fiber = m->current;
    Warp *warp = m->warps[fiber->warp];
    for (const Meeting &meeting : warp->meetings)
        if (meeting.arrived != 0 && meeting.mask >> fiber->thread.lane & 1)
            trap(meeting.site, "this thread returned while its warp waits for it in %s",
                 operation_name(meeting.operation));
    warp->alive &= ~(1u << fiber->thread.lane);
    fiber->wait = DONE;
    m->num_alive--;
    open_barrier_if_full(m);
    switch_fiber(fiber, choose(m), true);
}

} /* namespace */

void sync_threads(Site site)
{
    order_before(&machine->tsan_barrier);
    wait_at_barrier(site);
    order_after(&machine->tsan_barrier);
}

void sync_warp(uint32_t mask, Site site)
{
    Warp *warp = machine->warps[machine->current->warp];
    order_before(warp);
    meet(mask, SYNC_WARP, site, nullptr, 0);
    order_after(warp);
}

const Words *exchange(uint32_t mask, Operation operation, Site site, const uint32_t *words,
                      int num_words)
{
    return meet(mask, operation, site, words, num_words);
}

/* ---- 5. asynchronous copies ---- */

void copy_async_16(void *shared, const void *global, bool valid, Site site)
{
    check_aligned(shared, 16, "cp.async destination", site);
    check_shared(shared, 16, "cp.async destination", site);
    if (valid)
        check_aligned(global, 16, "cp.async source", site);
    Fiber *fiber = machine->current;
    if (fiber->num_copies == MAX_COPIES)
        trap(site, "more than %d asynchronous copies of one thread on their way", MAX_COPIES);
    memset(shared, 0xff, 16); /* NaN until it arrives */
    Copy *copy = &fiber->copies[fiber->num_copies++];
    *copy = {static_cast<char *>(shared), static_cast<const char *>(global), valid, fiber->group};
}

void copy_async_commit() { machine->current->group++; }

void copy_async_wait(int num_pending)
{
    Fiber *fiber = machine->current;
    int num_left = 0;
    for (int i = 0; i < fiber->num_copies; i++) {
        const Copy copy = fiber->copies[i];
        if (copy.group >= fiber->group - num_pending)
            fiber->copies[num_left++] = copy;
        else if (copy.valid)
            memcpy(copy.shared, copy.global, 16);
        else
            memset(copy.shared, 0, 16);
    }
    fiber->num_copies = num_left;
}

/* ---- 6. launching ---- */

namespace
{

void run_thread()
{
#if FF_ASAN
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
    if (machine->host.stack == nullptr) { /* the first switch of all comes from the host's stack */
        machine->host.stack = static_cast<char *>(const_cast<void *>(bottom));
        machine->host.group = static_cast<int64_t>(bytes);
    }
#endif
    order_after(&machine->tsan_start);
    machine->body(machine->argument);
    order_before(&machine->tsan_end);
    leave();
}

FF_NO_TSAN void prepare_fiber(Machine *m, int index)
{
    if (m->fibers[index] == nullptr) {
        Fiber *fiber = new Fiber();
        fiber->stack = static_cast<char *>(map_or_trap(STACK_SPACING, PROT_NONE));
        mprotect(fiber->stack + STACK_SPACING - STACK_BYTES, STACK_BYTES, PROT_READ | PROT_WRITE);
#if FF_TSAN
        fiber->tsan_fiber = __tsan_create_fiber(0); /* 0.4 ms: kept for later blocks */
#endif
        m->fibers[index] = fiber;
    }
    Fiber *fiber = m->fibers[index];
    const dim3 block = m->launch->block;
    const unsigned i = static_cast<unsigned>(index);
    fiber->thread.thread_index = dim3(i % block.x, i / block.x % block.y, i / (block.x * block.y));
    fiber->thread.block_index = m->block_index;
    fiber->thread.block_dim = block;
    fiber->thread.grid_dim = m->launch->grid;
    fiber->thread.lane = index % 32;
    fiber->thread.shared = m->shared;
    fiber->thread.shared_bytes = m->launch->shared_bytes;
    fiber->index = index;
    fiber->warp = index / 32;
    fiber->num_copies = 0;
    fiber->group = 0;
#if FF_ASM_SWITCH
    void **top = reinterpret_cast<void **>(fiber->stack + STACK_SPACING);
    *--top = nullptr; /* where run_thread would return to */
    *--top = reinterpret_cast<void *>(run_thread);
    for (int r = 0; r < 6; r++)
        *--top = nullptr;
    fiber->stack_pointer = top;
#else
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack + STACK_SPACING - STACK_BYTES;
    fiber->context.uc_stack.ss_size = STACK_BYTES;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, run_thread, 0);
#endif
}

/* Shared memory ends where access ends, up to the alignment; the bytes around it hold guard words. */
FF_NO_TSAN void prepare_shared(Machine *m)
{
    const size_t bytes = m->launch->shared_bytes;
    const size_t aligned = (bytes + SHARED_ALIGNMENT - 1) / SHARED_ALIGNMENT * SHARED_ALIGNMENT;
    char *end = m->pages + m->pages_bytes - NO_ACCESS_BYTES;
    m->shared = end - aligned;
    uint32_t *word = reinterpret_cast<uint32_t *>(m->shared - GUARD_BYTES);
    for (; word < reinterpret_cast<uint32_t *>(end); word++) {
        *word = GUARD_WORD;
        asm volatile("" ::: "memory"); /* not a memset */
    }
    for (size_t i = 0; i < bytes; i++) {
        m->shared[i] = static_cast<char>(0xff);
        asm volatile("" ::: "memory");
    }
}

FF_NO_TSAN void check_guards(Machine *m)
{
    const char *end = m->pages + m->pages_bytes - NO_ACCESS_BYTES;
    for (const char *byte = m->shared - GUARD_BYTES; byte < end; byte++) {
        if (byte == m->shared)
            byte += m->launch->shared_bytes;
        if (byte == end)
            break;
        const uint8_t expected = (byte - end) & 1 ? GUARD_WORD >> 24 : GUARD_WORD & 0xff;
        if (static_cast<uint8_t>(*byte) != expected)
            trap(m->launch->site, "this block wrote to byte %td of its %zu bytes of shared memory",
                 byte - m->shared, m->launch->shared_bytes);
    }
}

FF_NO_TSAN void prepare_block(Machine *m)
{
    prepare_shared(m);
    const int num_warps = (m->num_threads + 31) / 32;
    for (int w = 0; w < num_warps; w++) {
        if (m->warps[w] == nullptr)
            m->warps[w] = new Warp();
        const int num_lanes = m->num_threads - 32 * w;
        m->warps[w]->exist = m->warps[w]->alive =
            num_lanes >= 32 ? 0xffffffffu : (1u << num_lanes) - 1;
        for (Meeting &meeting : m->warps[w]->meetings)
            meeting.mask = meeting.arrived = 0;
    }
    m->num_alive = m->num_threads;
    m->num_runnable = m->num_at_barrier = 0;
    const int first = static_cast<int>(draw(m) % static_cast<uint64_t>(num_warps));
    for (int w = 0; w < num_warps; w++)
        for (int lane = 0; lane < 32; lane++) {
            const int index = (w + first) % num_warps * 32 + lane;
            if (index >= m->num_threads)
                break;
            prepare_fiber(m, index);
            make_runnable(m, m->fibers[index]);
        }
}

FF_NO_TSAN void check_launch(const Launch &what)
{
    const dim3 g = what.grid, b = what.block;
    const uint64_t threads = static_cast<uint64_t>(b.x) * b.y * b.z;
    if (threads == 0 || threads > MAX_THREADS || b.z > 64)
        trap(what.site, "launch of %s: no GPU runs blocks of %u x %u x %u threads", what.kernel,
             b.x, b.y, b.z);
    if (g.x == 0 || g.y == 0 || g.z == 0 || g.x > 0x7fffffff || g.y > 65535 || g.z > 65535)
        trap(what.site, "launch of %s: no GPU runs a grid of %u x %u x %u blocks", what.kernel, g.x,
             g.y, g.z);
    if (what.shared_bytes > MAX_SHARED_BYTES)
        trap(what.site, "launch of %s: %zu bytes of shared memory, more than a block can have",
             what.kernel, what.shared_bytes);
}

} /* namespace */

FF_NO_TSAN void launch(const Launch &what, void (*body)(void *), void *argument)
{
    Machine *m = get_machine();
    if (m->launch != nullptr)
        trap(what.site, "a kernel launches %s", what.kernel);
    check_launch(what);
    m->launch = &what;
    m->body = body;
    m->argument = argument;
    m->num_threads = static_cast<int>(what.block.x * what.block.y * what.block.z);
    m->last_first = m->seed & 1;
    m->random = (m->seed + 1) * 0x9e3779b97f4a7c15u ^ ++m->num_launches * 0xbf58476d1ce4e5b9u;
    if (m->random == 0)
        m->random = 1;
    for (int i = 0; i < 8; i++)
        draw(m);
#if FF_TSAN
    m->host.tsan_fiber = __tsan_get_current_fiber();
#endif
    const uint64_t num_blocks = static_cast<uint64_t>(what.grid.x) * what.grid.y * what.grid.z;
    uint32_t *order = nullptr;
    if (num_blocks > 0xffffffffu ||
        (order = static_cast<uint32_t *>(malloc(num_blocks * sizeof(*order)))) == nullptr)
        trap(what.site, "launch of %s: %llu blocks are too many to emulate", what.kernel,
             static_cast<unsigned long long>(num_blocks));
    for (uint64_t i = 0; i < num_blocks; i++) { /* a random permutation, inside out */
        const uint64_t j = draw(m) % (i + 1);
        order[i] = order[j];
        order[j] = static_cast<uint32_t>(i);
    }
    for (uint64_t i = 0; i < num_blocks; i++) {
        const uint32_t block = order[i];
        m->block_index =
            dim3(block % what.grid.x, block / what.grid.x % what.grid.y,
                 static_cast<uint32_t>(block / (static_cast<uint64_t>(what.grid.x) * what.grid.y)));
        prepare_block(m);
        order_before(&m->tsan_start);
        switch_fiber(&m->host, choose(m), false);
        order_after(&m->tsan_end);
        check_guards(m);
    }
    free(order);
    m->launch = nullptr;
    self = nullptr;
}

} /* namespace ff_emulate */

void ff_emulate_set_seed(uint64_t seed)
{
    ff_emulate::next_seed = seed;
    if (ff_emulate::machine != nullptr) {
        ff_emulate::machine->seed = seed;
        ff_emulate::machine->num_launches = 0;
    }
}
