// Figures that the API has nowhere else: counters for the charts, and the lag of groups.

import { readText } from "./api.js";

/** Where metrics are; empty if the broker does not serve them here. */
export const PATH = document.querySelector('meta[name="metrics"]').content;

const SAMPLE = /^(\w+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/gy;
const ESCAPED = { "\\n": "\n", '\\"': '"', "\\\\": "\\" };

/** Samples of the metrics with these names: a list of {name, labels, value}. */
export async function readMetrics(names, signal) {
  return parsed(await readText(PATH, { signal }), names);
}

/** The same of a text of metrics. */
export function parsed(text, names) {
  const wanted = new Set(names);
  const found = [];
  for (const line of text.split("\n")) {
    if (!wanted.has(line.slice(0, line.search(/[{ ]/)))) continue;
    const [, name, labels, value] = SAMPLE.exec(line) ?? [];
    if (name !== undefined) found.push({ name, labels: labelsOf(labels ?? ""), value });
  }
  return found;
}

/** All samples of a name together. */
export function total(samples, name) {
  return samples
    .filter((one) => one.name === name)
    .reduce((sum, one) => sum + Number(one.value), 0);
}

const GROUP_LAG = "iggy_group_lag_messages";
const PARTITION_LAG = "iggy_group_partition_lag_messages";

/** Lags in one topic: {ofGroup(group), ofPartition(group, partition)}, undefined if not known. */
export async function readLags(stream, topic, signal) {
  const samples = (await readMetrics([GROUP_LAG, PARTITION_LAG], signal)).filter(
    ({ labels }) => labels.stream === stream && labels.topic === topic,
  );
  const groups = new Map();
  const partitions = new Map();
  for (const { name, labels, value } of samples) {
    if (name === GROUP_LAG) groups.set(labels.group, value);
    else partitions.set(`${labels.partition} ${labels.group}`, value);
  }
  return {
    ofGroup: (group) => groups.get(group),
    ofPartition: (group, partition) => partitions.get(`${partition} ${group}`),
  };
}

function labelsOf(text) {
  const labels = {};
  LABEL.lastIndex = 0;
  for (let match = LABEL.exec(text); match !== null; match = LABEL.exec(text)) {
    labels[match[1]] = match[2].replace(/\\[n"\\]/g, (escape) => ESCAPED[escape]);
    LABEL.lastIndex += text[LABEL.lastIndex] === "," ? 1 : 0;
  }
  return labels;
}
