package io.partage.assignors.client;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.TopicPartition;

/**
 * The trailer that Partage's members append to user data: claims with their generation, and loads.
 *
 * <p>A member of an eager group has revoked everything when it joins, and tells here what it owned.
 * The bytes are {@code claims: array of {string topic, array of int32}}, {@code int32 generation},
 * {@code loads: array of {string topic, array of {int32 partition, int64 measured, int64 held}}}, then
 * the length of all that (int32) and the text PTG1.
 */
final class Trailer {
    private static final int MARKER = 0x50544731;
    private static final int TAIL = 8;

    final List<TopicPartition> claims = new ArrayList<>();
    final int generation;
    /** Whether the member measured loads, which the assignors of this jar do not use. */
    final boolean hasLoads;

    private Trailer(ByteBuffer body) {
        for (int left = size(body); left > 0; left--) {
            String topic = text(body);
            for (int numbers = size(body); numbers > 0; numbers--) {
                claims.add(new TopicPartition(topic, body.getInt()));
            }
        }
        generation = body.getInt();
        int loads = size(body);
        hasLoads = loads > 0;
        for (int left = loads; left > 0; left--) {
            text(body);
            for (int rows = size(body); rows > 0; rows--) {
                body.getInt();
                body.getLong();
                body.getLong();
            }
        }
        if (body.hasRemaining()) {
            throw new BufferUnderflowException();
        }
    }

    /** Returns the trailer of user data; null if there is none or it is damaged. */
    static Trailer of(ByteBuffer userData) {
        if (userData == null || userData.remaining() < TAIL) {
            return null;
        }
        ByteBuffer data = userData.duplicate();
        int end = data.limit();
        int length = data.getInt(end - TAIL);
        if (data.getInt(end - Integer.BYTES) != MARKER || length < 0 || length > data.remaining() - TAIL) {
            return null;
        }
        data.position(end - TAIL - length);
        data.limit(end - TAIL);
        try {
            return new Trailer(data);
        } catch (BufferUnderflowException | IllegalArgumentException damaged) {
            return null;
        }
    }

    /** Returns the trailer without claims and loads, by which members know that a leader assigned. */
    static ByteBuffer empty() {
        ByteBuffer out = ByteBuffer.allocate(20);
        out.putInt(0).putInt(-1).putInt(0).putInt(12).putInt(MARKER).flip();
        return out;
    }

    private static int size(ByteBuffer body) {
        int size = body.getInt();
        if (size < 0 || size > body.remaining()) {
            throw new BufferUnderflowException();
        }
        return size;
    }

    private static String text(ByteBuffer body) {
        int length = body.getShort();
        if (length < 0 || length > body.remaining()) {
            throw new BufferUnderflowException();
        }
        byte[] bytes = new byte[length];
        body.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
