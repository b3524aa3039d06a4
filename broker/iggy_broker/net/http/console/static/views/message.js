// Messages as they are shown. What is in them comes from anybody: it is text here, never HTML.

import { button, facts, h } from "../dom.js";
import { time, whole } from "../format.js";
import { cut, fromBase64, headerText, shown } from "../payload.js";

const SHOWN_BYTES_MAX = 4096; // of a payload, at first
const ALL_BYTES_MAX = 1 << 20; // of a payload on the page; a larger one can be downloaded

/** {node, show}: a list of messages; `show` changes the format of all payloads. */
export function messageList(messages, format) {
  const made = messages.map((one) => message(one, format));
  return {
    node: h("ol", { class: "messages" }, made.map((one) => one.node)),
    show: (next) => made.forEach((one) => one.show(next)),
  };
}

function message({ header, payload, user_headers: headers }, format) {
  const content = fromBase64(payload);
  const text = h("pre", { tabindex: "0", "aria-label": `Payload at offset ${header.offset}` });
  const remark = h("span", { class: "remark" });
  const more = button("Show all", () => {
    isWhole = true;
    show(current);
  });
  let isWhole = content.length <= SHOWN_BYTES_MAX;
  let current = format;
  show(format);
  const node = h(
    "li",
    {},
    facts([
      ["Offset", whole(header.offset)],
      ["Time", time(header.timestamp)],
      ["Sent", time(header.origin_timestamp)],
      ["Id", h("code", {}, header.id)],
      ["Size", `${whole(content.length)} B`],
    ]),
    headersOf(headers),
    text,
    h("div", { class: "actions" }, remark, more, button("Download", () => download(content, header.offset))),
  );
  return { node, show };

  function show(next) {
    current = next;
    more.hidden = isWhole || content.length > ALL_BYTES_MAX;
    if (isWhole) {
      const found = shown(content, next);
      text.textContent = found.text;
      remark.textContent = found.remark;
    } else {
      const part = cut(content, SHOWN_BYTES_MAX);
      text.textContent = shown(part, next === "json" ? "auto" : next).text;
      remark.textContent = `the first ${whole(part.length)} of ${whole(content.length)} bytes`;
    }
  }
}

function headersOf(headers) {
  if (typeof headers === "string") {
    return facts([["Headers that cannot be read", h("code", {}, headers)]]);
  }
  if (headers.length === 0) return null;
  const pairs = headers.map(({ key, value }) => [headerText(key), h("code", {}, headerText(value))]);
  return h("div", { class: "headers" }, facts(pairs));
}

function download(content, offset) {
  const url = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
  h("a", { href: url, download: `message-${offset}.bin` }).click();
  URL.revokeObjectURL(url);
}
