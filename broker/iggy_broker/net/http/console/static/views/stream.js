// One stream and its topics.

import { change, path, read } from "../api.js";
import { ask, confirmDeleting } from "../dialog.js";
import { button, facts, h, link } from "../dom.js";
import { duration, size, time, whole } from "../format.js";
import { table } from "../table.js";
import { heading, trail } from "./parts.js";

const HOUR_US = 3_600_000_000;
const PARTITIONS_MAX = 1000; // of one request

/** The page. */
export async function streamView({ params, signal, reload }) {
  const here = path("streams", params.stream);
  const stream = await read(here, { signal });
  const columns = [
    { title: "Id", isNumber: true, cell: (one) => one.id },
    { title: "Name", cell: (one) => link(`#${here}${path("topics", one.id)}`, one.name) },
    { title: "Partitions", isNumber: true, cell: (one) => whole(one.partitions_count) },
    { title: "Messages", isNumber: true, cell: (one) => whole(one.messages_count) },
    { title: "Size", isNumber: true, cell: (one) => size(one.size) },
    { title: "Kept for", cell: (one) => kept(one.message_expiry) },
    { title: "Created", cell: (one) => time(one.created_at) },
  ];
  return h(
    "section",
    {},
    trail(["#/streams", "Streams"], [null, stream.name]),
    heading(
      "h1",
      `Stream ${stream.name}`,
      button("Reload", reload),
      button("Empty", empty, { class: "danger" }),
      button("Delete", remove, { class: "danger" }),
    ),
    facts([
      ["Id", stream.id],
      ["Messages", whole(stream.messages_count)],
      ["Size", size(stream.size)],
      ["Created", time(stream.created_at)],
    ]),
    heading("h2", "Topics", button("Create a topic", create, { class: "main" })),
    table({
      label: "Topics",
      columns,
      rows: stream.topics,
      text: (one) => one.name,
      empty: "This stream has no topics yet.",
    }),
  );

  async function create() {
    const isDone = await ask({
      title: "Create a topic",
      fields: [
        { name: "name", label: "Name", required: true, maxlength: 255 },
        { name: "partitions", label: "Partitions", type: "number", value: 1, min: 1, max: PARTITIONS_MAX, required: true },
        { name: "hours", label: "Hours to keep messages", type: "number", min: 1, hint: "Nothing: the broker's default" },
      ],
      action: "Create",
      run: ({ name, partitions, hours }) =>
        change("POST", `${here}/topics`, {
          name,
          partitions_count: Number(partitions),
          compression_algorithm: "none",
          message_expiry: Number(hours) * HOUR_US,
          max_topic_size: 0,
        }),
    });
    if (isDone) reload();
  }

  async function empty() {
    const isDone = await confirmDeleting({
      what: `all topics of stream ${stream.name}`,
      name: stream.name,
      action: "Empty",
      text: "All messages and stored offsets go, for good. The topics stay.",
      run: () => change("DELETE", `${here}/purge`),
    });
    if (isDone) reload();
  }

  async function remove() {
    const isDone = await confirmDeleting({
      what: `stream ${stream.name}`,
      name: stream.name,
      text: "All its topics and messages go, for good.",
      run: () => change("DELETE", here),
    });
    if (isDone) location.hash = "#/streams";
  }
}

/** How long messages are kept, in words. */
function kept(us) {
  const words = duration(us);
  return words === "never" ? "ever" : words;
}
