// How the broker does: throughput as it happens, and the figures of GET /stats.

import { ApiError, read } from "../api.js";
import { lineChart } from "../chart.js";
import { facts, h, notice } from "../dom.js";
import { bytes, duration, short, size, whole } from "../format.js";
import { PATH, readMetrics, total } from "../metrics.js";
import { every } from "../poller.js";
import { Throughput } from "../throughput.js";

const EVERY_MS = 2000;
const MESSAGES_IN = "iggy_messages_received_total";
const MESSAGES_OUT = "iggy_messages_sent_total";
const BYTES_IN = "iggy_bytes_received_total";
const BYTES_OUT = "iggy_bytes_sent_total";
const NAMES = [MESSAGES_IN, MESSAGES_OUT, BYTES_IN, BYTES_OUT];

const throughput = new Throughput(NAMES); // goes on when one comes back to this page

/** The page. */
export async function overviewView({ signal }) {
  const said = notice();
  const figures = h("div");
  const charts = [
    lineChart({
      title: "Messages per second",
      series: [{ name: MESSAGES_IN, label: "in" }, { name: MESSAGES_OUT, label: "out" }],
      format: short,
    }),
    lineChart({
      title: "Bytes per second",
      series: [{ name: BYTES_IN, label: "in" }, { name: BYTES_OUT, label: "out" }],
      format: bytes,
    }),
  ];

  every(EVERY_MS, signal, async () => {
    const problems = [];
    for (const part of [showStats, ...(PATH ? [sample] : [])]) {
      try {
        await part();
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof ApiError)) throw error;
        problems.push(error.isForbidden ? `You may not see the figures. ${error.message}` : error.message);
      }
    }
    said.textContent = [...new Set(problems)].join(" ");
  });

  async function showStats() {
    figures.replaceChildren(statsOf(await read("/stats", { signal })));
  }

  async function sample() {
    const samples = await readMetrics(NAMES, signal);
    const now = performance.now() / 1000;
    throughput.add(now, Object.fromEntries(NAMES.map((name) => [name, total(samples, name)])));
    for (const chart of charts) chart.draw(throughput.points, now);
  }

  return h(
    "section",
    {},
    h("h1", {}, "Overview"),
    said,
    PATH
      ? h("div", { class: "charts" }, charts.map((one) => one.node))
      : h("p", { class: "hint" }, "No charts: the broker has http.metrics.enabled = false."),
    figures,
  );
}

function statsOf(stats) {
  return h(
    "div",
    { class: "stack" },
    h("h2", {}, "Stored"),
    facts([
      ["Streams", whole(stats.streams_count)],
      ["Topics", whole(stats.topics_count)],
      ["Partitions", whole(stats.partitions_count)],
      ["Segments", whole(stats.segments_count)],
      ["Messages", whole(stats.messages_count)],
      ["Size", size(stats.messages_size_bytes)],
      ["Groups", whole(stats.consumer_groups_count)],
      ["Clients", whole(stats.clients_count)],
    ]),
    h("h2", {}, "Broker"),
    facts([
      ["Version", stats.iggy_server_version],
      ["Host", stats.hostname],
      ["Running for", duration(stats.run_time)],
      ["Processor", `${stats.cpu_usage.toFixed(1)} %`],
      ["Memory", size(stats.memory_usage)],
      ["Threads", whole(stats.threads_count)],
      ["Free on the disk", size(stats.free_disk_space)],
      ["System", `${stats.os_name} ${stats.os_version}`],
    ]),
  );
}
