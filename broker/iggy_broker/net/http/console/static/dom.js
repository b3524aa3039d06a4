// Elements of the page. Text is always a text node: nothing here can turn data into HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element. Properties that begin with "on" are listeners, true and false make attributes
 * come and go, all else is an attribute. Children: nodes, text, numbers, lists of those; null and
 * false are left out.
 */
export function h(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** An element of SVG, in the same way. */
export function svg(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value);
    }
  }
  element.append(...nodes(children));
  return element;
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}

/** A link to a place of the console, like "#/streams". */
export function link(place, ...children) {
  return h("a", { href: place }, ...children);
}

/** A button that does something. */
export function button(text, onclick, properties = {}) {
  return h("button", { type: "button", onclick, ...properties }, text);
}

/** Pairs of a term and what it is. */
export function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))),
  );
}

/** A text that is read out when it changes, for what went wrong or right. */
export function notice(role = "status") {
  return h("p", { role, class: `notice ${role}` });
}
