// Work that is done again and again while the page is looked at.

const REST = 9; // a round that took a second is followed by so many of rest, at least

/**
 * Do `work` now and every so often until the signal is aborted; not while the tab is hidden. One
 * round at a time; slow answers make the pauses longer.
 */
export function every(intervalMs, signal, work) {
  let timer = null;
  let isRunning = false;

  async function round() {
    if (isRunning || signal.aborted || document.hidden) return;
    isRunning = true;
    const began = performance.now();
    try {
      await work();
    } finally {
      isRunning = false;
    }
    const took = performance.now() - began;
    clearTimeout(timer);
    if (!signal.aborted) timer = setTimeout(round, Math.max(intervalMs, took * REST));
  }

  document.addEventListener("visibilitychange", round, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  round();
}
