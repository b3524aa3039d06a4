// Which page belongs to an address like "#/streams/1/topics/2?partition=0".

import { h, link } from "./dom.js";
import { clientsView } from "./views/clients.js";
import { groupView } from "./views/group.js";
import { messagesView } from "./views/messages.js";
import { overviewView } from "./views/overview.js";
import { streamView } from "./views/stream.js";
import { streamsView } from "./views/streams.js";
import { topicView } from "./views/topic.js";
import { userView } from "./views/user.js";
import { usersView } from "./views/users.js";

const NUMBER = /^\d{1,10}$/; // pages are addressed by ids, which renaming does not change
const ROUTES = [
  ["/", "Overview", overviewView],
  ["/streams", "Streams", streamsView],
  ["/streams/:stream", "Stream", streamView],
  ["/streams/:stream/topics/:topic", "Topic", topicView],
  ["/streams/:stream/topics/:topic/messages", "Messages", messagesView],
  ["/streams/:stream/topics/:topic/groups/:group", "Group", groupView],
  ["/clients", "Clients", clientsView],
  ["/users", "Users", usersView],
  ["/users/:user", "User", userView],
];

/** {view, title, params, query} of the part of an address behind "#". */
export function find(hash) {
  const [path, query = ""] = hash.slice(1).split("?");
  const parts = (path || "/").split("/");
  for (const [pattern, title, view] of ROUTES) {
    const params = matched(pattern.split("/"), parts);
    if (params !== null) return { view, title, params, query: new URLSearchParams(query) };
  }
  return { view: nowhere, title: "Not found", params: {}, query: new URLSearchParams() };
}

function matched(pattern, parts) {
  if (pattern.length !== parts.length) return null;
  const params = {};
  for (const [place, wanted] of pattern.entries()) {
    if (wanted.startsWith(":") && NUMBER.test(parts[place])) params[wanted.slice(1)] = parts[place];
    else if (wanted !== parts[place]) return null;
  }
  return params;
}

async function nowhere() {
  return h("section", {}, h("h1", {}, "There is no such page"), link("#/", "To the overview"));
}
