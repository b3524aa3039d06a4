// The broker's HTTP API, and nothing else: what the console can do, any client can.

import { parseExact } from "./json.js";
import * as session from "./session.js";

const ANSWER_MS = 30_000; // how long an answer may take
const UNAUTHENTICATED = 401;
const FORBIDDEN = 403;
const NOT_FOUND = 404;

/** What the broker refused, or why there is no answer; the message is for people. */
export class ApiError extends Error {
  /** `status`: of HTTP; 0: the broker did not answer. */
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }

  get isForbidden() {
    return this.status === FORBIDDEN;
  }

  get isMissing() {
    return this.status === NOT_FOUND;
  }
}

/** GET: the JSON of the answer. */
export function read(path, { query, signal } = {}) {
  return call("GET", path, { query, signal }).then((answer) => json(answer));
}

/** GET of plain text. */
export function readText(path, { signal } = {}) {
  return call("GET", path, { signal }).then((answer) => answer.text());
}

/** POST, PUT or DELETE: the JSON of the answer, or null. */
export function change(method, path, body, query) {
  return call(method, path, { query, body }).then((answer) => json(answer));
}

/** Log in by name and password. */
export async function logIn(username, password) {
  session.begin(await change("POST", "/users/login", { username, password }));
}

/** Log in with a personal access token. */
export async function logInWithToken(token) {
  session.begin(await change("POST", "/personal-access-tokens/login", { token }));
}

/** End the token at the broker, and forget it whatever that answers. */
export async function logOut() {
  let problem = "";
  try {
    await change("DELETE", "/users/logout");
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    problem = `Forgotten here, but the token is good until it expires. ${error.message}`;
  }
  session.end(problem);
}

/** A path from texts and numbers, each one segment. */
export function path(...segments) {
  return segments.map((segment) => `/${encodeURIComponent(segment)}`).join("");
}

async function call(method, where, { query, body, signal } = {}) {
  const login = session.current();
  const headers = { accept: "application/json" };
  if (login !== null) headers.authorization = `Bearer ${login.token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const limit = AbortSignal.timeout(ANSWER_MS);
  const text = query === undefined ? "" : `?${new URLSearchParams(query)}`;
  let answer;
  try {
    answer = await fetch(where + text, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    });
  } catch (error) {
    signal?.throwIfAborted();
    const what = error.name === "TimeoutError" ? "does not answer" : "cannot be reached";
    throw new ApiError(0, `The broker ${what}. Is it running?`);
  }
  if (answer.ok) return answer;
  const reason = await reasonOf(answer);
  if (answer.status === UNAUTHENTICATED && login !== null) {
    session.end("Your login has ended. Log in again.");
  }
  throw new ApiError(answer.status, reason);
}

async function json(answer) {
  const text = await answer.text();
  return text === "" ? null : parseExact(text);
}

async function reasonOf(answer) {
  const text = await answer.text();
  try {
    return parseExact(text).reason;
  } catch {
    return text || `The broker answered ${answer.status}.`;
  }
}
