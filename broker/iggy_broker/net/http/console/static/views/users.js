// All users.

import { change, path, read } from "../api.js";
import { ask } from "../dialog.js";
import { button, h, link } from "../dom.js";
import { made } from "../format.js";
import { table } from "../table.js";
import { heading } from "./parts.js";

/** Permissions everywhere: the name in the API, and what they let one do. */
export const PERMISSIONS = [
  ["manage_servers", "Manage the server"],
  ["read_servers", "See the server: figures and clients"],
  ["manage_users", "Manage users"],
  ["read_users", "See users"],
  ["manage_streams", "Manage streams, and all in them"],
  ["read_streams", "See streams, and all in them"],
  ["manage_topics", "Manage topics"],
  ["read_topics", "See topics"],
  ["poll_messages", "Read messages"],
  ["send_messages", "Send messages"],
];

/** The page. */
export async function usersView({ signal, reload }) {
  const users = await read("/users", { signal });
  return h(
    "section",
    {},
    heading(
      "h1",
      "Users",
      button("Reload", reload),
      button("Create a user", create, { class: "main" }),
    ),
    table({
      label: "Users",
      columns: [
        { title: "Id", isNumber: true, cell: (one) => one.id },
        { title: "Name", cell: (one) => link(`#${path("users", one.id)}`, one.username) },
        { title: "Status", cell: (one) => one.status },
        { title: "Created", cell: (one) => made(one.created_at) },
      ],
      rows: users,
      text: (one) => one.username,
      empty: "There are no users.",
    }),
  );

  async function create() {
    const isDone = await ask({
      title: "Create a user",
      fields: [
        { name: "username", label: "Name", required: true, maxlength: 50 },
        { name: "password", label: "Password", type: "password", required: true, autocomplete: "new-password" },
        ...PERMISSIONS.map(([name, label]) => ({ name, label, type: "checkbox" })),
      ],
      action: "Create",
      run: ({ username, password, ...everywhere }) =>
        change("POST", "/users", {
          username,
          password,
          status: "active",
          permissions: { global: everywhere },
        }),
    });
    if (isDone) reload();
  }
}
