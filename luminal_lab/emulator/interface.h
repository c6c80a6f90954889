// What a library of kernels and the runtime know about each other.

#pragma GCC system_header  // if warnings are on, only those about kernels are shown

typedef unsigned long long lab_address;

#if defined(_WIN32)
#define LAB_EXPORT extern "C" __declspec(dllexport)
#else
#define LAB_EXPORT extern "C" __attribute__((visibility("default")))
#endif

enum {
    LAB_READ = 0, LAB_WRITE = 1, LAB_ATOMIC = 2, LAB_BEGUN = 3, LAB_FLYING = 4, LAB_LANDED = 5,
    LAB_STILL = 6, LAB_COUNTED = 7
};
// A write that has begun may happen at any later time, but nobody can rely on it. The same holds
// for one in flight: a thread that touches it meanwhile races with it, and so does, once it has
// landed, a thread that has not waited at its barrier. A read may go on long after it was
// requested. Operations on a barrier that counts need no order, except that they follow its
// initialisation.
enum { LAB_SHARED = 1, LAB_DEVICE = 2 };
enum { LAB_SIZED = 256, PLACES = LAB_SIZED + 8 };
// Shared arrays: from LAB_SIZED on, a launch gives their size.
enum {
    LAB_OF_SYNC, LAB_OF_SHUFFLE, LAB_OF_VOTE, LAB_OF_SUM, LAB_OF_MAX, LAB_OF_MIN, LAB_OF_MMA_F16,
    LAB_OF_MMA_BF16, LAB_OF_MMA_TF32, LAB_OF_MATRIX, LAB_OF_GROUP, LAB_OF_GROUP_BEGIN,
    LAB_OF_GROUP_COMMIT, LAB_OF_GROUP_WAIT, LAB_OF_REGISTERS
};
enum { LAB_INIT, LAB_EXPECT, LAB_WAIT };
// Operations on a barrier that counts bytes.
enum { LAB_PAYLOAD = 32 };
// The bytes that a lane of a warp hands to the others; after those of all lanes comes the mask of
// lanes that gave any.
enum { LAB_ANSWER = 33 * LAB_PAYLOAD };

struct lab_group {  // a thread's part in a product of four warps
    float *c;
    lab_address a, b;
    unsigned short columns;
    unsigned char kind, is_rows;
    int more;
};

struct lab_runtime {
    unsigned at_thread[3], at_block[3], block_size[3], grid_size[3];  // x, y, z
    unsigned number;                                      // the thread's in its block
    unsigned turn;                                        // the block's, among all that ran
    void (*barrier)(int line, int spaces);
    const unsigned char *(*exchange)(int kind, unsigned mask, const void *mine, int bytes, int line);
    void *(*shared)(int place, lab_address bytes, int element, unsigned alignment, const char *name, int line);
    void (*touch)(const void *at, unsigned bytes, int kind, const void *from);
    void (*enter)(const void *from);
    void (*leave)(void);
    void (*fence)(void);
    void (*trap)(int line);
    void (*misaligned)(const void *at, unsigned to, int is_write, int line, const void *from);
    void (*left)(void);
    void (*outside)(int is_write, int line, const void *from);
    void (*no_lane)(unsigned lane, int line, const void *from);
    mutable const void *from;                             // where a stand-in was called
    char *shared_base;
    void (*count)(int what, lab_address *at, int given, int line);
    int (*arrives)(void);   // whether a copy under way is done by now
    void (*pass_on)(void);  // what this thread wrote is known to copies and products
    void (*bulk)(void *to, const lab_address *map, const void *from, int x, int y, lab_address *at, int line);
};

struct lab_parameter {
    char kind;         // p and c: pointers to what may and may not be written; i u f x: values
    unsigned size;     // bytes of the value, or of what the pointer points to
    unsigned alignment;  // of the value
};

template <class To, class From> static inline To lab_bits(const From &from) {
    static_assert(sizeof(To) == sizeof(From), "both types have the same size");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
