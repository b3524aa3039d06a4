// The frame around every page: who is logged in, where one can go, and what went wrong.

import * as api from "./api.js";
import { button, h, link } from "./dom.js";
import { find } from "./router.js";
import * as session from "./session.js";
import { themeButton } from "./theme.js";
import { loginView } from "./views/login.js";

const PLACES = [
  ["#/", "Overview"],
  ["#/streams", "Streams"],
  ["#/clients", "Clients"],
  ["#/users", "Users"],
];
const LATE_MS = 1000; // after its expiry the broker is asked about a token
const ASK_AGAIN_MS = 5000; // while the broker's clock says that it is still good
const TIMER_MS_MAX = 2_147_483_647; // of the browser: 24 days

const main = h("main", { id: "main", tabindex: "-1" });
const links = PLACES.map(([place, text]) => link(place, text));
const who = h("span", { class: "who" });
const loggedIn = h(
  "div",
  { class: "account" },
  who,
  button("Log out", api.logOut, { class: "quiet" }),
);
const nav = h("nav", { "aria-label": "Main" }, links);
const skip = button("Skip to the content", () => main.focus(), { class: "skip" });

let leaving = new AbortController(); // aborted when the page is left
let expiryTimer = null;

document.body.append(
  skip,
  h("header", {}, h("strong", {}, "IggyKube"), nav, h("div", { class: "tools" }, themeButton(), loggedIn)),
  main,
);
addEventListener("hashchange", () => show());
session.changes.addEventListener("begin", () => show());
session.changes.addEventListener("end", () => show());
show();

/** Show the page of the address, or the login. */
async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
  clearTimeout(expiryTimer);
  const login = session.current();
  nav.hidden = login === null;
  loggedIn.hidden = login === null;
  if (login === null) return put(loginView(), "Log in");
  watchExpiry(login);
  tellWho(login);
  const { view, title, params, query } = find(location.hash);
  for (const one of links) mark(one);
  main.setAttribute("aria-busy", "true");
  try {
    const page = await view({ params, query, signal, reload: show });
    if (!signal.aborted) put(page, title);
  } catch (error) {
    if (signal.aborted) return undefined;
    put(problem(error), "Not shown");
    if (!(error instanceof api.ApiError)) throw error; // a bug: the browser's console has it, too
  }
  return undefined;
}

function put(page, title) {
  document.title = `${title} – IggyKube`;
  main.removeAttribute("aria-busy");
  main.replaceChildren(page);
  const heading = main.querySelector("h1");
  const first = main.querySelector(".first");
  heading.setAttribute("tabindex", "-1");
  (first ?? heading).focus();
}

function problem(error) {
  const [title, hint] = error.isForbidden
    ? ["You may not see this", "Ask an administrator for the permission, or log in as somebody else."]
    : error.isMissing
      ? ["This is not there", "It was deleted, or the address is wrong."]
      : ["This cannot be shown", "Nothing was changed. Try again."];
  return h(
    "section",
    {},
    h("h1", {}, title),
    h("p", { role: "alert", class: "notice alert" }, error.message),
    h("p", {}, hint),
    button("Try again", () => show(), { class: "main" }),
  );
}

function mark(one) {
  const place = one.getAttribute("href");
  const isHere = place === "#/" ? ["", "#/"].includes(location.hash) : location.hash.startsWith(place);
  if (isHere) one.setAttribute("aria-current", "page");
  else one.removeAttribute("aria-current");
}

// The broker's clock counts, not this one: it is asked, and answers 401 once the token has expired.
function watchExpiry({ expiry }) {
  const inMs = Math.max(0, expiry * 1000 - Date.now()) + LATE_MS;
  if (inMs < TIMER_MS_MAX) expiryTimer = setTimeout(askExpiry, inMs);
}

async function askExpiry() {
  await api.read("/users/me").catch(() => {});
  if (session.current() !== null) expiryTimer = setTimeout(askExpiry, ASK_AGAIN_MS);
}

async function tellWho({ userId }) {
  if (who.dataset.userId === String(userId)) return;
  who.dataset.userId = userId;
  who.textContent = `user ${userId}`;
  try {
    who.textContent = (await api.read("/users/me")).username;
  } catch (error) {
    if (!(error instanceof api.ApiError)) throw error;
  }
}
