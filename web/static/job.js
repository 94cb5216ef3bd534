// Keeps the page of a job up to date. The server renders; this only says when, and which part to take.
"use strict";

(() => {
  const job = document.getElementById("job");
  if (!job || job.dataset.final === "true") return;

  const REFRESH_MS = 400; // at most so often, however many events come
  const ANSWER_MS = 20000; // a connection that has died must not be waited for
  const TICK_MS = 3000; // for the clock, and for all when no event stream is to be had
  let stream = null;
  let timer = null;
  let asking = false;
  let ticks = null;
  let wanted = new Set();
  let lost = false;
  let away = false;

  // One question at a time: an answer that comes late would put an older state over a newer one.
  const refresh = async () => {
    timer = null;
    asking = true;
    try {
      await take();
    } finally {
      asking = false;
    }
    if (wanted.size && stream && !away) ask();
  };

  const take = async () => {
    const parts = wanted;
    wanted = new Set();
    let page;
    try {
      const response = await fetch(location.pathname, {
        headers: { Accept: "text/html" },
        signal: AbortSignal.timeout(ANSWER_MS),
      });
      if (response.redirected) return lose("You are signed out", "Sign in again");
      if (response.status === 404) return lose("This job was deleted, or is not open to you any more", "Show why");
      if (!response.ok) throw new Error(response.statusText);
      page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (!page.getElementById("job")) throw new Error("not the page of a job");
      away = false;
    } catch {
      parts.forEach((part) => wanted.add(part)); // the server is away for a moment; the next tick asks again
      away = true;
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

  // What the reader has opened, and what the keyboard is at, stays so.
  const replace = (old, fresh) => {
    for (const summary of old.querySelectorAll("details[open] > summary")) {
      const again = counterpart(summary, fresh);
      if (again) again.parentElement.open = true;
    }
    if (old.isEqualNode(fresh)) return;
    const focused = old.contains(document.activeElement) ? counterpart(document.activeElement, fresh) : null;
    old.replaceWith(fresh);
    focused?.focus({ preventScroll: true });
  };

  const counterpart = (element, fresh) => {
    const alike = [...fresh.querySelectorAll(element.tagName)];
    return alike.find((other) => (element.id ? other.id === element.id : other.textContent === element.textContent));
  };

  const finish = (fresh) => {
    stop();
    replace(document.getElementById("job"), fresh);
    htmx.process(fresh);
    // What was opened and loads when it is clicked on has not been clicked on in this page. The event loads, and toggles nothing.
    fresh.querySelectorAll("details[data-once][open] > summary").forEach((summary) => htmx.trigger(summary, "click"));
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
    if (!asking) timer ??= setTimeout(refresh, REFRESH_MS);
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
    ticks = setInterval(() => (refused ? ask("live", "actions", "results") : ask("live")), TICK_MS);
    stream = new EventSource(job.dataset.events);
    const told = ["step", "failure", "culprit", "repro", "blame", "workaround"]; // a step may have left something in the report
    for (const type of ["status", "progress", "note"]) stream.addEventListener(type, () => ask("live", "actions"));
    for (const type of told) stream.addEventListener(type, () => ask("live", "actions", "results"));
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
