// What a library knows about a program: the functions of its kernels, and its launches.

typedef void lab_function(LAB_GIVEN);

#ifdef _WIN32
#define LAB_EXPORT __declspec(dllexport)
#else
#define LAB_EXPORT __attribute__((visibility("default")))
#endif

typedef struct {
    lab_function *const *phases;
    lab_i32 phase_count;
    lab_i32 buffer_count;
    const lab_i32 *buffers;      // which of the program's values
    lab_i32 dim_count;
    const lab_i32 *dims;         // which of the program's dims
} lab_launch;

typedef struct {
    const lab_launch *launches;
    lab_i32 phases, buffers, dims;   // how many a launch has at most
} lab_program;

#define LAB_LIST(...) \
    sizeof((const lab_i32[]){__VA_ARGS__}) / sizeof(lab_i32), (const lab_i32[]){__VA_ARGS__}
#define LAB_NONE 0, 0
