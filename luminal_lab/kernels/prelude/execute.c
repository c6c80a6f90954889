// After the pool: the library's exports that run programs.

// Runs the launches from first to last. Returns how many of them are done: fewer than requested if
// an index was out of range, or if it was cancelled.
LAB_EXPORT lab_i64 lab_execute(lab_pool *pool, const lab_program *program, lab_run *run, lab_i64 first,
                               lab_i64 last) {
    lab_before before;
    if (pool->process != lab_process()) lab_begin_pool(pool);   // a fork has none of our threads
    lab_set(&pool->cancelled, 0);
    const int watching = run->watching && lab_watch(&before, &pool->cancelled);
    void *buffers[program->buffers];
    lab_i64 dims[program->dims], at = first;
    lab_phase *phase = &pool->phase;
    phase->buffers = buffers;
    phase->dims = dims;
    phase->fault = &run->fault;
    phase->scratch = run->scratch;
    phase->scratch_bytes = run->scratch_bytes;
    phase->step = run->step;
    for (; at < last; at++) {
        const lab_launch *launch = &program->launches[run->launches[at]];
        phase->may_stop = at < run->no_return;
        for (int k = 0; k < launch->buffer_count; k++) buffers[k] = run->values[launch->buffers[k]];
        for (int k = 0; k < launch->dim_count; k++) dims[k] = run->dims[launch->dims[k]];
        if (run->times) run->times[2 * at] = lab_now();
        for (int k = 0; k < launch->phase_count; k++) {
            const lab_i64 tasks = run->tasks[at * program->phases + k];
            phase->function = launch->phases[k];
            lab_run_phase(pool, tasks < 0 ? -tasks : tasks, tasks < 0);
        }
        if (run->times) run->times[2 * at + 1] = lab_now();
        if (run->fault || (phase->may_stop && lab_get(&pool->cancelled))) break;
    }
    if (watching) lab_unwatch(&before);
    run->interrupted = lab_get(&pool->cancelled);
    return at - first;
}

LAB_EXPORT lab_pool *lab_open(int threads) {
    lab_pool *pool;
    const size_t size = sizeof(lab_pool) + (size_t)threads * sizeof(lab_worker);
#ifdef _WIN32
    pool = _aligned_malloc(size, 64);
    if (!pool) return 0;
#else
    if (posix_memalign((void **)&pool, 64, size)) return 0;
    if (!lab_this_process) {
        lab_forked();
        pthread_atfork(0, 0, lab_forked);
    }
#endif
    pool->threads = threads;
    lab_begin_pool(pool);
    return pool;
}

// Makes a run in another thread end soon.
LAB_EXPORT void lab_cancel(lab_pool *pool) {
    lab_set(&pool->cancelled, 1);
}

LAB_EXPORT void lab_close(lab_pool *pool) {
    if (pool->process == lab_process()) {
        lab_lock_take(&pool->lock);
        lab_set(&pool->stop, 1);
        lab_bell_ring(&pool->bell);
        lab_lock_give(&pool->lock);
        for (int k = 0; k < pool->running - 1; k++) lab_thread_join(&pool->workers[k]);
    }
#ifdef _WIN32
    _aligned_free(pool);
#else
    free(pool);
#endif
}
