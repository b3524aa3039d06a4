// Who is logged in, in this tab: the token is gone when the tab is closed.

const KEY = "iggykube.session";

/** Tells when a login began ("begin") or is over ("end"). */
export const changes = new EventTarget();

/** Why the last login is over; empty if the user ended it. */
export let endedFor = "";

/** The login: {token, userId, expiry}, the expiry in unix seconds; null if there is none. */
export function current() {
  const stored = sessionStorage.getItem(KEY);
  return stored === null ? null : JSON.parse(stored);
}

/** Keep what a login answered. */
export function begin(identity) {
  const { token, expiry } = identity.access_token;
  const kept = { token, userId: identity.user_id, expiry: Number(expiry) };
  sessionStorage.setItem(KEY, JSON.stringify(kept));
  endedFor = "";
  changes.dispatchEvent(new Event("begin"));
}

/** Forget the token. `reason` is shown at the next login. */
export function end(reason = "") {
  if (current() === null) return;
  sessionStorage.removeItem(KEY);
  endedFor = reason;
  changes.dispatchEvent(new Event("end"));
}
