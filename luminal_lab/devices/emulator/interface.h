// What a library of kernels and the runtime know of each other.

typedef unsigned long long lab_address;

enum { LAB_READ = 0, LAB_WRITE = 1, LAB_ATOMIC = 2, LAB_BEGUN = 3 };
// A write that has begun may happen from then on, but nobody can count on it.
enum { LAB_SHARED = 1, LAB_DEVICE = 2 };
enum {
    LAB_OF_SYNC, LAB_OF_SHUFFLE, LAB_OF_VOTE, LAB_OF_SUM, LAB_OF_MAX, LAB_OF_MIN, LAB_OF_MMA_F16,
    LAB_OF_MMA_BF16, LAB_OF_MMA_TF32, LAB_OF_MATRIX
};
enum { LAB_PAYLOAD = 32 };
// The bytes that a lane of a warp hands to the others.

struct lab_runtime {
    unsigned at_thread[3], at_block[3], block_size[3], grid_size[3];  // x, y, z
    unsigned number;                                      // of the thread in its block
    unsigned turn;                                        // of the block, among all that were run
    void (*barrier)(int line, int spaces);
    const unsigned char *(*exchange)(int kind, unsigned mask, const void *mine, int bytes, int line);
    void *(*shared)(int place, lab_address bytes, int element, const char *name, int line);
    void *(*dynamic)(int place, int element, const char *name, int line);
    void (*touch)(const void *at, unsigned bytes, int kind, const void *from);
    void (*enter)(const void *from);
    void (*leave)(void);
    void (*fence)(void);
    void (*trap)(int line);
};

struct lab_parameter {
    char kind;         // p and c: pointers to what may be written and what not; i u f x: values
    unsigned size;     // bytes of the value, or of what the pointer points to
};
