// kernel half(x: f32[n, 4]) -> (y: f32[n, 4])
#include <stddef.h>
#define PART 0.5f
static float part(float x) { return PART * x; }
void half(const float *x, float *y, long n, long task) {
    for (long i = 0; i < 4; i++) y[4 * task + i] = part(x[4 * task + i]);
}
_Static_assert(sizeof(*(float *)0) == 4, "x is f32[n, 4], but the size of float is another");
_Static_assert(sizeof(*(float *)0) == 4, "y is f32[n, 4], but the size of float is another");
void lab_alone(void *const *lab_buffers, const long long *lab_dims, long long lab_task) {
    half(lab_buffers[0], lab_buffers[1], lab_dims[0], lab_task);
}
// lab_user half c a7c8c524925c13737243a372f7533e4c4d0d0766d67113f2b106ccceca055d91 static float part(float x) { return PART * x; }
