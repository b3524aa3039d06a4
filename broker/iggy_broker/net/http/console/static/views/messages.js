// Browsing the messages of a partition: from an offset or a time on, the oldest or the newest.

import { ApiError, path, read } from "../api.js";
import { control } from "../dialog.js";
import { h, link } from "../dom.js";
import { timeZone, whole } from "../format.js";
import { FORMATS } from "../payload.js";
import { messageList } from "./message.js";
import { trail } from "./parts.js";

const COUNTS = ["10", "25", "50", "100"]; // messages of one page
const STARTS = [
  ["first", "the oldest"],
  ["last", "the newest"],
  ["offset", "an offset"],
  ["timestamp", "a time"],
];
const WORDS = { auto: "as they seem", text: "text", json: "JSON", hex: "hex" };
const US_PER_MS = 1000n;
const DIGITS = /^\d{1,20}$/;

/** The page. What is shown is in the address, so it can be passed on and gone back to. */
export async function messagesView({ params, query, signal }) {
  const above = path("streams", params.stream);
  const topicHere = above + path("topics", params.topic);
  const here = `${topicHere}/messages`;
  const [stream, topic] = await Promise.all([read(above, { signal }), read(topicHere, { signal })]);
  const asked = askedOf(query);
  const result = h("div");
  const form = startForm(asked, topic.partitions, (next) => {
    const place = `#${here}?${new URLSearchParams(next)}`;
    if (location.hash === place) load();
    else location.hash = place;
  });
  let shownFormat = () => {};
  form.format.addEventListener("change", () => {
    asked.as = form.format.value;
    history.replaceState(null, "", `#${here}?${new URLSearchParams(asked)}`);
    shownFormat(asked.as);
  });
  await load();
  return h(
    "section",
    {},
    trail(
      ["#/streams", "Streams"],
      [`#${above}`, stream.name],
      [`#${topicHere}`, topic.name],
      [null, "messages"],
    ),
    h("h1", {}, `Messages of ${topic.name}`),
    form.node,
    result,
  );

  async function load() {
    const { partition, kind, value, count } = asked;
    try {
      const polled = await read(here, {
        query: { partition_id: partition, kind, value, count },
        signal,
      });
      const list = messageList(polled.messages, asked.as);
      shownFormat = list.show;
      result.replaceChildren(...around(polled, list.node, here, asked));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const text = error.isForbidden ? `You may not read these messages. ${error.message}` : error.message;
      result.replaceChildren(h("p", { role: "alert", class: "notice alert" }, text));
    }
  }
}

/** The parameters of the address, or what they are by default. */
function askedOf(query) {
  const one = (name, standard, isGood) => {
    const given = query.get(name);
    return given !== null && isGood(given) ? given : standard;
  };
  return {
    partition: one("partition", "0", (text) => DIGITS.test(text)),
    kind: one("kind", "last", (text) => STARTS.some(([kind]) => kind === text)),
    value: one("value", "0", (text) => DIGITS.test(text)),
    count: one("count", COUNTS[1], (text) => COUNTS.includes(text)),
    as: one("as", "auto", (text) => FORMATS.includes(text)),
  };
}

function startForm(asked, partitions, go) {
  const isTime = asked.kind === "timestamp";
  const fields = {
    partition: control({
      name: "partition", label: "Partition", type: "number", value: asked.partition,
      min: 0, max: Math.max(0, partitions.length - 1), required: true,
    }),
    kind: control({ name: "kind", label: "From", type: "select", value: asked.kind, options: STARTS }),
    offset: control({
      name: "offset", label: "Offset", value: isTime ? "0" : asked.value,
      inputmode: "numeric", pattern: "[0-9]{1,20}", required: true,
    }),
    time: control({
      name: "time", label: `Time (${timeZone()})`, type: "datetime-local", step: "0.001",
      value: isTime ? localText(asked.value) : localText(BigInt(Date.now()) * US_PER_MS),
      required: true,
    }),
    count: control({
      name: "count", label: "At most", type: "select", value: asked.count,
      options: COUNTS.map((count) => [count, `${count} messages`]),
    }),
    as: control({
      name: "as", label: "Shown as", type: "select", value: asked.as,
      options: FORMATS.map((format) => [format, WORDS[format]]),
    }),
  };
  const node = h(
    "form",
    { class: "start", "aria-label": "Which messages" },
    Object.values(fields).map((one) => one.node),
    h("button", { class: "main" }, "Show"),
  );
  fields.kind.input.addEventListener("change", fit);
  fit();
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    const kind = fields.kind.value();
    const value = kind === "timestamp" ? microseconds(fields.time.value()) : fields.offset.value();
    go({
      partition: fields.partition.value(),
      kind,
      value: kind === "offset" || kind === "timestamp" ? value : "0",
      count: fields.count.value(),
      as: fields.as.value(),
    });
  });
  return { node, format: fields.as.input };

  function fit() {
    for (const [kind, field] of [["offset", fields.offset], ["timestamp", fields.time]]) {
      const isMeant = fields.kind.value() === kind;
      field.node.hidden = !isMeant;
      field.input.disabled = !isMeant;
    }
  }
}

function around(polled, list, here, asked) {
  const { messages } = polled;
  if (messages.length === 0) {
    return [h("p", { class: "empty" }, "No messages here. There may be some from another place on.")];
  }
  const first = BigInt(messages[0].header.offset);
  const last = BigInt(messages.at(-1).header.offset);
  const step = BigInt(asked.count);
  const at = (offset) =>
    `#${here}?${new URLSearchParams({ ...asked, kind: "offset", value: String(offset) })}`;
  const summary = `Offsets ${whole(first)} to ${whole(last)}; the last one of the partition is ${whole(polled.current_offset)}.`;
  const turns = h(
    "nav",
    { class: "pager", "aria-label": "Pages of messages" },
    first > 0n ? link(at(first > step ? first - step : 0n), "Older") : null,
    last < BigInt(polled.current_offset) ? link(at(last + 1n), "Newer") : null,
  );
  return [h("p", { role: "status" }, summary), list, turns];
}

/** Microseconds since 1970 of what a field for a local time holds. */
function microseconds(text) {
  return String(BigInt(new Date(text).getTime()) * US_PER_MS);
}

/** What such a field holds for microseconds since 1970; years that it cannot hold are now. */
function localText(us) {
  const date = new Date(Number(BigInt(us) / US_PER_MS));
  const time = Number.isNaN(date.getTime()) ? new Date() : date;
  const local = new Date(time.getTime() - time.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 23);
}
