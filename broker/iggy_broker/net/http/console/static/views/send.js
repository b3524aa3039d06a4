// Sending one message by hand.

import { change } from "../api.js";
import { ask } from "../dialog.js";
import { toBase64 } from "../payload.js";

const PAYLOAD_CHARACTERS_MAX = 100_000; // typed; programs send more
const BALANCED = "balanced";
const KEYED = "key";

/** Ask for a message and send it to the topic at `here`; resolves to whether it was sent. */
export function sendMessage(here, partitions) {
  const places = partitions.map((one) => [String(one.id), `partition ${one.id}`]);
  return ask({
    title: "Send a message",
    fields: [
      { name: "payload", label: "Payload", type: "textarea", required: true, maxlength: PAYLOAD_CHARACTERS_MAX },
      {
        name: "where",
        label: "To",
        type: "select",
        value: BALANCED,
        options: [[BALANCED, "any partition"], [KEYED, "the partition of a key"], ...places],
      },
      { name: "key", label: "Key", maxlength: 255, hint: "For the partition of a key" },
    ],
    action: "Send",
    run: ({ payload, where, key }) =>
      change("POST", `${here}/messages`, {
        partitioning: partitioningOf(where, key),
        messages: [{ payload: textBase64(payload) }],
      }),
  });
}

function partitioningOf(where, key) {
  if (where === BALANCED) return { kind: "balanced", value: "" };
  if (where === KEYED) return { kind: "messages_key", value: textBase64(key) };
  const number = new DataView(new ArrayBuffer(4));
  number.setUint32(0, Number(where), true);
  return { kind: "partition_id", value: toBase64(new Uint8Array(number.buffer)) };
}

function textBase64(text) {
  return toBase64(new TextEncoder().encode(text));
}
