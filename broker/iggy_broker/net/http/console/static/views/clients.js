// Who is connected.

import { ApiError, read } from "../api.js";
import { button, h } from "../dom.js";
import { whole } from "../format.js";
import { table } from "../table.js";
import { heading } from "./parts.js";

/** The page. */
export async function clientsView({ signal, reload }) {
  const [clients, names] = await Promise.all([read("/clients", { signal }), userNames(signal)]);
  const user = (one) => (one.user_id === null ? "not logged in" : (names.get(one.user_id) ?? `user ${one.user_id}`));
  return h(
    "section",
    {},
    heading("h1", "Clients", button("Reload", reload)),
    table({
      label: "Clients",
      columns: [
        { title: "Id", isNumber: true, cell: (one) => one.client_id },
        { title: "User", cell: user },
        { title: "Address", cell: (one) => one.address },
        { title: "Transport", cell: (one) => one.transport },
        { title: "Groups", isNumber: true, cell: (one) => whole(one.consumer_groups_count) },
      ],
      rows: clients,
      text: (one) => `${user(one)} ${one.address} ${one.transport}`,
      empty: "Nobody is connected. Whoever asks over HTTP, like this page, is not counted.",
    }),
  );
}

// Who may see clients may not see users, perhaps: then there are ids.
async function userNames(signal) {
  try {
    const users = await read("/users", { signal });
    return new Map(users.map((one) => [one.id, one.username]));
  } catch (error) {
    if (error instanceof ApiError && error.isForbidden) return new Map();
    throw error;
  }
}
