// After a program that is tried in a child process: one launch, task by task.

// Runs the tasks of one launch one after another, from the last to the first if requested, and
// notes the current phase and task.
LAB_EXPORT void lab_tried(lab_run *run, lab_i64 at, lab_i64 backwards, volatile lab_i64 *told) {
    const lab_launch *launch = &lab_main.launches[run->launches[at]];
    void *buffers[lab_main.buffers];
    lab_i64 dims[lab_main.dims];
    for (int k = 0; k < launch->buffer_count; k++) buffers[k] = run->values[launch->buffers[k]];
    for (int k = 0; k < launch->dim_count; k++) dims[k] = run->dims[launch->dims[k]];
    for (int k = 0; k < launch->phase_count; k++) {
        lab_i64 tasks = run->tasks[at * lab_main.phases + k];
        if (tasks < 0) tasks = -tasks;
        for (lab_i64 turn = 0; turn < tasks; turn++) {
            const lab_i64 task = backwards ? tasks - 1 - turn : turn;
            told[0] = k;
            told[1] = task;
            // A task must not rely on what another has left in the memory of the thread.
            if (run->scratch_bytes)
                __builtin_memset(run->scratch, backwards ? 0x3F : 0xFF, run->scratch_bytes);
            launch->phases[k](buffers, dims, run->step, &run->fault, task, run->scratch);
        }
    }
}
