// Payloads and user headers, which are bytes that nobody vouches for, as text.

import { laidOut } from "./json.js";

const ROW_BYTES = 16;
const STRICT = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const LAX = new TextDecoder("utf-8", { ignoreBOM: true });
const INTEGERS = /^u?int(8|16|32|64|128)$/;

/** How payloads can be shown. */
export const FORMATS = ["auto", "text", "json", "hex"];

/** The bytes of base64. */
export function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Base64 of bytes. */
export function toBase64(content) {
  return btoa(Array.from(content, (byte) => String.fromCharCode(byte)).join(""));
}

/** {text, remark}: bytes in one of the formats; the remark says where that does not fit. */
export function shown(content, format) {
  if (format === "hex") return { text: hex(content), remark: "" };
  const text = strict(content);
  if (format === "text") {
    return { text: text ?? LAX.decode(content), remark: text === null ? "not UTF-8" : "" };
  }
  const document = text === null ? null : laidOut(text);
  if (document !== null) return { text: document, remark: "" };
  const remark = format === "json" ? "no JSON" : "";
  if (text !== null) return { text, remark };
  return { text: hex(content), remark: remark || "not UTF-8" };
}

/** Rows of offset, sixteen bytes and their letters. */
export function hex(content) {
  const rows = [];
  for (let at = 0; at < content.length; at += ROW_BYTES) {
    const row = [...content.subarray(at, at + ROW_BYTES)];
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "."));
    const place = at.toString(16).padStart(8, "0");
    rows.push(`${place}  ${digits.padEnd(ROW_BYTES * 3)} ${letters.join("")}`);
  }
  return rows.join("\n");
}

/** Key or value of a user header: {kind, value}, the value base64 of little-endian bytes. */
export function headerText({ kind, value }) {
  const content = fromBase64(value);
  const view = new DataView(content.buffer);
  if (kind === "string") return LAX.decode(content);
  if (kind === "bool") return String(content[0] === 1);
  if (kind === "float32") return String(view.getFloat32(0, true));
  if (kind === "float64") return String(view.getFloat64(0, true));
  if (INTEGERS.test(kind)) return String(integer(content, kind.startsWith("u")));
  return [...content].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

function integer(content, isUnsigned) {
  const value = content.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  return isUnsigned ? value : BigInt.asIntN(content.length * 8, value);
}

function strict(content) {
  try {
    return STRICT.decode(content);
  } catch {
    return null;
  }
}

/** The first bytes, not ending inside a letter of UTF-8. */
export function cut(content, most) {
  let end = Math.min(most, content.length);
  for (let back = 0; back < 3 && end < content.length && (content[end] & 0xc0) === 0x80; back += 1) {
    end -= 1;
  }
  return content.subarray(0, end);
}
