// What several pages have in common.

import { h, link } from "../dom.js";

/** The way from the top to this page: a list of [place, text], the last one is here. */
export function trail(...steps) {
  const items = steps.map(([place, text]) =>
    h("li", {}, place === null ? h("span", { "aria-current": "page" }, text) : link(place, text)),
  );
  return h("nav", { class: "trail", "aria-label": "Where this is" }, h("ol", {}, items));
}

/** A heading with buttons or links beside it. */
export function heading(tag, text, ...actions) {
  return h("div", { class: "heading" }, h(tag, {}, text), h("div", { class: "actions" }, actions));
}
