package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocol;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocolCollection;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.classic.ClassicGroup;
import org.apache.kafka.coordinator.group.classic.ClassicGroupMember;
import org.apache.kafka.coordinator.group.classic.ClassicGroupState;

/**
 * Who may join, and which strategy the coordinator chooses.
 *
 * <p>A request is {@code {"steps": [{"id", "protocols", "type"} or {"id", "leave": true}]}}. The answer
 * has for each step whether the member was accepted and what is chosen then (null: no members).
 */
public final class Negotiations {
    private Negotiations() {
    }

    public static void main(String[] args) throws IOException {
        JsonLines.serve(Negotiations::answer);
    }

    private static JsonNode answer(JsonNode request) {
        ClassicGroup group =
            new ClassicGroup(new LogContext(), "group", ClassicGroupState.EMPTY, Time.SYSTEM);
        ArrayNode answers = JsonLines.JSON.createArrayNode();
        for (JsonNode step : request.get("steps")) {
            ObjectNode answer = answers.addObject();
            answer.put("accepted", step.has("leave") ? leave(group, step) : join(group, step));
            answer.put("selected", group.numMembers() == 0 ? null : group.selectProtocol());
        }
        return answers;
    }

    private static boolean leave(ClassicGroup group, JsonNode step) {
        group.remove(step.get("id").asText());
        if (group.numMembers() == 0 && !group.isInState(ClassicGroupState.EMPTY)) {
            group.transitionTo(ClassicGroupState.EMPTY);
        }
        return true;
    }

    private static boolean join(ClassicGroup group, JsonNode step) {
        String id = step.get("id").asText();
        String type = step.get("type").asText();
        JoinGroupRequestProtocolCollection protocols = new JoinGroupRequestProtocolCollection();
        for (JsonNode name : step.get("protocols")) {
            protocols.add(new JoinGroupRequestProtocol().setName(name.asText()).setMetadata(new byte[0]));
        }
        // The coordinator asks this of whoever joins, known or new.
        if (!group.supportsProtocols(type, protocols)) {
            return false;
        }
        if (group.hasMember(id)) {
            group.updateMember(group.member(id), protocols, 1000, 1000, new CompletableFuture<>());
        } else {
            group.add(new ClassicGroupMember(
                id, Optional.empty(), "client", "host", 1000, 1000, type, protocols));
        }
        if (group.isInState(ClassicGroupState.EMPTY)) {
            group.transitionTo(ClassicGroupState.PREPARING_REBALANCE);
        }
        return true;
    }
}
