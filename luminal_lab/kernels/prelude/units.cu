// CUDA's tensor units and asynchronous copies, in PTX; and what each lane of a warp holds.
//
// A warp multiplies a tile of 16 by 16 by one of 16 by 8 (of 16 by 8 and 8 by 8 for tf32), and adds
// the product to one of 16 by 8. Lane 4 g + t has, with two 16-bit floats in a word each:
//
//          a: 16 rows, 16 of k                b: 16 of k, 8 columns      c: 16 rows, 8 columns
//     a[0] = (g,     2 t), (g,     2 t + 1)   b[0] = (2 t,     g), …     c[0] = (g,     2 t)
//     a[1] = (g + 8, 2 t), …                         (2 t + 1, g)        c[1] = (g,     2 t + 1)
//     a[2] = (g,     2 t + 8), …              b[1] = (2 t + 8, g), …     c[2] = (g + 8, 2 t)
//     a[3] = (g + 8, 2 t + 8), …                     (2 t + 9, g)        c[3] = (g + 8, 2 t + 1)
//
// and for tf32, with one in a word,
//
//     a[0] = (g, t)    a[1] = (g + 8, t)      b[0] = (t, g)              c as above
//     a[2] = (g, t + 4)  a[3] = (g + 8, t + 4)  b[1] = (t + 4, g)
//
// So c of one product, its floats packed in pairs, is a of the next. PTX ISA, "Matrix Fragments for
// mma.m16n8k16" and "…m16n8k8", and "ldmatrix". sm_75 has units for f16 alone, of half that depth:
// two of those make one here, and for bf16 and tf32 its lanes hand each other what they need.

static __device__ __forceinline__ int lab_tile_row(int e) { return (int)(threadIdx.x % 32) / 4 + e / 2 * 8; }

static __device__ __forceinline__ int lab_tile_column(int e) { return (int)(threadIdx.x % 4) * 2 + e % 2; }

// To nearest, ties away from 0; before 8.0 there is no such instruction.
static __device__ __forceinline__ lab_u32 lab_cast_f32_tf32(float x) {
#if __CUDA_ARCH__ >= 800
    lab_u32 y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
#else
    lab_u32 u = __float_as_uint(x);
    return (u & 0x7f800000) == 0x7f800000 ? u : u + 0x1000 & 0xffffe000;
#endif
}

static __device__ __forceinline__ void lab_mma_f16(float *c, const lab_u32 *a, const lab_u32 *b) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    for (int half = 0; half < 2; half++) {
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
    }
#endif
}

// The products of rows with columns, whose parts lanes get from each other, one after another.
static __device__ __forceinline__ void lab_mma_passed(float *c, const lab_u32 *a, const lab_u32 *b, int halves) {
    const int lane = (int)(threadIdx.x % 32), row = lane & 28, column = lane % 4 * 8;
    for (int t = 0; t < 4; t++) {
        lab_u32 rows[4], columns[4];
        for (int e = 0; e < 4; e++) {
            rows[e] = __shfl_sync(0xffffffff, a[e], row + t);
            // b[0] of both columns, then b[1] of both
            columns[e] = __shfl_sync(0xffffffff, b[e / 2], column + e % 2 * 4 + t);
        }
        for (int e = 0; e < 4; e++) {
            for (int half = 0; half < 2; half++) {
                lab_u32 x = rows[e / 2 + 2 * half], y = columns[e % 2 + 2 * half];
                if (halves) c[e] = fmaf(__uint_as_float(x << 16), __uint_as_float(y << 16), c[e]);
                x &= halves ? 0xffff0000 : 0xffffffff;
                y &= halves ? 0xffff0000 : 0xffffffff;
                c[e] = fmaf(__uint_as_float(x), __uint_as_float(y), c[e]);
            }
        }
    }
}

static __device__ __forceinline__ void lab_mma_$PASSED(float *c, const lab_u32 *a, const lab_u32 *b) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k$DEPTH.row.col.f32.$PASSED.$PASSED.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    lab_mma_passed(c, a, b, $HALVES);
#endif
}

// Past L1: the copy is read from shared memory. Before 8.0 it arrives at once.
static __device__ __forceinline__ void lab_copy_async_16(void *to, const void *from, int bytes) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        : : "r"((lab_u32)__cvta_generic_to_shared(to)),
          "l"(__cvta_generic_to_global(from)), "r"(bytes) : "memory");
#else
    if (bytes == 16) {
        *(uint4 *)to = *(const uint4 *)from;
    } else {
        for (int i = 0; i < 16; i++) ((lab_u8 *)to)[i] = i < bytes ? ((const lab_u8 *)from)[i] : 0;
    }
