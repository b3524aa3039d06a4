// One topic: partitions, consumer groups with their lag, and what can be done with it.

import { ApiError, change, path, read } from "../api.js";
import { ask, confirmDeleting } from "../dialog.js";
import { button, facts, h, link, notice } from "../dom.js";
import { duration, limit, size, time, whole } from "../format.js";
import { PATH, readLags } from "../metrics.js";
import { every } from "../poller.js";
import { table } from "../table.js";
import { heading, trail } from "./parts.js";
import { sendMessage } from "./send.js";

const LAG_EVERY_MS = 2000;
const PARTITIONS_MAX = 1000; // of one request

/** The page. */
export async function topicView({ params, signal, reload }) {
  const above = path("streams", params.stream);
  const here = above + path("topics", params.topic);
  const [stream, topic, groups] = await Promise.all([
    read(above, { signal }),
    read(here, { signal }),
    read(`${here}/consumer-groups`, { signal }),
  ]);
  return h(
    "section",
    {},
    trail(["#/streams", "Streams"], [`#${above}`, stream.name], [null, topic.name]),
    heading(
      "h1",
      `Topic ${topic.name}`,
      h("a", { href: `#${here}/messages`, class: "button main" }, "Browse messages"),
      button("Send a message", send),
      button("Reload", reload),
      button("Empty", empty, { class: "danger" }),
      button("Delete", remove, { class: "danger" }),
    ),
    facts([
      ["Id", topic.id],
      ["Messages", whole(topic.messages_count)],
      ["Size", size(topic.size)],
      ["Messages expire", duration(topic.message_expiry)],
      ["Size limit", limit(topic.max_topic_size)],
      ["Compression", topic.compression_algorithm],
      ["Created", time(topic.created_at)],
    ]),
    heading(
      "h2",
      "Partitions",
      button("Add partitions", addPartitions),
      button("Delete partitions", removePartitions, { class: "danger" }),
    ),
    partitionTable(topic.partitions, here),
    heading("h2", "Consumer groups", button("Create a group", createGroup)),
    groupTable(groups, { here, stream: stream.name, topic: topic.name, signal }),
    optionList(topic.options),
  );

  async function send() {
    if (await sendMessage(here, topic.partitions)) reload();
  }

  async function addPartitions() {
    const isDone = await ask({
      title: "Add partitions",
      text: "Keys of messages go to other partitions from then on.",
      fields: [
        { name: "count", label: "How many", type: "number", value: 1, min: 1, max: PARTITIONS_MAX, required: true },
      ],
      action: "Add",
      run: ({ count }) => change("POST", `${here}/partitions`, { partitions_count: Number(count) }),
    });
    if (isDone) reload();
  }

  async function removePartitions() {
    const isDone = await ask({
      title: "Delete partitions?",
      text: "Those with the highest numbers go, with their messages, for good.",
      fields: [
        { name: "count", label: "How many", type: "number", value: 1, min: 1, max: PARTITIONS_MAX, required: true },
      ],
      action: "Delete",
      isDanger: true,
      typed: topic.name,
      run: ({ count }) => change("DELETE", `${here}/partitions`, undefined, { partitions_count: count }),
    });
    if (isDone) reload();
  }

  async function createGroup() {
    const isDone = await ask({
      title: "Create a consumer group",
      fields: [{ name: "name", label: "Name", required: true, maxlength: 255 }],
      action: "Create",
      run: ({ name }) => change("POST", `${here}/consumer-groups`, { name }),
    });
    if (isDone) reload();
  }

  async function empty() {
    const isDone = await confirmDeleting({
      what: `topic ${topic.name}`,
      name: topic.name,
      action: "Empty",
      text: "All messages and stored offsets go, for good. The topic stays.",
      run: () => change("DELETE", `${here}/purge`),
    });
    if (isDone) reload();
  }

  async function remove() {
    const isDone = await confirmDeleting({
      what: `topic ${topic.name}`,
      name: topic.name,
      text: "All its messages and groups go, for good.",
      run: () => change("DELETE", here),
    });
    if (isDone) location.hash = `#${above}`;
  }
}

function partitionTable(partitions, here) {
  const columns = [
    { title: "Partition", isNumber: true, cell: (one) => one.id },
    { title: "Messages", isNumber: true, cell: (one) => whole(one.messages_count) },
    { title: "Last offset", isNumber: true, cell: lastOffset },
    { title: "Size", isNumber: true, cell: (one) => size(one.size) },
    { title: "Segments", isNumber: true, cell: (one) => whole(one.segments_count) },
    {
      title: "Content",
      cell: (one) =>
        h(
          "a",
          { href: `#${here}/messages?partition=${one.id}`, "aria-label": `Browse partition ${one.id}` },
          "Browse",
        ),
    },
  ];
  return table({ label: "Partitions", columns, rows: partitions, empty: "This topic has no partitions." });
}

// The API says 0 also while nothing was ever written.
function lastOffset(partition) {
  const { current_offset: last, messages_count: count } = partition;
  return BigInt(last) === 0n && BigInt(count) === 0n ? "–" : whole(last);
}

function groupTable(groups, { here, stream, topic, signal }) {
  const lags = new Map(groups.map((one) => [one.id, h("output", {}, "…")]));
  const columns = [
    { title: "Id", isNumber: true, cell: (one) => one.id },
    { title: "Name", cell: (one) => link(`#${here}${path("groups", one.id)}`, one.name) },
    { title: "Members", isNumber: true, cell: (one) => whole(one.members_count) },
    { title: "Lag", isNumber: true, cell: (one) => lags.get(one.id) },
  ];
  const said = notice();
  if (groups.length > 0 && PATH) {
    every(LAG_EVERY_MS, signal, async () => {
      try {
        const found = await readLags(stream, topic, signal);
        for (const one of groups) lags.get(one.id).textContent = lagText(found.ofGroup(one.name));
        said.textContent = "";
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof ApiError)) throw error;
        said.textContent = `The lag is not known: ${error.message}`;
      }
    });
  } else {
    for (const output of lags.values()) output.textContent = "unknown";
  }
  return h(
    "div",
    {},
    table({
      label: "Consumer groups",
      columns,
      rows: groups,
      text: (one) => one.name,
      empty: "This topic has no consumer groups.",
    }),
    said,
  );
}

/** A lag for people; metrics leave out what is too much. */
export function lagText(lag) {
  return lag === undefined ? "unknown" : whole(lag);
}

function optionList(options) {
  const rows = Object.entries(options);
  const columns = [
    { title: "Option", cell: ([key]) => h("code", {}, key) },
    { title: "Value", cell: ([, one]) => one.value },
    { title: "From", cell: ([, one]) => (one.explicit ? "this topic" : "the broker") },
  ];
  return h(
    "details",
    {},
    h("summary", {}, "Options in force"),
    table({ label: "Options", columns, rows, empty: "None." }),
  );
}
