// All streams.

import { change, path, read } from "../api.js";
import { ask } from "../dialog.js";
import { button, h, link } from "../dom.js";
import { size, time, whole } from "../format.js";
import { table } from "../table.js";
import { heading } from "./parts.js";

/** The page. */
export async function streamsView({ signal, reload }) {
  const streams = await read("/streams", { signal });
  const columns = [
    { title: "Id", isNumber: true, cell: (one) => one.id },
    { title: "Name", cell: (one) => link(`#${path("streams", one.id)}`, one.name) },
    { title: "Topics", isNumber: true, cell: (one) => whole(one.topics_count) },
    { title: "Messages", isNumber: true, cell: (one) => whole(one.messages_count) },
    { title: "Size", isNumber: true, cell: (one) => size(one.size) },
    { title: "Created", cell: (one) => time(one.created_at) },
  ];
  return h(
    "section",
    {},
    heading(
      "h1",
      "Streams",
      button("Reload", reload),
      button("Create a stream", create, { class: "main" }),
    ),
    table({
      label: "Streams",
      columns,
      rows: streams,
      text: (one) => one.name,
      empty: "There are no streams yet. Create one, or let a client do it.",
    }),
  );

  async function create() {
    const isDone = await ask({
      title: "Create a stream",
      fields: [{ name: "name", label: "Name", required: true, maxlength: 255 }],
      action: "Create",
      run: ({ name }) => change("POST", "/streams", { name }),
    });
    if (isDone) reload();
  }
}
