// Keeps the page of a job up to date. The server renders; this only says when, and which part to take.
"use strict";

(() => {
  const job = document.getElementById("job");
  if (!job || job.dataset.final === "true") return;

  const REFRESH_MS = 400; // at most so often, however many events come
  const TICK_MS = 3000; // for the clock, and for all when no event stream is to be had
  let stream = null;
  let timer = null;
  let ticks = null;
  let wanted = new Set();
  let lost = false;

  const refresh = async () => {
    timer = null;
    const parts = wanted;
    wanted = new Set();
    let page;
    try {
      const response = await fetch(location.pathname, { headers: { Accept: "text/html" } });
      if (response.redirected) return lose("You are signed out", "Sign in again");
      if (response.status === 404) return lose("This job was deleted, or is not open to you any more", "Show why");
      if (!response.ok) throw new Error(response.statusText);
      page = new DOMParser().parseFromString(await response.text(), "text/html");
    } catch {
      parts.forEach((part) => wanted.add(part)); // the server is away for a moment; the next tick asks again
      return;
    }
    const fresh = page.getElementById("job");
    if (fresh.dataset.final === "true") return finish(fresh);
    const feed = document.getElementById("feed")?.scrollTop ?? 0;
    for (const id of parts) replace(document.getElementById(id), page.getElementById(id));
    const list = document.getElementById("feed");
    if (list) list.scrollTop = feed;
    tell();
  };

  // What the keyboard is at stays so: htmx does the same by id.
  const replace = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
    old.replaceWith(fresh);
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  };

  const finish = (fresh) => {
    stop();
    replace(document.getElementById("job"), fresh);
    htmx.process(fresh);
    tell();
  };

  // Nothing will change here any more. What was found stays to be read.
  const lose = (why, what) => {
    lost = true;
    stop();
    const again = document.createElement("a");
    again.href = location.href;
    again.textContent = what;
    const line = document.getElementById("lost");
    line.replaceChildren(`${why}, so this page does not follow the job any further. `, again);
    line.hidden = false;
  };

  const tell = () => {
    const live = document.getElementById("live");
    document.title = live.dataset.title;
    const line = document.getElementById("announce");
    if (line.textContent !== live.dataset.announce) line.textContent = live.dataset.announce;
  };

  const ask = (...parts) => {
    parts.forEach((part) => wanted.add(part));
    timer ??= setTimeout(refresh, REFRESH_MS);
  };

  const stop = () => {
    stream?.close();
    stream = null;
    clearInterval(ticks);
    ticks = null;
    clearTimeout(timer);
    timer = null;
  };

  const start = () => {
    let refused = false;
    ticks = setInterval(() => (refused ? ask("live", "results") : ask("live")), TICK_MS);
    stream = new EventSource(job.dataset.events);
    const told = ["step", "failure", "culprit", "repro", "blame", "workaround"]; // a step may have left something in the report
    for (const type of ["status", "progress", "note"]) stream.addEventListener(type, () => ask("live"));
    for (const type of told) stream.addEventListener(type, () => ask("live", "results"));
    stream.addEventListener("end", () => { stream.close(); ask("live", "results"); });
    stream.onerror = () => {
      // CLOSED means refused for good (all streams are taken); otherwise the browser reconnects by itself.
      if (stream?.readyState === EventSource.CLOSED) refused = true;
    };
  };

  // A hidden tab needs no stream; there are only so many of them.
  document.addEventListener("visibilitychange", () => {
    if (lost || document.getElementById("job").dataset.final === "true") return;
    stop();
    if (!document.hidden) start();
  });
  addEventListener("pagehide", stop);
  start();
})();
