// Features of Hopper alone (sm_90a): products of a warpgroup, bulk copies, barriers that count
// bytes.
//
// Four warps multiply together, both tiles in shared memory:
//
//     lab_wgmma_U_nN(c, a, b, more)        c (64 rows, N columns) = a b, or += where `more` is not 0;
//                                          U in f16 bf16 tf32, N = 8, 16, … 256; 16 of k, of tf32 8
//     lab_wgmma_U_nN_rows(c, a, b, more)   the same, b with its columns side by side (f16, bf16)
//     lab_wgmma_matrix(at, leading, stride, swizzle)   where a tile is, which a and b above are
//     lab_wgmma_begin()                    before the first product that reads registers just set
//     lab_group_row(e), lab_group_column(e)  where element e of this thread's part of c lies
//     lab_wgmma_commit()                   the products so far are a group
//     lab_wgmma_wait(n)                    until at most n < 4 groups are under way
//     lab_wgmma_keep(c, n)                 before the first product and behind that: no compiler moves
//                                          what is done to n registers of c across it
//     lab_swizzled_128(row, byte)          where a byte of a row of 128 is in a tile as below
//     lab_registers_fall_N(), lab_registers_rise_N()   from here on, the threads of four warps have N
//                                          registers each: 24, 32, … 256. Those who rise wait for those
//                                          who fall, and the kernel says __launch_bounds__(threads, 1)
//
// Lane 4 g + t of warp w has float c[4 i + e] at row 16 w + lab_tile_row(e), column 8 i +
// lab_tile_column(e). A tile with contiguous k is in shared memory, at a multiple of 1024 bytes, in
// rows of 128 bytes, 8 of which are 1024 bytes; in row r its 16-byte pieces j are at j ^ (r % 8):
// swizzle 1, stride 1024, leading 16, which is ignored; the next k are 32 bytes further on. A tile
// of b with contiguous columns has k for rows, each of 128 bytes of columns: stride 1024 is from 8
// of k to the next 8, leading from 128 bytes of columns to the next. A bulk copy lays tiles out in
// the same way if its map says CU_TENSOR_MAP_SWIZZLE_128B.
//
//     lab_barrier_init(at, threads)        a barrier in shared memory, lab_u64, by one thread; then
//     lab_barrier_seen()                   that thread makes it known to copies, and lab_sync()
//     lab_barrier_expect(at, bytes)        one thread arrives, and `bytes` more are copied
//     lab_barrier_arrive(at)               one thread arrives
//     lab_barrier_wait(at, phase)          until all have: phase is 0, then 1, then 0, …
//     lab_bulk_copy(to, from, bytes, at)   a multiple of 16 bytes from memory to shared memory
//     lab_bulk_tile(to, map, x, y, at)     a tile of a matrix by its map, which the kernel is given as
//                                          `const __grid_constant__ lab_tensor_map`
//     lab_bulk_written()                   makes what a thread wrote to shared memory known to products
//
// One thread issues a bulk copy. PTX ISA 9: "Asynchronous Warpgroup Level Matrix Instructions", "Data
// Movement and Conversion: cp.async.bulk", "mbarrier".

struct alignas(64) lab_tensor_map { lab_u64 words[16]; };

// Addresses and distances in 16 bytes, of 18 bits.
static __device__ __forceinline__ lab_u64 lab_wgmma_matrix(const void *at, int leading, int stride, int swizzle) {
    const lab_u64 place = (lab_u64)__cvta_generic_to_shared(at) >> 4 & 0x3fff;
    return place | (lab_u64)(leading >> 4 & 0x3fff) << 16 | (lab_u64)(stride >> 4 & 0x3fff) << 32
         | (lab_u64)swizzle << 62;
}

static __device__ __forceinline__ int lab_swizzled_128(int row, int byte) {
    return row * 128 + (byte ^ row % 8 * 16);
}

static __device__ __forceinline__ int lab_group_row(int e) {
    return (int)(threadIdx.x / 32 % 4) * 16 + (int)(threadIdx.x % 32) / 4 + e / 2 % 2 * 8;
}

static __device__ __forceinline__ int lab_group_column(int e) { return e / 4 * 8 + (int)(threadIdx.x % 4) * 2 + e % 2; }

static __device__ __forceinline__ void lab_wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }

static __device__ __forceinline__ void lab_wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
}

static __device__ __forceinline__ void lab_wgmma_wait(int groups) {
    $EACH(4) if (groups == $N) asm volatile("wgmma.wait_group.sync.aligned $N;" : : : "memory");
}

static __device__ __forceinline__ void lab_wgmma_keep(float *c, int count) {
#pragma unroll
    for (int i = 0; i < count; i++) asm volatile("" : "+f"(c[i]) : : "memory");
}

static __device__ __forceinline__ void lab_barrier_init(lab_u64 *at, int threads) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
        : : "r"((lab_u32)__cvta_generic_to_shared(at)), "r"(threads) : "memory");
}

static __device__ __forceinline__ void lab_barrier_seen() {
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

static __device__ __forceinline__ void lab_barrier_expect(lab_u64 *at, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
        : : "r"((lab_u32)__cvta_generic_to_shared(at)), "r"(bytes) : "memory");
}

static __device__ __forceinline__ void lab_barrier_arrive(lab_u64 *at) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
        : : "r"((lab_u32)__cvta_generic_to_shared(at)) : "memory");
}

static __device__ __forceinline__ void lab_barrier_wait(lab_u64 *at, int phase) {
    lab_u32 over = 0;
    while (!over) {
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
            " selp.b32 %0, 1, 0, p; }"
            : "=r"(over) : "r"((lab_u32)__cvta_generic_to_shared(at)), "r"(phase) : "memory");
    }
}

static __device__ __forceinline__ void lab_bulk_copy(void *to, const void *from, int bytes, lab_u64 *at) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        : : "r"((lab_u32)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)),
            "r"(bytes), "r"((lab_u32)__cvta_generic_to_shared(at)) : "memory");
}

static __device__ __forceinline__ void lab_bulk_tile(void *to, const lab_tensor_map *map, int x, int y, lab_u64 *at) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%2, %3}], [%4];"
        : : "r"((lab_u32)__cvta_generic_to_shared(to)), "l"(map), "r"(x), "r"(y),
            "r"((lab_u32)__cvta_generic_to_shared(at)) : "memory");
}

static __device__ __forceinline__ void lab_bulk_written() {
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

static __device__ __forceinline__ void lab_registers_$CHANGED() {
    asm volatile("setmaxnreg.$HOW.sync.aligned.u32 $COUNT;");
}

static __device__ __forceinline__ void lab_wgmma_$PRODUCT(
    float *c, lab_u64 a, lab_u64 b, int more) {
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, $MORE, 0;"
        " wgmma.mma_async.sync.aligned.$SHAPE.f32.$UNIT.$UNIT"
        " {"
        $SUMS
        "}, $MATRICES, p, 1, 1$TURNED; }"
        : $BOUND
        : "l"(a), "l"(b), "r"(more) : "memory");
}
