// Logging in, by name and password or with a personal access token.

import { ApiError, logIn, logInWithToken } from "../api.js";
import { h, notice } from "../dom.js";
import { endedFor } from "../session.js";

/** The page for who is not logged in. */
export function loginView() {
  const name = h("input", { autocomplete: "username", required: true, class: "first" });
  const password = h("input", { type: "password", autocomplete: "current-password", required: true });
  const token = h("input", { type: "password", autocomplete: "off", required: true });
  const said = notice("alert");
  said.textContent = endedFor;
  return h(
    "section",
    { class: "login" },
    h("h1", {}, "Log in"),
    location.protocol === "http:" && !isLoopback(location.hostname)
      ? h("p", { class: "hint" }, "This connection is not encrypted: others may read what you type.")
      : null,
    said,
    form(
      said,
      [h("label", {}, h("span", {}, "Name"), name), h("label", {}, h("span", {}, "Password"), password)],
      "Log in",
      () => logIn(name.value, password.value),
    ),
    h(
      "details",
      {},
      h("summary", {}, "Use a personal access token"),
      form(said, [h("label", {}, h("span", {}, "Token"), token)], "Log in with the token", () =>
        logInWithToken(token.value.trim()),
      ),
    ),
  );
}

function form(said, labels, action, run) {
  const submit = h("button", { class: "main" }, action);
  const made = h("form", {}, labels, submit);
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    said.textContent = "";
    try {
      await run();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      said.textContent = error.message;
    } finally {
      submit.disabled = false;
    }
  });
  return made;
}

function isLoopback(host) {
  return host === "localhost" || host === "[::1]" || host.startsWith("127.");
}
