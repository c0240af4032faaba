/* Scalar murmur2 of a column of keys, as one writes it in C: the yardstick of bench_keys.py. */
#include <stdint.h>
#include <string.h>

#define M 0x5bd1e995u

void place(const uint8_t *data, const int32_t *starts, int64_t count, int32_t partitions,
           int32_t *out) {
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *key = data + starts[i];
        int32_t length = starts[i + 1] - starts[i], at = 0;
        uint32_t h = 0x9747b28cu ^ (uint32_t)length;
        for (; at + 4 <= length; at += 4) {
            uint32_t k;
            memcpy(&k, key + at, 4);
            k *= M;
            k ^= k >> 24;
            h = h * M ^ k * M;
        }
        if (at < length) {
            if (length - at == 3) h ^= (uint32_t)key[at + 2] << 16;
            if (length - at >= 2) h ^= (uint32_t)key[at + 1] << 8;
            h = (h ^ key[at]) * M;
        }
        h ^= h >> 13;
        h *= M;
        h ^= h >> 15;
        out[i] = (int32_t)((h & 0x7fffffffu) % (uint32_t)partitions);
    }
}
