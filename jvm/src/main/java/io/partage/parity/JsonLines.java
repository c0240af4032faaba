package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** One JSON value a line in, one a line out, in the same order. */
public final class JsonLines {
    public static final ObjectMapper JSON = new ObjectMapper();

    /** Answers one request. */
    public interface Answer {
        JsonNode to(JsonNode request) throws Exception;
    }

    private JsonLines() {
    }

    public static void serve(Answer answer) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode said;
            try {
                said = answer.to(JSON.readTree(line));
            } catch (Exception | StackOverflowError thrown) {
                said = JSON.createObjectNode().put("error", thrown.getClass().getSimpleName());
            }
            out.print(JSON.writeValueAsString(said));
            out.print('\n');
            // The other side may wait for this answer before it asks again.
            if (!in.ready()) {
                out.flush();
            }
        }
        out.flush();
    }
}
