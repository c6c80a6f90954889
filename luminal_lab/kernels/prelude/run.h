// The arguments of a run.

typedef struct {
    void *const *values;         // the addresses of the program's values
    const lab_i64 *dims;
    const lab_i32 *launches;     // the launches to run, in order
    const lab_i64 *tasks;        // per phase of each launch; negative if the caller runs them alone
    lab_i64 *times;              // start and end of each in nanoseconds, or null
    char *scratch;
    lab_i64 scratch_bytes;       // of each thread
    lab_i64 no_return;           // the first launch that overwrites an input
    lab_i64 fault;               // not 0: an index was out of range
    lab_u32 step;
    lab_i32 watching;            // whether Ctrl-C is for us
    lab_i32 interrupted;         // whether it has come
} lab_run;
