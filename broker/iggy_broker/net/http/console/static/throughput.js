// Rates from counters: the difference of two samples, by the time between them.

const POINTS_MAX = 150; // five minutes of one every two seconds
const GAP_S = 15; // without samples for so long, the line is interrupted

/** Collects samples of counters as rates. */
export class Throughput {
  /** `names`: of the counters. */
  constructor(names) {
    this.names = names;
    this.points = []; // {at, rates}, `at` in seconds; rates null: nothing is known in between
    this.before = null;
  }

  /** Take totals by name, read at a time in seconds. */
  add(at, totals) {
    const { before } = this;
    this.before = { at, totals };
    if (before === null) return;
    const took = at - before.at;
    const steps = this.names.map((name) => totals[name] - before.totals[name]);
    const isKnown = took < GAP_S && steps.every((step) => step >= 0); // less: it was restarted
    const rates = isKnown
      ? Object.fromEntries(this.names.map((name, place) => [name, steps[place] / took]))
      : null;
    this.points.push({ at, rates });
    if (this.points.length > POINTS_MAX) this.points.shift();
  }
}
