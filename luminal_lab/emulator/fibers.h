// Fibers: a stack and the point at which it stopped. On x86-64 and Arm a switch saves the registers
// that a call preserves by the ABI, about ten times as fast as ucontext, which asks the kernel for
// the signal mask at every switch; other processors use ucontext, and Windows its own fibers.

#if defined(_WIN32)

#include <windows.h>

typedef void *lab_context;

static void lab_switch(lab_context *from, lab_context to) {
    *from = GetCurrentFiber();
    SwitchToFiber(to);
}

static void CALLBACK lab_fiber_body(void *body) { ((void (*)(void))body)(); }

static lab_context lab_fiber(char *, unsigned long long bytes, void (*body)(void)) {
    return CreateFiberEx(4096, bytes, 0, lab_fiber_body, (void *)body);
}

LAB_EXPORT void *lab_map(unsigned long long bytes) {
    return VirtualAlloc(0, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

LAB_EXPORT void lab_forbid(void *at, unsigned long long bytes) {
    DWORD old;
    VirtualProtect(at, bytes, PAGE_NOACCESS, &old);
}

LAB_EXPORT void lab_unmap(void *at, unsigned long long) { VirtualFree(at, 0, MEM_RELEASE); }

#else

#include <sys/mman.h>

LAB_EXPORT void *lab_map(unsigned long long bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
    flags |= MAP_NORESERVE;
#endif
    void *at = mmap(0, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    return at == MAP_FAILED ? 0 : at;
}

LAB_EXPORT void lab_forbid(void *at, unsigned long long bytes) { mprotect(at, bytes, PROT_NONE); }

LAB_EXPORT void lab_unmap(void *at, unsigned long long bytes) { munmap(at, bytes); }

typedef void *lab_context;

#if defined(__x86_64__) || defined(__aarch64__)

extern "C" void lab_switch(lab_context *from, lab_context to);

#if defined(__APPLE__)
#define LAB_SYMBOL "_lab_switch"
#else
#define LAB_SYMBOL "lab_switch"
#endif

#if defined(__x86_64__)
__asm__(".text\n.p2align 4\n.globl " LAB_SYMBOL "\n" LAB_SYMBOL ":\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  retq\n");
enum { LAB_RETURN = 6 };
#else
#define LAB_KEPT(MOVE)                                                                            \
    MOVE " x19, x20, [sp]\n" MOVE " x21, x22, [sp, #16]\n" MOVE " x23, x24, [sp, #32]\n"          \
    MOVE " x25, x26, [sp, #48]\n" MOVE " x27, x28, [sp, #64]\n" MOVE " x29, x30, [sp, #80]\n"     \
    MOVE " d8, d9, [sp, #96]\n" MOVE " d10, d11, [sp, #112]\n" MOVE " d12, d13, [sp, #128]\n"     \
    MOVE " d14, d15, [sp, #144]\n"
__asm__(".text\n.p2align 4\n.globl " LAB_SYMBOL "\n" LAB_SYMBOL ":\n"
        "  sub sp, sp, #160\n" LAB_KEPT("  stp")
        "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n" LAB_KEPT("  ldp")
        "  add sp, sp, #160\n  ret\n");
enum { LAB_RETURN = 11 };
#endif

// A new fiber looks as if it had just switched away, and returns into its body.
static lab_context lab_fiber(char *stack, unsigned long long bytes, void (*body)(void)) {
    unsigned long long *top = (unsigned long long *)(((unsigned long long)stack + bytes) & ~63ull);
    unsigned long long *at = top - 32;  // a multiple of 16, as both ABIs require
    for (unsigned long long *word = at; word < top; word++) *word = 0;
    at[LAB_RETURN] = (unsigned long long)body;
    return at;
}

#else

#include <ucontext.h>

static void lab_switch(lab_context *from, lab_context to) {
    ucontext_t here;
    *from = &here;
    swapcontext(&here, (ucontext_t *)to);
}

static lab_context lab_fiber(char *stack, unsigned long long bytes, void (*body)(void)) {
    ucontext_t *fiber = (ucontext_t *)stack;
    getcontext(fiber);
    fiber->uc_stack.ss_sp = stack + sizeof(ucontext_t);
    fiber->uc_stack.ss_size = bytes - sizeof(ucontext_t);
    fiber->uc_link = 0;
    makecontext(fiber, body, 0);
    return fiber;
}

#endif
#endif