#endif
}

static __device__ __forceinline__ void lab_copy_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}

// This thread's copies are waited for; lab_sync() makes the others' visible, too.
static __device__ __forceinline__ void lab_copy_wait(int groups) {
#if __CUDA_ARCH__ >= 800
    $EACH(8) if (groups == $N) asm volatile("cp.async.wait_group $N;" : : : "memory");
#endif
}

// Row r and k are at at[r * stride + k]. Rows of 16 bytes are read in one access if they begin at
// multiples of that: for a shared array with __align__(16) the compiler knows, and keeps only one
// way.
static __device__ __forceinline__ void lab_tile_a_$HALF(lab_u32 *a, const lab_$HALF *at, int stride) {
    const int lane = (int)(threadIdx.x % 32);
    if ((((lab_u32)__cvta_generic_to_shared(at) | (lab_u32)(2 * stride)) & 15) == 0) {
        const lab_$HALF *row = at + lane % 16 * stride + lane / 16 * 8;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
            : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
            : "r"((lab_u32)__cvta_generic_to_shared(row)) : "memory");
    } else {
        for (int e = 0; e < 4; e++) {
            const lab_$HALF *pair = at + (lane / 4 + e % 2 * 8) * stride + lane % 4 * 2 + e / 2 * 8;
            a[e] = pair[0] | (lab_u32)pair[1] << 16;
        }
    }
}

// k and column c are at at[k * rows + c * columns].
static __device__ __forceinline__ void lab_tile_b_$HALF(lab_u32 *b, const lab_$HALF *at, int rows, int columns) {
    const int lane = (int)(threadIdx.x % 32);
    const lab_u32 place = (lab_u32)__cvta_generic_to_shared(at);
    if (columns == 1 && ((place | (lab_u32)(2 * rows)) & 15) == 0) {
        const lab_$HALF *row = at + lane % 16 * rows;
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
            : "=r"(b[0]), "=r"(b[1]) : "r"((lab_u32)__cvta_generic_to_shared(row)) : "memory");
    } else if (rows == 1 && ((place | (lab_u32)(2 * columns)) & 15) == 0) {
        const lab_$HALF *column = at + lane % 8 * columns + lane / 8 % 2 * 8;
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
            : "=r"(b[0]), "=r"(b[1]) : "r"((lab_u32)__cvta_generic_to_shared(column)) : "memory");
    } else {
        for (int e = 0; e < 2; e++) {
            const lab_$HALF *pair = at + (lane % 4 * 2 + e * 8) * rows + lane / 4 * columns;
            b[e] = pair[0] | (lab_u32)pair[rows] << 16;
        }
    }
}

// Four floats are 16 bytes of a row: ldmatrix takes them for eight halves, and gives each lane one.
static __device__ __forceinline__ void lab_tile_a_tf32(lab_u32 *a, const float *at, int stride) {
    const int lane = (int)(threadIdx.x % 32);
    if ((((lab_u32)__cvta_generic_to_shared(at) | (lab_u32)(4 * stride)) & 15) == 0) {
        const float *row = at + lane % 16 * stride + lane / 16 * 4;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
            : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
            : "r"((lab_u32)__cvta_generic_to_shared(row)) : "memory");
    } else {
        for (int e = 0; e < 4; e++) {
            const int row = lane / 4 + e % 2 * 8;
            a[e] = __float_as_uint(at[row * stride + lane % 4 + e / 2 * 4]);
        }
    }
    for (int e = 0; e < 4; e++) a[e] = lab_cast_f32_tf32(__uint_as_float(a[e]));
}

static __device__ __forceinline__ void lab_tile_b_tf32(lab_u32 *b, const float *at, int rows, int columns) {
    const int lane = (int)(threadIdx.x % 32);
    const lab_u32 place = (lab_u32)__cvta_generic_to_shared(at);
    if (rows == 1 && ((place | (lab_u32)(4 * columns)) & 15) == 0) {
        const float *column = at + lane % 8 * columns + lane / 8 % 2 * 4;
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
            : "=r"(b[0]), "=r"(b[1]) : "r"((lab_u32)__cvta_generic_to_shared(column)) : "memory");
    } else {
        for (int e = 0; e < 2; e++) {
            b[e] = __float_as_uint(at[(lane % 4 + e * 4) * rows + lane / 4 * columns]);
        }
    }
    for (int e = 0; e < 2; e++) b[e] = lab_cast_f32_tf32(__uint_as_float(b[e]));
}
