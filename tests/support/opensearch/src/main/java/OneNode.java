import java.util.Collections;
import java.util.List;
import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/** OpenSearch with one node: arguments are a folder and the port of its HTTP interface. */
public class OneNode extends Node {
    OneNode(Settings settings) {
        super(
            InternalSettingsPreparer.prepareEnvironment(
                settings, Collections.emptyMap(), null, () -> "one"),
            List.of(Netty4Plugin.class), false);
    }

    public static void main(String[] arguments) throws Exception {
        Settings settings = Settings.builder()
            .put("path.home", arguments[0])
            .put("cluster.name", "tests")
            .put("network.host", "127.0.0.1")
            .put("http.port", arguments[1])
            .put("http.type", "netty4")
            .put("transport.type", "netty4")
            .put("discovery.type", "single-node")
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
        new OneNode(settings).start();
        Thread.sleep(Long.MAX_VALUE);
    }
}
