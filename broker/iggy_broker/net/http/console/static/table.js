// Tables that stay quick however long the list is: one page of rows, and a filter.

import { button, h } from "./dom.js";

const ROWS_MAX = 50; // shown at once
const FILTER_FROM = 10; // rows; a shorter list needs none

/**
 * `columns`: a list of {title, cell, isNumber}; a cell makes a node or text of a row. `text` makes
 * the text of a row that the filter looks at. `empty` is said if there are no rows at all.
 */
export function table({ label, columns, rows, text = null, empty }) {
  if (rows.length === 0) return h("p", { class: "empty" }, empty);
  let found = rows;
  let first = 0;
  const body = h("tbody");
  const place = h("span", { role: "status" });
  const back = button("Previous page", () => turn(-ROWS_MAX));
  const on = button("Next page", () => turn(ROWS_MAX));
  const pager = h("div", { class: "pager" }, back, on, place);
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${label}` });
  filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    found = rows.filter((row) => text(row).toLowerCase().includes(wanted));
    first = 0;
    fill();
  });
  const head = columns.map((one) => h("th", { scope: "col", class: kind(one) }, one.title));
  fill();
  return h(
    "div",
    {},
    text !== null && rows.length > FILTER_FROM ? filter : null,
    h(
      "div",
      { class: "scrolls", role: "region", "aria-label": label, tabindex: "0" },
      h("table", {}, h("caption", { class: "unseen" }, label), h("thead", {}, h("tr", {}, head)), body),
    ),
    rows.length > ROWS_MAX ? pager : null,
  );

  function turn(rowsOn) {
    first += rowsOn;
    fill();
  }

  function fill() {
    const shown = found.slice(first, first + ROWS_MAX);
    body.replaceChildren(
      ...shown.map((row) =>
        h("tr", {}, columns.map((one) => h("td", { class: kind(one) }, one.cell(row)))),
      ),
    );
    back.disabled = first === 0;
    on.disabled = first + ROWS_MAX >= found.length;
    place.textContent = shown.length
      ? `${first + 1} to ${first + shown.length} of ${found.length}`
      : "nothing fits the filter";
  }
}

function kind(column) {
  return column.isNumber ? "number" : false;
}
