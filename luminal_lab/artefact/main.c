// Runs $NAME once, on inputs that are all zero, and prints what comes out. Change it as you like.

#define _POSIX_C_SOURCE 200112L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "$NAME.h"

#ifdef _WIN32
static const void *map(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    void *data = 0;
    if (file && !fseek(file, 0, SEEK_END) && (*bytes = (size_t)ftell(file)) != 0) {
        data = malloc(*bytes);
        rewind(file);
        if (data && fread(data, 1, *bytes, file) != *bytes) data = 0;
    }
    if (file) fclose(file);
    return data;
}
#else
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
static const void *map(const char *path, size_t *bytes) {
    struct stat about;
    const int file = open(path, O_RDONLY);
    if (file < 0) return 0;
    void *data = MAP_FAILED;
    if (!fstat(file, &about) && about.st_size > 0)
        data = mmap(0, *bytes = (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    return data == MAP_FAILED ? 0 : data;
}
#endif

static int fail(const char *what, int code) {
    fprintf(stderr, "%s: %s\n", what, $NAME_says(code));
    return 1;
}

static void *zeros(size_t count, size_t size) {
    return calloc(count ? count : 1, size);
}

int main(int count, char **words) {
    size_t bytes = 0;
    const char *file = count > 1 ? words[1] : "weights.safetensors";
    const void *weights = map(file, &bytes);
    if (!weights && $NAME_weight_bytes) {
        fprintf(stderr, "%s cannot be read, or is empty: $NAME WEIGHTS says where it is\n", file);
        return 1;
    }
    int code = $NAME_open(weights, bytes);
    if (code) return fail("open", code);
    const $NAME_dims dims = {$SIZES};
    int64_t sizes[$NAME_axes];
    code = $NAME_sizes_of(&dims, sizes);
    if (code) return fail("sizes", code);
    void *arena = malloc((size_t)sizes[0]);
    if (!arena) return fail("arena", $NAME_missing);
$BODY
    return 0;
}
