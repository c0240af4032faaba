package io.partage.assignors.broker;

import java.util.Locale;
import org.apache.kafka.common.config.ConfigException;

/** Values of the broker's configuration. */
final class Settings {
    private Settings() {
    }

    /** Returns a setting that is true or false; text may have any case. */
    static boolean flag(String setting, Object value) {
        switch (value.toString().trim().toLowerCase(Locale.ROOT)) {
            case "true":
                return true;
            case "false":
                return false;
            default:
                throw new ConfigException(setting, value, "must be true or false");
        }
    }
}
