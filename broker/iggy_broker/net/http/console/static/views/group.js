// One consumer group: who is in it, which partitions they read, and how far behind they are.

import { ApiError, change, path, read } from "../api.js";
import { confirmDeleting } from "../dialog.js";
import { button, facts, h, notice } from "../dom.js";
import { whole } from "../format.js";
import { PATH, readLags } from "../metrics.js";
import { every } from "../poller.js";
import { table } from "../table.js";
import { heading, trail } from "./parts.js";
import { lagText } from "./topic.js";

const LAG_EVERY_MS = 2000;

/** The page. */
export async function groupView({ params, signal, reload }) {
  const above = path("streams", params.stream);
  const topicHere = above + path("topics", params.topic);
  const here = topicHere + path("consumer-groups", params.group);
  const [stream, topic, group] = await Promise.all([
    read(above, { signal }),
    read(topicHere, { signal }),
    read(here, { signal }),
  ]);
  const said = notice();
  const whole_ = h("output", {}, PATH ? "…" : "unknown");
  const lags = new Map(topic.partitions.map((one) => [one.id, h("output", {}, PATH ? "…" : "unknown")]));
  if (PATH) every(LAG_EVERY_MS, signal, showLags);
  const readers = new Map(
    group.members.flatMap((member) => member.partitions.map((partition) => [partition, member.id])),
  );

  return h(
    "section",
    {},
    trail(
      ["#/streams", "Streams"],
      [`#${above}`, stream.name],
      [`#${topicHere}`, topic.name],
      [null, group.name],
    ),
    heading(
      "h1",
      `Group ${group.name}`,
      button("Reload", reload),
      button("Delete", remove, { class: "danger" }),
    ),
    facts([
      ["Id", group.id],
      ["Members", whole(group.members_count)],
      ["Lag", whole_],
    ]),
    said,
    h("h2", {}, "Partitions"),
    table({
      label: "Partitions of the group",
      columns: [
        { title: "Partition", isNumber: true, cell: (one) => one.id },
        { title: "Read by member", isNumber: true, cell: (one) => readers.get(one.id) ?? "nobody" },
        { title: "Lag", isNumber: true, cell: (one) => lags.get(one.id) },
      ],
      rows: topic.partitions,
      empty: "The topic has no partitions.",
    }),
    h("h2", {}, "Members"),
    table({
      label: "Members",
      columns: [
        { title: "Member", isNumber: true, cell: (one) => one.id },
        { title: "Partitions", cell: (one) => one.partitions.join(", ") || "none" },
      ],
      rows: group.members,
      empty: "Nobody is in this group. Members join over TCP, WebSocket or QUIC.",
    }),
  );

  async function showLags() {
    try {
      const found = await readLags(stream.name, topic.name, signal);
      whole_.textContent = lagText(found.ofGroup(group.name));
      for (const [id, output] of lags) {
        output.textContent = lagText(found.ofPartition(group.name, id));
      }
      said.textContent = "";
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      said.textContent = `The lag is not known: ${error.message}`;
    }
  }

  async function remove() {
    const isDone = await confirmDeleting({
      what: `group ${group.name}`,
      name: group.name,
      text: "The offsets that it stored go, too, for good.",
      run: () => change("DELETE", here),
    });
    if (isDone) location.hash = `#${topicHere}`;
  }
}
