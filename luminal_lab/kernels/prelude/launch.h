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
    const lab_i32 *buffers;      // the numbers of its values in the program
    lab_i32 dim_count;
    const lab_i32 *dims;         // the numbers of its dims in the program
} lab_launch;

typedef struct {
    const lab_launch *launches;
    lab_i32 phases, buffers, dims;   // the most that a launch has of each
} lab_program;

#define LAB_LIST(...) \
    sizeof((const lab_i32[]){__VA_ARGS__}) / sizeof(lab_i32), (const lab_i32[]){__VA_ARGS__}
#define LAB_NONE 0, 0
