// JSON without loss: numbers above 2^53 are exact, and documents are laid out as they were written.

const INTEGER = /^-?\d+$/;
const INDENT = "  ";
const DEPTH_MAX = 100; // levels; what is nested deeper is shown as it came

/** The value of a text; integers that a number cannot hold become BigInt. */
export function parseExact(text) {
  return JSON.parse(text, (key, value, context) =>
    typeof value === "number" && !Number.isSafeInteger(value) && INTEGER.test(context.source)
      ? BigInt(context.source)
      : value,
  );
}

/**
 * A document with line breaks and indents; null if it is no JSON. Only white space is changed, so
 * numbers, escapes and keys that come twice stay as they are.
 */
export function laidOut(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const lines = [];
  let line = "";
  let depth = 0;
  const tokens = [...tokensOf(text)];
  for (const [place, token] of tokens.entries()) {
    const next = tokens[place + 1];
    if (token === "{" || token === "[") {
      if (next === "}" || next === "]") {
        line += token;
        continue;
      }
      lines.push(line + token);
      depth += 1;
      if (depth > DEPTH_MAX) return text;
      line = INDENT.repeat(depth);
    } else if (token === "}" || token === "]") {
      const opened = tokens[place - 1];
      if (opened !== "{" && opened !== "[") {
        lines.push(line);
        depth -= 1;
        line = INDENT.repeat(depth);
      }
      line += token;
    } else if (token === ",") {
      lines.push(line + token);
      line = INDENT.repeat(depth);
    } else {
      line += token === ":" ? ": " : token;
    }
  }
  lines.push(line);
  return lines.join("\n");
}

/** Brackets, commas, colons, and what stands between them. The text is known to be JSON. */
function* tokensOf(text) {
  let at = 0;
  while (at < text.length) {
    const start = at;
    const first = text[at];
    at += 1;
    if (" \t\r\n".includes(first)) continue;
    if (first === '"') {
      while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
      at += 1;
    } else if (!"{}[],:".includes(first)) {
      while (at < text.length && !' \t\r\n{}[],:"'.includes(text[at])) at += 1;
    }
    yield text.slice(start, at);
  }
}
