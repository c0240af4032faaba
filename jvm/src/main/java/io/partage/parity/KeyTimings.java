package io.partage.parity;

import java.util.Random;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

/** How many keys a second Java's own partitionForKey places: key length, keys, partitions, rounds. */
public final class KeyTimings {
    private KeyTimings() {
    }

    public static void main(String[] args) {
        int length = Integer.parseInt(args[0]);
        int count = Integer.parseInt(args[1]);
        int partitions = Integer.parseInt(args[2]);
        int rounds = Integer.parseInt(args[3]);
        byte[][] keys = new byte[count][length];
        Random random = new Random(1);
        for (byte[] key : keys) {
            random.nextBytes(key);
        }
        int[] out = new int[count];
        long best = Long.MAX_VALUE;
        long sum = 0;
        for (int round = 0; round < rounds; round++) {
            long start = System.nanoTime();
            for (int i = 0; i < count; i++) {
                out[i] = BuiltInPartitioner.partitionForKey(keys[i], partitions);
            }
            best = Math.min(best, System.nanoTime() - start);
            for (int one : out) {
                sum += one;
            }
        }
        System.out.println(count * 1e9 / best + " " + sum);
    }
}
