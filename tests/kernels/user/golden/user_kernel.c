#include <stddef.h>
// All kernels are one source: within it the names of this one are its own.
#define half kernel_half_2__half
#define part kernel_half_2__part
// kernel half(x: f32[n, 4]) -> (y: f32[n, 4])

#define PART 0.5f
static float part(float x) { return PART * x; }
void half(const float *x, float *y, long n, long task) {
    for (long i = 0; i < 4; i++) y[4 * task + i] = part(x[4 * task + i]);
}
static void kernel_half_2(LAB_GIVEN) {
    const lab_i64 seq = lab_dims[0];
    half(lab_buffers[0], lab_buffers[1], seq, lab_task);
    (void)lab_dims, (void)lab_step, (void)lab_fault, (void)lab_task;
    (void)lab_scratch;
}
#undef half
#undef part
#undef PART
// lab_user half c a7c8c524925c13737243a372f7533e4c4d0d0766d67113f2b106ccceca055d91 static float part(float x) { return PART * x; }