// What a run is given.

typedef struct {
    void *const *values;         // where each of the program's values is
    const lab_i64 *dims;
    const lab_i32 *launches;     // what is run, in order
    const lab_i64 *tasks;        // of each phase of each; negative if the caller runs them alone
    lab_i64 *times;              // begin and end of each in nanoseconds, or null
    char *scratch;
    lab_i64 scratch_bytes;       // of each thread
    lab_i64 no_return;           // the first launch that writes over an input
    lab_i64 fault;               // not 0: an index was out of range
    lab_u32 step;
    lab_i32 watching;            // whether Ctrl-C is for us
    lab_i32 interrupted;         // whether it came
} lab_run;
