// One user and what it may do.

import { change, path, read } from "../api.js";
import { confirmDeleting } from "../dialog.js";
import { button, facts, h, notice } from "../dom.js";
import { made } from "../format.js";
import { table } from "../table.js";
import { heading, trail } from "./parts.js";
import { PERMISSIONS } from "./users.js";

/** The page. */
export async function userView({ params, signal, reload }) {
  const here = path("users", params.user);
  const user = await read(here, { signal });
  const isActive = user.status === "active";
  const said = notice("alert");
  return h(
    "section",
    {},
    trail(["#/users", "Users"], [null, user.username]),
    heading(
      "h1",
      `User ${user.username}`,
      button(isActive ? "Make inactive" : "Make active", turn),
      button("Delete", remove, { class: "danger" }),
    ),
    said,
    facts([
      ["Id", user.id],
      ["Status", user.status],
      ["Created", made(user.created_at)],
    ]),
    h("h2", {}, "Everywhere"),
    everywhere(user.permissions),
    h("h2", {}, "In streams and topics"),
    inParts(user.permissions),
  );

  async function turn() {
    said.textContent = "";
    try {
      await change("PUT", here, { status: isActive ? "inactive" : "active" });
      reload();
    } catch (error) {
      said.textContent = error.message;
    }
  }

  async function remove() {
    const isDone = await confirmDeleting({
      what: `user ${user.username}`,
      name: user.username,
      text: "Its tokens and logins end at once. What it wrote stays.",
      run: () => change("DELETE", here),
    });
    if (isDone) location.hash = "#/users";
  }
}

function everywhere(permissions) {
  const granted = PERMISSIONS.filter(([name]) => permissions?.global[name]);
  if (granted.length === 0) return h("p", { class: "empty" }, "No permissions everywhere.");
  return h("ul", {}, granted.map(([, text]) => h("li", {}, text)));
}

function inParts(permissions) {
  const rows = Object.entries(permissions?.streams ?? {}).flatMap(([stream, { topics, ...flags }]) => [
    { place: `stream ${stream}`, flags },
    ...Object.entries(topics ?? {}).map(([topic, one]) => ({
      place: `stream ${stream}, topic ${topic}`,
      flags: one,
    })),
  ]);
  const columns = [
    { title: "Where", cell: (one) => one.place },
    { title: "What", cell: (one) => words(one.flags) },
  ];
  return table({ label: "Permissions in parts", columns, rows, empty: "None of its own." });
}

function words(flags) {
  const granted = Object.keys(flags).filter((name) => flags[name]);
  return granted.map((name) => name.replaceAll("_", " ")).join(", ") || "nothing";
}
